"""What was last seen of the cluster, and what a decision about it looks like."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

from gpu_operator.api import migparted
from gpu_operator.api.v1alpha1 import RESOURCE_PREFIXES
from gpu_operator.api.v1alpha1.gpupolicy import GPUPolicySpec
from gpu_operator.api.v1alpha1.resource import Broken, Fault, Gpu, Layout, Policy, Pool
from gpu_operator.kinds import POLICY_NAME as POLICY_NAME
from gpu_operator.kube.actions import Action


@dataclass(frozen=True, slots=True)
class GpuReady:
    """A node's condition GPUReady; ``since`` is RFC 3339."""

    status: str
    reason: str
    message: str
    since: str


@dataclass(frozen=True, slots=True)
class Node:
    """A node, as far as it matters."""

    name: str
    uid: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)  # ours
    capacity: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, str] = field(default_factory=dict)
    ready: bool = True
    taints: frozenset[str] = frozenset()  # keys of those with the effect NoSchedule
    gpu_ready: GpuReady | None = None

    @property
    def noted_prefixes(self) -> frozenset[str]:
        """Return the prefixes, other than our own, by which it has offered slices."""
        return frozenset(filter(None, self.annotations.get(RESOURCE_PREFIXES, "").split(",")))


@dataclass(frozen=True, slots=True)
class AgentPod:
    """A pod of one of our DaemonSets: a node agent's, or gpud's.

    ``problem`` is empty when all its containers are ready; ``failing`` says that it is not just
    starting. ``rendered`` is the digest of the DaemonSet that it was made from. ``has_gpud``: it is
    a node agent's of an earlier version, in whose pods gpud was.
    """

    name: str
    node: str
    pool: str
    problem: str = ""
    failing: bool = False
    rendered: str = ""
    is_gpud: bool = False
    has_gpud: bool = False


@dataclass(frozen=True, slots=True)
class AgentSet:
    """One of our DaemonSets: what it was rendered from, and how many of its pods are of it.

    ``observed`` is false while its controller has not seen its latest state.
    """

    pool: str
    rendered: str = ""
    observed: bool = False
    pods: int = 0
    updated: int = 0


@dataclass(frozen=True, slots=True)
class ChartPolicy:
    """The policy ``default`` as the chart wants it, and who owns it: with them it is deleted."""

    spec: GPUPolicySpec
    owners: tuple[Mapping[str, Any], ...] = ()


class Index(Protocol):
    """What is derived from a world and kept as it changes, where somebody does (``fleet``)."""

    @property
    def held(self) -> Mapping[str, str]:
        """Return the pool of each node that has one."""

    @property
    def by_node(self) -> Mapping[str, Sequence[Gpu]]:
        """Return the GPUs of each node that has any."""

    @property
    def followed(self) -> Mapping[str, str]:
        """Return the layout of each GPU that follows one."""

    @property
    def asked_by_label(self) -> Mapping[str, Mapping[str, Layout]]:
        """Return, by node, the layouts that were made for its label, by name."""


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """A snapshot; all maps are by name. Worlds are equal only to themselves: what is derived from
    one is kept as long as nothing changes.
    """

    nodes: Mapping[str, Node] = field(default_factory=dict)
    pools: Mapping[str, Pool] = field(default_factory=dict)
    gpus: Mapping[str, Gpu] = field(default_factory=dict)
    layouts: Mapping[str, Layout] = field(default_factory=dict)
    policies: Mapping[str, Policy] = field(default_factory=dict)
    faults: Mapping[str, Fault] = field(default_factory=dict)
    broken: Mapping[tuple[str, str], Broken] = field(default_factory=dict)  # by kind and name
    daemon_sets: Mapping[str, AgentSet] = field(default_factory=dict)
    agents: Mapping[str, AgentPod] = field(default_factory=dict)  # by node
    gpuds: Mapping[str, Sequence[AgentPod]] = field(default_factory=dict)  # by node: two at times
    mig_configs: Mapping[str, migparted.Configs | None] = field(default_factory=dict)
    refused_evictions: Mapping[str, str] = field(default_factory=dict)  # by pod UID
    refused_writes: Mapping[tuple[str, str], str] = field(default_factory=dict)  # by kind, name
    chart_policy: ChartPolicy | None = None  # what the chart asks of the policy ``default``
    zero_since: Mapping[tuple[str, str], float] = field(default_factory=dict)  # node, resource
    put_back: frozenset[tuple[str, str]] = frozenset()  # of zero_since: what may have been removed
    index: Index | None = None

    def gpus_by_node(self) -> Mapping[str, Sequence[Gpu]]:
        """Return the GPUs of each node that has any."""
        return self.index.by_node if self.index is not None else _gpus_by_node(self)

    @property
    def policy(self) -> GPUPolicySpec:
        """Return the policy in force."""
        found = self.policies.get(POLICY_NAME)
        if found is not None and not found.meta.deleting:
            return found.spec
        return self.chart_policy.spec if self.chart_policy is not None else GPUPolicySpec()


@lru_cache(maxsize=2)
def _gpus_by_node(world: World) -> Mapping[str, Sequence[Gpu]]:
    found: dict[str, list[Gpu]] = {}
    for gpu in world.gpus.values():
        found.setdefault(gpu.spec.node_name, []).append(gpu)
    return found


@dataclass(frozen=True, slots=True)
class Outcome:
    """Actions, in order, and when to look again at the latest even if nothing changes."""

    actions: tuple[Action, ...] = ()
    again_in_s: float | None = None

    def then(self, other: "Outcome") -> "Outcome":
        """Return both, one after the other; to look again when the first of them wants it."""
        times = [t for t in (self.again_in_s, other.again_in_s) if t is not None]
        return Outcome((*self.actions, *other.actions), min(times, default=None))
