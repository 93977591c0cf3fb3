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
        return tuple(f"{kind} {key}: {one.problem}" for kind, key, one in self.puts if one.problem)


def list_objects(fabric: Fabric) -> tuple[str, ...]:
    """Return the policies and networks of the cluster, each as "Kind namespace/name"."""
    policies = (f"{POLICY_KIND} {key}" for key in sorted(fabric.policies))
    return (*policies, *(f"{NETWORK_KIND} {key}" for key in sorted(fabric.networks)))


def write_object(fabric: Fabric, name: str) -> str:
    """Return the manifest of an object that ``list_objects`` names; empty if there is none."""
    kind, _, key = name.partition(" ")
    there: Mapping[str, SeenPolicy | SeenNetwork] = {}
    if kind in (POLICY_KIND, NETWORK_KIND):
        there = fabric.policies if kind == POLICY_KIND else fabric.networks
    known = there.get(key)
    if not isinstance(known, KnownPolicy | KnownNetwork):
        return ""
    space, _, short = key.rpartition("/")
    document = {
        "apiVersion": f"{GROUP}/{_VERSION}",
        "kind": kind,
        "metadata": {"name": short, **({"namespace": space} if space else {})},
        "spec": known.spec,
    }
    return str(yaml.safe_dump(document, sort_keys=False, default_flow_style=False))


def read(text: str, now: Fabric) -> Proposal:
    """Parse a text with RDMANetworkPolicies and RDMANetworks. Raises ManifestError.

    An object that replaces one of the cluster keeps that object's age and status: they decide
    which of two partitions has a P_Key.
    """
    documents = read_documents(text)
    if not 1 <= len(documents) <= MOST_DOCUMENTS:
        raise ManifestError(f"1 to {MOST_DOCUMENTS} objects are expected, not {len(documents)}")
    puts = tuple(_read(one, now) for one in documents)
    removed = (
        text
        for (kind, key, _), one in zip(puts, documents, strict=True)
        if kind == POLICY_KIND
        for text in describe_removed(key, one.get("spec"))
    )
    return Proposal(puts, tuple(removed))


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
    pods = (len(before.pods), before.more)
    return Outcome(names, proposal.problems, shown, more, *pods, proposal.removed)


def _read(document: Any, now: Fabric) -> tuple[str, str, SeenPolicy | SeenNetwork]:
    if not isinstance(document, dict) or document.get("kind") not in (NETWORK_KIND, POLICY_KIND):
        raise ManifestError(f"kind: {POLICY_KIND} or {NETWORK_KIND} is expected")
    if document.get("apiVersion") != f"{GROUP}/{_VERSION}":
        raise ManifestError(f"apiVersion: {GROUP}/{_VERSION} is expected")
    kind = str(document["kind"])
    given = document.get("metadata")
    given = given if isinstance(given, dict) else {}
    name = _name(given.get("name"), "metadata.name")
    metadata = {"name": name, "uid": f"proposed-{name}"}
    proposed = {"metadata": metadata, "spec": document.get("spec")}
    if kind == NETWORK_KIND:
        network = now.networks.get(name)
        if network is not None:  # otherwise it has no status: nothing of it is in force
            metadata["creationTimestamp"] = network.meta.created
            proposed["status"] = network.status.model_dump(mode="json", by_alias=True)
        return kind, name, reading.read_network(proposed)
    metadata["namespace"] = _name(given.get("namespace", "default"), "metadata.namespace")
    key = f"{metadata['namespace']}/{name}"
    if (policy := now.policies.get(key)) is not None:
        metadata["creationTimestamp"] = policy.meta.created
    return kind, key, reading.read_policy(proposed)


def _name(given: object, field: str) -> str:
    if not isinstance(given, str) or not 0 < len(given) <= _LONGEST_NAME:
        raise ManifestError(f"{field}: a name is expected")
    return given
