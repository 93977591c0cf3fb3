"""What pasted RDMA policies and networks would change; nothing is applied."""

from dataclasses import dataclass
from typing import Any, Final

from console.model.fabric import Fabric
from console.views import reach
from console.views.manifest import ManifestError, read_documents
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


@dataclass(frozen=True, slots=True)
class Proposal:
    """Objects that would be created or replaced, as a model stores them."""

    puts: tuple[tuple[str, str, SeenPolicy | SeenNetwork], ...]

    @property
    def problems(self) -> tuple[str, ...]:
        """Return what is wrong with objects that the operator would take as invalid."""
        return tuple(f"{kind} {key}: {one.problem}" for kind, key, one in self.puts if one.problem)


def read(text: str) -> Proposal:
    """Parse a text with RDMANetworkPolicies and RDMANetworks. Raises ManifestError."""
    documents = read_documents(text)
    if not 1 <= len(documents) <= MOST_DOCUMENTS:
        raise ManifestError(f"1 to {MOST_DOCUMENTS} objects are expected, not {len(documents)}")
    return Proposal(tuple(map(_read, documents)))


def evaluate(now: Fabric, proposal: Proposal, namespace: str = "", first: int = 0) -> Outcome:
    """Return which pairs change. ``now`` is a copy that belongs to this computation."""
    then = now.copy()
    for kind, key, value in proposal.puts:
        then.put(kind, key, value)
    before, after = (reach.matrix(fabric, namespace, first) for fabric in (now, then))
    changes = [
        Change(before.pods[row], before.pods[column], old, new)
        for row, cells in enumerate(before.cells)
        for column, (old, new) in enumerate(zip(cells, after.cells[row], strict=True))
        if (old.verbs, old.problem, old.partition_shared)
        != (new.verbs, new.problem, new.partition_shared)
    ]
    names = tuple(f"{kind} {key}" for kind, key, _ in proposal.puts)
    shown, more = tuple(changes[:SHOWN]), max(len(changes) - SHOWN, 0)
    return Outcome(names, proposal.problems, shown, more, len(before.pods), before.more)


def _read(document: Any) -> tuple[str, str, SeenPolicy | SeenNetwork]:
    if not isinstance(document, dict) or document.get("kind") not in (NETWORK_KIND, POLICY_KIND):
        raise ManifestError(f"kind: {POLICY_KIND} or {NETWORK_KIND} is expected")
    if document.get("apiVersion") != f"{GROUP}/{_VERSION}":
        raise ManifestError(f"apiVersion: {GROUP}/{_VERSION} is expected")
    kind = str(document["kind"])
    given = document.get("metadata")
    given = given if isinstance(given, dict) else {}
    name = _name(given.get("name"), "metadata.name")
    metadata = {"name": name, "uid": f"proposed-{name}"}  # no status: nothing of it is in force
    proposed = {"metadata": metadata, "spec": document.get("spec")}
    if kind == NETWORK_KIND:
        return kind, name, reading.read_network(proposed)
    metadata["namespace"] = _name(given.get("namespace", "default"), "metadata.namespace")
    return kind, f"{metadata['namespace']}/{name}", reading.read_policy(proposed)


def _name(given: object, field: str) -> str:
    if not isinstance(given, str) or not 0 < len(given) <= _LONGEST_NAME:
        raise ManifestError(f"{field}: a name is expected")
    return given
