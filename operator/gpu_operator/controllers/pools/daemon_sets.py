"""The DaemonSets of a pool: those of gpud, of the node agents and of the HCAs.

gpud's goes first. The node agents' is changed only once every node has a gpud of the new rendering
that serves or stands by. Then the image is on the node, so no agent is ended before a pull; and
where agent and gpud are still in one pod, as earlier versions had it, the next gpud is there when
that pod ends (ADR 109).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpu_operator.api.v1alpha1.resource import Pool
from gpu_operator.config import NodeConfig
from gpu_operator.controllers.common.world import World
from gpu_operator.controllers.pools import rollouts
from gpu_operator.controllers.pools.pool_book import PoolBook
from gpu_operator.kube.actions import Action, Apply, Delete, Manager
from gpu_operator.render import daemonset, gpud, hca

Document = Mapping[str, Any]

NAMES: Final = (gpud.name_of, daemonset.name_of, hca.name_of)


@dataclass(frozen=True, slots=True)
class Documents:
    """What the DaemonSets of a pool in use are to be; ``hca`` None: it has none."""

    gpud: Document
    agent: Document
    hca: Document | None

    @property
    def digests(self) -> tuple[str, ...]:
        """Return what tells them from those of another policy, pool or chart."""
        return tuple(daemonset.rendered(one) for one in (self.gpud, self.agent))

    def agents_change(self, world: World) -> bool:
        """Return whether node agents run that are of another rendering, and are to be replaced."""
        found = world.daemon_sets.get(self.agent["metadata"]["name"])
        return found is not None and found.rendered != daemonset.rendered(self.agent)


def documents(world: World, pool: Pool, node_config: NodeConfig, namespace: str) -> Documents:
    """Return what a pool's DaemonSets are to be."""
    with_hcas = daemonset.hcas_of(pool.spec, node_config) is not None
    return Documents(
        gpud.daemon_set(pool.name, pool.spec, node_config, namespace),
        daemonset.daemon_set(pool.name, pool.spec, world.policy, node_config, namespace),
        hca.daemon_set(pool.name, node_config, namespace) if with_hcas else None,
    )


def missing(world: World, wanted: Documents) -> str:
    """Return what the DaemonSets for GPUs still lack; empty when they are rolled out."""
    _, of_gpud = rollouts.progress(world, wanted.gpud)
    return of_gpud or rollouts.progress(world, wanted.agent)[1]


def write(
    world: World, wanted: Documents, namespace: str, book: PoolBook
) -> tuple[Sequence[Action], str]:
    """Return what makes the DaemonSets of a pool in use be so, and what their rollout lacks.

    The book's ``late_gpuds`` must be of this world.
    """
    actions = [_apply(wanted.gpud)]
    told = [missing(world, wanted)]
    if wanted.agents_change(world) and book.late_gpuds:
        told = [rollouts.progress(world, wanted.gpud)[1], "the node agents follow gpud"]
    else:
        actions.append(_apply(wanted.agent))
    if any(told) and book.late_gpuds:
        told.append(book.late_gpuds[min(book.late_gpuds)])
    if wanted.hca is None:
        return [*actions, *withdraw(world, book.name, namespace, hca.name_of)], _sentence(told)
    told.append(rollouts.progress(world, wanted.hca)[1])
    return [*actions, _apply(wanted.hca)], _sentence(told)


def withdraw(
    world: World, pool: str, namespace: str, *names: Callable[[str], str]
) -> Sequence[Action]:
    """Return what deletes a pool's DaemonSets: those that are named so, or all."""
    found = (of(pool) for of in names or NAMES)
    return [Delete("DaemonSet", name, namespace) for name in found if name in world.daemon_sets]


def _sentence(told: Sequence[str]) -> str:
    return "; ".join(filter(None, told))


def _apply(document: Document) -> Apply:
    return Apply(Manager.CHILDREN, document)
