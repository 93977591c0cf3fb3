"""What pasted RDMA policies and networks would change; nothing is applied."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from console.model.fabric import Fabric, KnownNetwork, KnownPolicy
from console.views import reach
from console.views.manifest import ManifestError, read_documents
from console.views.operation.memory_access import describe_removed
from console.views.reach import Cell
from gpu_operator.controllers.rdma import reading
from gpu_operator.controllers.rdma.reading import SeenNetwork, SeenPolicy
from rdma.kinds import NETWORK_KIND, POLICY_KIND
from rdma.objects import PodFacts
from rdma.reading.manifests import GROUP

MOST_DOCUMENTS: Final = 16
SHOWN: Final = 200
_VERSION: Final = "v1alpha1"
_LONGEST_NAME: Final = 253


@dataclass(frozen=True, slots=True)
class Change:
    """A pair of pods whose verbs change."""

    source: PodFacts
    destination: PodFacts
    before: Cell
    after: Cell


@dataclass(frozen=True, slots=True)
class Outcome:
    """The pairs that change, among the pods that a matrix shows."""

    objects: tuple[str, ...]
    problems: tuple[str, ...]
    changes: tuple[Change, ...]
    more: int
    pods: int
    more_pods: int
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Proposal:
    """Objects that would be created or replaced, as a model stores them."""

    puts: tuple[tuple[str, str, SeenPolicy | SeenNetwork], ...]
    removed: tuple[str, ...] = ()
    """Which verbs rules with ``maxAccess: ReadOnly`` lose."""

    @property
    def problems(self) -> tuple[str, ...]:
        """Return what is wrong with objects that the operator would take as invalid."""
        return tuple(
            f"{kind} {key}: {proposed.problem}"
            for kind, key, proposed in self.puts
            if proposed.problem
        )


def list_objects(fabric: Fabric) -> tuple[str, ...]:
    """Return the policies and networks of the cluster, each as "Kind namespace/name"."""
    policies = (f"{POLICY_KIND} {key}" for key in sorted(fabric.policies))
    return (*policies, *(f"{NETWORK_KIND} {key}" for key in sorted(fabric.networks)))


def write_object(fabric: Fabric, name: str) -> str:
    """Return the manifest of an object that ``list_objects`` names; empty if there is none."""
    kind, _, key = name.partition(" ")
    objects: Mapping[str, SeenPolicy | SeenNetwork] = {}
    if kind in (POLICY_KIND, NETWORK_KIND):
        objects = fabric.policies if kind == POLICY_KIND else fabric.networks
    fabric_object = objects.get(key)
    if not isinstance(fabric_object, KnownPolicy | KnownNetwork):
        return ""
    space, _, short = key.rpartition("/")
    document = {
        "apiVersion": f"{GROUP}/{_VERSION}",
        "kind": kind,
        "metadata": {"name": short, **({"namespace": space} if space else {})},
        "spec": fabric_object.spec,
    }
    return str(yaml.safe_dump(document, sort_keys=False, default_flow_style=False))


def read(text: str, fabric: Fabric) -> Proposal:
    """Parse a text with RDMANetworkPolicies and RDMANetworks. Raises ManifestError.

    An object that replaces one of the cluster keeps that object's age and status: they decide
    which of two partitions has a P_Key.
    """
    documents = read_documents(text)
    if not 1 <= len(documents) <= MOST_DOCUMENTS:
        raise ManifestError(f"1 to {MOST_DOCUMENTS} objects are expected, not {len(documents)}")
    puts = tuple(_read(document, fabric) for document in documents)
    removed = (
        text
        for (kind, key, _), document in zip(puts, documents, strict=True)
        if kind == POLICY_KIND
        for text in describe_removed(key, document.get("spec"))
    )
    return Proposal(puts, tuple(removed))


def evaluate(
    current_fabric: Fabric, proposal: Proposal, namespace: str = "", first: int = 0
) -> Outcome:
    """Return which pairs change. ``current_fabric`` is a copy that belongs to this computation."""
    proposed_fabric = current_fabric.copy()
    for kind, key, value in proposal.puts:
        proposed_fabric.put(kind, key, value)
    earlier_matrix, later_matrix = (
        reach.matrix(fabric, namespace, first) for fabric in (current_fabric, proposed_fabric)
    )
    changes = [
        Change(earlier_matrix.pods[row], earlier_matrix.pods[column], old, new)
        for row, cells in enumerate(earlier_matrix.cells)
        for column, (old, new) in enumerate(zip(cells, later_matrix.cells[row], strict=True))
        if (old.verbs, old.problem, old.partition_shared)
        != (new.verbs, new.problem, new.partition_shared)
    ]
    names = tuple(f"{kind} {key}" for kind, key, _ in proposal.puts)
    shown_changes, hidden_count = tuple(changes[:SHOWN]), max(len(changes) - SHOWN, 0)
    return Outcome(
        objects=names,
        problems=proposal.problems,
        changes=shown_changes,
        more=hidden_count,
        pods=len(earlier_matrix.pods),
        more_pods=earlier_matrix.more,
        removed=proposal.removed,
    )


def _read(document: Any, fabric: Fabric) -> tuple[str, str, SeenPolicy | SeenNetwork]:
    if not isinstance(document, dict) or document.get("kind") not in (NETWORK_KIND, POLICY_KIND):
        raise ManifestError(f"kind: {POLICY_KIND} or {NETWORK_KIND} is expected")
    if document.get("apiVersion") != f"{GROUP}/{_VERSION}":
        raise ManifestError(f"apiVersion: {GROUP}/{_VERSION} is expected")
    kind = str(document["kind"])
    document_metadata = document.get("metadata")
    document_metadata = document_metadata if isinstance(document_metadata, dict) else {}
    name = _name(document_metadata.get("name"), "metadata.name")
    metadata = {"name": name, "uid": f"proposed-{name}"}
    proposed = {"metadata": metadata, "spec": document.get("spec")}
    if kind == NETWORK_KIND:
        network = fabric.networks.get(name)
        if network is not None:  # otherwise it has no status: nothing of it is in force
            metadata["creationTimestamp"] = network.meta.created
            proposed["status"] = network.status.model_dump(mode="json", by_alias=True)
        return kind, name, reading.read_network(proposed)
    metadata["namespace"] = _name(
        document_metadata.get("namespace", "default"), "metadata.namespace"
    )
    key = f"{metadata['namespace']}/{name}"
    if (policy := fabric.policies.get(key)) is not None:
        metadata["creationTimestamp"] = policy.meta.created
    return kind, key, reading.read_policy(proposed)


def _name(name: object, field: str) -> str:
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME:
        raise ManifestError(f"{field}: a name is expected")
    return name
