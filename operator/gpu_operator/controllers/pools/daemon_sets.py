"""The DaemonSets of a pool: those of gpud, of the node agents and of the HCAs.

The DaemonSet of gpud is changed first. That of the node agents is changed once every node has a
gpud with the new rendering that serves or stands by. Then the image is on the node, so no agent
ends before its successor's image is pulled. Where agent and gpud are still in one pod, as in
earlier versions, the next gpud is running when that pod ends (ADR 109).
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
    """The desired DaemonSets of a pool in use; ``hca`` is None for a pool without HCAs."""

    gpud: Document
    agent: Document
    hca: Document | None

    @property
    def digests(self) -> tuple[str, ...]:
        """Return the digests that identify the renderings of gpud and of the node agents."""
        return tuple(daemonset.rendered_digest(document) for document in (self.gpud, self.agent))

    def agents_change(self, world: World) -> bool:
        """Return whether the cluster's DaemonSet of the pool's node agents differs from this one.

        The result is false if the cluster has no such DaemonSet.
        """
        daemon_set = world.daemon_sets.get(self.agent["metadata"]["name"])
        return daemon_set is not None and daemon_set.rendered != daemonset.rendered_digest(
            self.agent
        )


def make_documents(world: World, pool: Pool, node_config: NodeConfig, namespace: str) -> Documents:
    """Return the desired DaemonSets of a pool."""
    with_hcas = daemonset.hcas_of(pool.spec, node_config) is not None
    return Documents(
        gpud.daemon_set(pool.name, pool.spec, node_config, namespace),
        daemonset.daemon_set(pool.name, pool.spec, world.policy, node_config, namespace),
        hca.daemon_set(pool.name, node_config, namespace) if with_hcas else None,
    )


def explain_missing(world: World, documents: Documents) -> str:
    """Return what the rollout of gpud and the node agents waits for; empty if it is complete."""
    _, of_gpud = rollouts.progress(world, documents.gpud)
    return of_gpud or rollouts.progress(world, documents.agent)[1]


def write(
    world: World, documents: Documents, namespace: str, book: PoolBook
) -> tuple[Sequence[Action], str]:
    """Return the writes for the DaemonSets of a pool in use, and what their rollout waits for.

    The book's ``late_gpuds`` must be up to date.
    """
    actions = [_apply(documents.gpud)]
    messages = [explain_missing(world, documents)]
    if documents.agents_change(world) and book.late_gpuds:
        messages = [
            rollouts.progress(world, documents.gpud)[1],
            "the node agents are updated after gpud",
        ]
    else:
        actions.append(_apply(documents.agent))
    if any(messages) and book.late_gpuds:
        messages.append(book.late_gpuds[min(book.late_gpuds)])
    if documents.hca is None:
        return [*actions, *withdraw(world, book.name, namespace, hca.name_of)], _sentence(messages)
    messages.append(rollouts.progress(world, documents.hca)[1])
    return [*actions, _apply(documents.hca)], _sentence(messages)


def withdraw(
    world: World, pool: str, namespace: str, *names: Callable[[str], str]
) -> Sequence[Action]:
    """Return the actions that delete DaemonSets of a pool.

    Each function in ``names`` returns the name of a DaemonSet to delete. If ``names`` is empty,
    all of the pool's DaemonSets are deleted.
    """
    set_names = (of(pool) for of in names or NAMES)
    return [Delete("DaemonSet", name, namespace) for name in set_names if name in world.daemon_sets]


def _sentence(messages: Sequence[str]) -> str:
    return "; ".join(filter(None, messages))


def _apply(document: Document) -> Apply:
    return Apply(Manager.CHILDREN, document)
