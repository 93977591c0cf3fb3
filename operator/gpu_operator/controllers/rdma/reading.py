"""Parsing of the objects that RDMA policies depend on, reduced to the relevant fields.

Functions return None for irrelevant objects, which are not stored. Of a pod only labels,
addresses and names are stored, so only pods with an HCA use memory.
"""

import logging
from dataclasses import dataclass, field, replace
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
from rdma.kinds import NETWORK_KIND, POLICY_KIND
from rdma.objects import NamespaceFacts, Network, PodFacts, Policy
from rdma.reading import manifests

Document = dict[str, Any]
_StatusT = TypeVar("_StatusT", bound=RDMAStatus)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SeenPolicy:
    """An RDMANetworkPolicy. If it is invalid, ``problem`` is set and ``policy`` denies
    everything.
    """

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
    """An RDMANetwork; ``network`` is None if the object is invalid.

    The status of an invalid object can show that the network was in force earlier. Then
    ``closed`` is a network that takes its place. Without ``closed``, a restart of the operator
    would move the network's members to the default partition.
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
    """The RDMANodeTables of a node, with a digest in place of the tables' text."""

    node: str
    uid: str
    generation: int
    digest: str
    status: RDMANodeTablesStatus
    version: int = 0


def read_pod(document: Document) -> PodFacts | None:
    """Parse a pod; return None unless it has a node, holds an HCA and is not in the host's
    network.
    """
    try:
        facts = manifests.pod(document)
    except PolicyError as err:
        _log.error("ignoring pod %s: %s", document["metadata"].get("name"), err)
        return None
    return facts if facts.holds_hca and not facts.host_network and facts.node else None


def read_namespace(document: Document) -> NamespaceFacts | None:
    """Parse a namespace; return None if it is invalid."""
    try:
        return manifests.namespace(document)
    except PolicyError as err:
        _log.error("ignoring namespace %s: %s", document["metadata"].get("name"), err)
        return None


def read_node(document: Document) -> str | None:
    """Return the node's name if it has HCA functions, else None."""
    capacity = (document.get("status") or {}).get("capacity") or {}
    return str(document["metadata"]["name"]) if capacity.get(HCA_RESOURCE, "0") != "0" else None


def read_policy(document: Document) -> SeenPolicy:
    """Parse an RDMANetworkPolicy; an invalid one becomes a policy that denies everything."""
    meta = meta_of({**document, "kind": POLICY_KIND})
    space, spec = str(document["metadata"]["namespace"]), document.get("spec")
    status = _status(document, RDMANetworkPolicyStatus)
    try:
        read = manifests.policy_of(space, meta.name, spec, meta.created)
    except PolicyError as err:
        shut = manifests.closed_policy(space, meta.name, spec, meta.created)
        return SeenPolicy(meta, space, shut, str(err), status, _version(document))
    return SeenPolicy(meta, space, read, "", status, _version(document))


def read_network(document: Document) -> SeenNetwork:
    """Parse an RDMANetwork."""
    meta = meta_of({**document, "kind": NETWORK_KIND})
    status = _status(document, RDMANetworkStatus)
    try:
        read = manifests.network_of(meta.name, document.get("spec"), meta.created)
    except PolicyError as err:
        shut = manifests.closed_network(meta.name, document.get("spec"), meta.created)
        was_in_force = bool(status.partitions)
        version, closed = _version(document), shut if was_in_force else None
        return SeenNetwork(meta, None, str(err), status, version, closed)
    return SeenNetwork(meta, read, "", status, _version(document))


class SpecReader:
    """Reads policies and networks; one whose specification has not changed is not parsed again.

    Without this, each status that the operator writes would cost the parsing of a specification.
    """

    def __init__(self) -> None:
        """Initialize without any object."""
        self._policies: dict[str, SeenPolicy] = {}
        self._networks: dict[str, SeenNetwork] = {}

    def read_policy(self, document: Document) -> SeenPolicy:
        """Parse an RDMANetworkPolicy like ``reading.read_policy``."""
        refreshed = self._refresh_policy(document)
        policy = read_policy(document) if refreshed is None else refreshed
        self._policies[_key(document)] = policy
        return policy

    def read_network(self, document: Document) -> SeenNetwork:
        """Parse an RDMANetwork like ``reading.read_network``."""
        refreshed = self._refresh_network(document)
        network = read_network(document) if refreshed is None else refreshed
        self._networks[_key(document)] = network
        return network

    def refresh(self, kind: str, document: Document) -> SeenPolicy | SeenNetwork | None:
        """Read an object whose specification was read before; return None if it must be parsed."""
        if kind == POLICY_KIND:
            return self._refresh_policy(document)
        return self._refresh_network(document)

    def forget(self, kind: str, key: str) -> None:
        """Forget a deleted object."""
        objects: dict[str, Any] = {POLICY_KIND: self._policies, NETWORK_KIND: self._networks}
        objects.get(kind, {}).pop(key, None)

    def _refresh_policy(self, document: Document) -> SeenPolicy | None:
        earlier_policy = self._policies.get(_key(document))
        meta = meta_of({**document, "kind": POLICY_KIND})
        if earlier_policy is None or not _is_same_spec(earlier_policy.meta, meta):
            return None
        status = _status(document, RDMANetworkPolicyStatus)
        return replace(earlier_policy, meta=meta, status=status, version=_version(document))

    def _refresh_network(self, document: Document) -> SeenNetwork | None:
        earlier_network = self._networks.get(_key(document))
        meta = meta_of({**document, "kind": NETWORK_KIND})
        # What takes the place of an invalid network depends on its status.
        if (
            earlier_network is None
            or earlier_network.network is None
            or not _is_same_spec(earlier_network.meta, meta)
        ):
            return None
        status = _status(document, RDMANetworkStatus)
        return replace(earlier_network, meta=meta, status=status, version=_version(document))


def _is_same_spec(earlier_meta: Meta, meta: Meta) -> bool:
    return (earlier_meta.uid, earlier_meta.generation, earlier_meta.created) == (
        meta.uid,
        meta.generation,
        meta.created,
    )


def _key(document: Document) -> str:
    metadata = document["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def read_tables(document: Document) -> SeenTables:
    """Parse the tables that were written for a node, and the agent's status."""
    metadata, spec = document["metadata"], document.get("spec") or {}
    try:
        status = RDMANodeTablesStatus.model_validate(document.get("status") or {})
    except ValidationError:
        status = RDMANodeTablesStatus()
    tables_digest = digest(str(spec.get("encoding") or ""), str(spec.get("tables") or ""))
    generation = int(spec.get("generation") or 0)
    uid, version = metadata.get("uid", ""), _version(document)
    return SeenTables(metadata["name"], uid, generation, tables_digest, status, version)


def read_heartbeat(document: Document) -> str:
    """Return the time at which a node's agent last renewed its Lease.

    The time is not parsed: a caller only tests whether it differs from the previous time.
    """
    return str((document.get("spec") or {}).get("renewTime") or "")


def _version(document: Document) -> int:
    """Return an object's resourceVersion as a number, which increases within a kind."""
    text = str(document["metadata"].get("resourceVersion") or "")
    return int(text) if text.isdecimal() else 0


def _status(document: Document, model: type[_StatusT]) -> _StatusT:
    try:
        return model.model_validate(document.get("status") or {})
    except ValidationError:
        return model()
