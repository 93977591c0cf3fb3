"""The last observed state of the cluster, and the result of a controller's decision about it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

from gpu_operator.api import mig_parted
from gpu_operator.api.v1alpha1 import RESOURCE_PREFIXES
from gpu_operator.api.v1alpha1.gpupolicy import GPUPolicySpec
from gpu_operator.api.v1alpha1.resource import Broken, Fault, Gpu, Layout, Policy, Pool
from gpu_operator.kinds import POLICY_NAME as POLICY_NAME
from gpu_operator.kube.actions import Action


@dataclass(frozen=True, slots=True)
class GpuReady:
    """A node's condition GPUReady; ``since`` is an RFC 3339 time."""

    status: str
    reason: str
    message: str
    since: str


@dataclass(frozen=True, slots=True)
class Node:
    """The parts of a node that the controllers use."""

    name: str
    uid: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)  # Tessera's own only
    capacity: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, str] = field(default_factory=dict)
    ready: bool = True
    taints: frozenset[str] = frozenset()  # keys of the taints with effect NoSchedule
    gpu_ready: GpuReady | None = None

    @property
    def noted_prefixes(self) -> frozenset[str]:
        """Return the prefixes, other than Tessera's own, with which the node has offered slices."""
        return frozenset(filter(None, self.annotations.get(RESOURCE_PREFIXES, "").split(",")))


@dataclass(frozen=True, slots=True)
class AgentPod:
    """A pod of a node agent's or gpud's DaemonSet.

    ``problem`` is empty when all containers are ready; ``failing`` is false while the pod is only
    starting. ``rendered`` is the digest of the DaemonSet's rendering from which the pod was made.
    ``has_gpud``: the pod belongs to an earlier version, whose node agents' pods contained gpud.
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
    """A DaemonSet of the operator.

    ``pods`` is the number of pods that it should have, and ``updated`` the number of pods that have
    the current rendering. ``rendered`` is the digest of that rendering. ``observed`` is false until
    the DaemonSet controller has processed the DaemonSet's latest state.
    """

    pool: str
    rendered: str = ""
    observed: bool = False
    pods: int = 0
    updated: int = 0


@dataclass(frozen=True, slots=True)
class ChartPolicy:
    """The policy ``default`` as the chart defines it.

    The policy is deleted together with its ``owners``.
    """

    spec: GPUPolicySpec
    owners: tuple[Mapping[str, Any], ...] = ()


class Index(Protocol):
    """Values derived from a world. ``fleet`` updates them with each change of the world."""

    @property
    def held(self) -> Mapping[str, str]:
        """Return the name of each node's pool, by the node's name.

        Nodes without a pool are omitted.
        """

    @property
    def by_node(self) -> Mapping[str, Sequence[Gpu]]:
        """Return the GPUs of each node that has GPUs, by the node's name."""

    @property
    def followed(self) -> Mapping[str, str]:
        """Return the name of the layout that a GPU follows, by the GPU's name.

        GPUs that follow no layout are omitted.
        """

    @property
    def layouts_by_label(self) -> Mapping[str, Mapping[str, Layout]]:
        """Return the layouts that were created because a node's label requests them.

        The result maps the node's name to its layouts, by the layouts' names.
        """


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """A snapshot of the cluster. Unless noted otherwise, each map is keyed by the objects' names.

    Two worlds are equal only if they are the same object. So values that are derived from a
    world stay cached as long as nothing changes.
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
    # by node; two for a moment during a rollout
    gpuds: Mapping[str, Sequence[AgentPod]] = field(default_factory=dict)
    mig_configs: Mapping[str, mig_parted.Configs | None] = field(default_factory=dict)
    refused_evictions: Mapping[str, str] = field(default_factory=dict)  # by pod UID
    refused_writes: Mapping[tuple[str, str], str] = field(default_factory=dict)  # by kind, name
    chart_policy: ChartPolicy | None = None  # the policy ``default`` as the chart defines it
    zero_since: Mapping[tuple[str, str], float] = field(default_factory=dict)  # node, resource
    # those of zero_since that may have been removed before
    put_back: frozenset[tuple[str, str]] = frozenset()
    index: Index | None = None

    def gpus_by_node(self) -> Mapping[str, Sequence[Gpu]]:
        """Return the GPUs of each node that has GPUs, by the node's name."""
        return self.index.by_node if self.index is not None else _gpus_by_node(self)

    @property
    def policy(self) -> GPUPolicySpec:
        """Return the spec of the GPUPolicy that is in force."""
        policy = self.policies.get(POLICY_NAME)
        if policy is not None and not policy.meta.deleting:
            return policy.spec
        return self.chart_policy.spec if self.chart_policy is not None else GPUPolicySpec()


@lru_cache(maxsize=2)
def _gpus_by_node(world: World) -> Mapping[str, Sequence[Gpu]]:
    gpus_by_node: dict[str, list[Gpu]] = {}
    for gpu in world.gpus.values():
        gpus_by_node.setdefault(gpu.spec.node_name, []).append(gpu)
    return gpus_by_node


@dataclass(frozen=True, slots=True)
class Outcome:
    """Actions to perform, in order, and the time after which to reconcile again.

    Any change of an object causes an earlier reconciliation.
    """

    actions: tuple[Action, ...] = ()
    again_in_s: float | None = None

    def then(self, next_outcome: "Outcome") -> "Outcome":
        """Return an outcome with the actions of both, in order, and the earlier time."""
        times = [t for t in (self.again_in_s, next_outcome.again_in_s) if t is not None]
        return Outcome((*self.actions, *next_outcome.actions), min(times, default=None))
