"""Which pods to touch, so that their kubelet prepares their claims now and not in a minute.

A kubelet that could not have a claim prepared, as when the driver was being replaced, asks again
after 60 to 90 s, whatever happens meanwhile; any change of the pod makes it ask within a second.
"""

from collections.abc import Collection, Iterable
from typing import Final

from gpu_operator.controllers.claims.reading import Claim, StartingPod
from gpu_operator.controllers.common.world import World
from gpu_operator.kube.actions import Annotate

NUDGED: Final = "gpu.tessera.dev/nudged"
"""The annotation that is changed: how often that was done."""
FIRST_S: Final = 10.0
"""For how long a claim must have been unprepared on a node whose agent is there."""
RETURNED_S: Final = 1.0
"""The same of a pod that had its node while no agent, or another one, was there: its kubelet asked
in vain, and waits."""
MOST_S: Final = 60.0
"""Between two nudges at most: the kubelet's own clock is no slower."""
MOST: Final = 32
"""Pods at a time."""


class Nudging:
    """Remembers how long pods have waited. ``now_s`` is of a clock that only grows."""

    def __init__(self) -> None:
        self._next: dict[str, tuple[float, int]] = {}  # by pod UID: when, and how often before
        self._began_with: dict[str, str] = {}  # by pod UID: the agent at first; empty: none

    def due(
        self, claims: Iterable[Claim], pods: Collection[StartingPod], world: World, now_s: float
    ) -> tuple[Annotate, ...]:
        """Return the pods to touch now; each counts as touched."""
        waiting = self._waiting(claims, pods, world)
        agents = {name: one.name for name, one in world.agents.items() if not one.problem}
        known = self._began_with
        self._began_with = {pod.uid: known.get(pod.uid, agents.get(pod.node, "")) for pod in pods}
        self._next = {uid: due for uid, due in self._next.items() if uid in waiting}
        found: list[Annotate] = []
        for uid, pod in waiting.items():
            same = self._began_with[uid] == agents[pod.node]
            first = (now_s + (FIRST_S if same else RETURNED_S), 0)
            when, times = self._next.setdefault(uid, first)
            if now_s < when or len(found) == MOST:
                continue
            times += 1
            self._next[uid] = (now_s + min(FIRST_S * 2.0**times, MOST_S), times)
            found.append(Annotate(pod.namespace, pod.name, uid, NUDGED, str(times)))
        return tuple(found)

    @staticmethod
    def _waiting(
        claims: Iterable[Claim], pods: Iterable[StartingPod], world: World
    ) -> dict[str, StartingPod]:
        """Return the pods, by UID, that wait for a claim that could be prepared."""
        held = {(one.namespace, one.name): one for one in claims if one.held}
        prepared = {c.claim.uid for gpu in world.gpus.values() for c in gpu.status.claims}
        found: dict[str, StartingPod] = {}
        for pod in pods:
            agent = world.agents.get(pod.node)
            if agent is None or agent.problem:
                continue
            theirs = (held.get((pod.namespace, name)) for name in pod.claims)
            if any(claim is not None and claim.uid not in prepared for claim in theirs):
                found[pod.uid] = pod
        return found
