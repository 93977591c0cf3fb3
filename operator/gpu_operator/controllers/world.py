"""What was last seen of the cluster, and what a decision about it looks like."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from gpu_operator.api.v1alpha1 import RESOURCE_PREFIXES
from gpu_operator.api.v1alpha1.gpupolicy import GPUPolicySpec
from gpu_operator.api.v1alpha1.resource import Broken, Gpu, Layout, Policy, Pool
from gpu_operator.kinds import POLICY_NAME as POLICY_NAME
from gpu_operator.kube.actions import Action


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

    @property
    def noted_prefixes(self) -> frozenset[str]:
        """Return the prefixes, other than our own, by which it has offered slices."""
        return frozenset(filter(None, self.annotations.get(RESOURCE_PREFIXES, "").split(",")))


@dataclass(frozen=True, slots=True)
class AgentPod:
    """A pod of one of our DaemonSets.

    ``problem`` is empty when all its containers are ready; ``failing`` says that it is not just
    starting. ``rendered`` is the digest of the DaemonSet that it was made from.
    """

    name: str
    node: str
    pool: str
    problem: str = ""
    failing: bool = False
    rendered: str = ""


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
    broken: Mapping[tuple[str, str], Broken] = field(default_factory=dict)  # by kind and name
    daemon_sets: Mapping[str, AgentSet] = field(default_factory=dict)
    agents: Mapping[str, AgentPod] = field(default_factory=dict)  # by node
    refused_evictions: Mapping[str, str] = field(default_factory=dict)  # by pod UID
    refused_writes: Mapping[tuple[str, str], str] = field(default_factory=dict)  # by kind, name
    chart_policy: ChartPolicy | None = None  # what the chart asks of the policy ``default``
    zero_since: Mapping[tuple[str, str], float] = field(default_factory=dict)  # node, resource
    put_back: frozenset[tuple[str, str]] = frozenset()  # of zero_since: what may have been removed

    def gpus_by_node(self) -> Mapping[str, Sequence[Gpu]]:
        """Return the GPUs of each node that has any."""
        return _gpus_by_node(self)

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
