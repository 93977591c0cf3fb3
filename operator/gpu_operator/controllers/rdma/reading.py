"""Objects as the API server sends them, cut down to what policies of RDMA ask about.

Each returns None for an object that is of no interest; it is not kept then. What is kept of a pod
is its labels, addresses and names: a cluster's pods cost memory only where they hold an HCA.
"""

import logging
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import ValidationError

from gpu_operator.api.v1alpha1.rdma import HCA_RESOURCE
from gpu_operator.api.v1alpha1.rdma.common import RDMAStatus
from gpu_operator.api.v1alpha1.rdma.network import RDMANetworkStatus
from gpu_operator.api.v1alpha1.rdma.packing import digest
from gpu_operator.api.v1alpha1.rdma.policy import RDMANetworkPolicyStatus
from gpu_operator.api.v1alpha1.rdma.tables import RDMANodeTablesStatus
from gpu_operator.api.v1alpha1.resource import Meta, meta_of
from rdma.errors import PolicyError
from rdma.objects import NamespaceFacts, Network, PodFacts, Policy
from rdma.reading import manifests

Document = dict[str, Any]
_StatusT = TypeVar("_StatusT", bound=RDMAStatus)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SeenPolicy:
    """An RDMANetworkPolicy. ``problem`` says what cannot be read; ``policy`` is closed then."""

    meta: Meta
    namespace: str
    policy: Policy
    problem: str = ""
    status: RDMANetworkPolicyStatus = field(default_factory=RDMANetworkPolicyStatus)
    version: int = 0

    @property
    def uid(self) -> str:
        return self.meta.uid


@dataclass(frozen=True, slots=True)
class SeenNetwork:
    """An RDMANetwork; one that cannot be read has no ``network``.

    ``closed`` stands for one that cannot be read and was in force, which its status tells: without
    it a restart of the operator would put its members back into the default partition.
    """

    meta: Meta
    network: Network | None
    problem: str = ""
    status: RDMANetworkStatus = field(default_factory=RDMANetworkStatus)
    version: int = 0
    closed: Network | None = None

    @property
    def uid(self) -> str:
        return self.meta.uid


@dataclass(frozen=True, slots=True)
class SeenTables:
    """RDMANodeTables without the text, of which only a digest is kept."""

    node: str
    uid: str
    generation: int
    digest: str
    status: RDMANodeTablesStatus
    version: int = 0


def pod(document: Document) -> PodFacts | None:
    """Return a pod that holds an HCA and is on a node."""
    try:
        facts = manifests.pod(document)
    except PolicyError as err:
        _log.error("pod %s is passed over: %s", document["metadata"].get("name"), err)
        return None
    return facts if facts.holds_hca and not facts.host_network and facts.node else None


def namespace(document: Document) -> NamespaceFacts | None:
    """Return a namespace."""
    try:
        return manifests.namespace(document)
    except PolicyError as err:
        _log.error("namespace %s is passed over: %s", document["metadata"].get("name"), err)
        return None


def node(document: Document) -> str | None:
    """Return the name of a node that has HCA functions."""
    capacity = (document.get("status") or {}).get("capacity") or {}
    return str(document["metadata"]["name"]) if capacity.get(HCA_RESOURCE, "0") != "0" else None


def policy(document: Document) -> SeenPolicy:
    """Return an RDMANetworkPolicy; of one that cannot be read what denies everything."""
    meta = meta_of({**document, "kind": manifests.POLICY_KIND})
    space, spec = str(document["metadata"]["namespace"]), document.get("spec")
    status = _status(document, RDMANetworkPolicyStatus)
    try:
        read = manifests.policy_of(space, meta.name, spec, meta.created)
    except PolicyError as err:
        shut = manifests.closed(space, meta.name, spec, meta.created)
        return SeenPolicy(meta, space, shut, str(err), status, _version(document))
    return SeenPolicy(meta, space, read, "", status, _version(document))


def network(document: Document) -> SeenNetwork:
    """Return an RDMANetwork."""
    meta = meta_of({**document, "kind": manifests.NETWORK_KIND})
    status = _status(document, RDMANetworkStatus)
    try:
        read = manifests.network_of(meta.name, document.get("spec"), meta.created)
    except PolicyError as err:
        shut = manifests.closed_network(meta.name, document.get("spec"), meta.created)
        was_in_force = bool(status.partitions)
        version, closed = _version(document), shut if was_in_force else None
        return SeenNetwork(meta, None, str(err), status, version, closed)
    return SeenNetwork(meta, read, "", status, _version(document))


def tables(document: Document) -> SeenTables:
    """Return what was written for a node, and what its agent says."""
    metadata, spec = document["metadata"], document.get("spec") or {}
    try:
        status = RDMANodeTablesStatus.model_validate(document.get("status") or {})
    except ValidationError:
        status = RDMANodeTablesStatus()
    found = digest(str(spec.get("encoding") or ""), str(spec.get("tables") or ""))
    generation = int(spec.get("generation") or 0)
    uid, version = metadata.get("uid", ""), _version(document)
    return SeenTables(metadata["name"], uid, generation, found, status, version)


def heartbeat(document: Document) -> str:
    """Return when a node's agent last renewed its Lease; only that it changes counts."""
    return str((document.get("spec") or {}).get("renewTime") or "")


def _version(document: Document) -> int:
    """Return the resourceVersion; those of a kind only grow."""
    text = str(document["metadata"].get("resourceVersion") or "")
    return int(text) if text.isdecimal() else 0


def _status(document: Document, model: type[_StatusT]) -> _StatusT:
    try:
        return model.model_validate(document.get("status") or {})
    except ValidationError:
        return model()
