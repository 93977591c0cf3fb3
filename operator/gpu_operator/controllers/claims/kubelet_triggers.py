"""Selects pods to annotate, so that their kubelet prepares their claims at once.

When a kubelet fails to have a claim prepared, for example while the driver is replaced, it
retries after 60 to 90 s. Any change of the pod makes it retry within a second.
"""

from collections.abc import Collection, Iterable
from typing import Final

from gpu_operator.controllers.claims.reading import Claim, StartingPod
from gpu_operator.controllers.common.world import World
from gpu_operator.kube.actions import Annotate

TRIGGERED: Final = "gpu.tessera.dev/nudged"
"""Annotation that triggers the kubelet; its value is the number of triggers so far."""
FIRST_S: Final = 10.0
"""Seconds for which a claim must have been unprepared before the kubelet is triggered.

This holds for a node whose agent was present all the time.
"""
RETURNED_S: Final = 1.0
"""The same time for a pod that was bound while its node had no agent, or an earlier one.

The kubelet of such a pod has already failed to have the claim prepared, and waits.
"""
MOST_S: Final = 60.0
"""Maximum time between two triggers, in seconds; the kubelet's own retries come as often."""
MOST: Final = 32
"""Maximum number of pods that one pass annotates."""


class KubeletTriggers:
    """Selects pods to annotate, so that the kubelet retries to prepare their claims at once.

    A pod is selected once it has waited long enough. ``now_s`` is the time of a pass, in
    monotonic seconds.
    """

    def __init__(self) -> None:
        self._next: dict[
            str, tuple[float, int]
        ] = {}  # by pod UID: time of the next trigger, and number of previous ones
        self._began_with: dict[
            str, str
        ] = {}  # by pod UID: the agent when the pod was first observed; empty: none

    def take_due_annotations(
        self, claims: Iterable[Claim], pods: Collection[StartingPod], world: World, now_s: float
    ) -> tuple[Annotate, ...]:
        """Return the annotations that must be written to pods now, and record them as written."""
        waiting = self._waiting(claims, pods, world)
        agents = {name: agent.name for name, agent in world.agents.items() if not agent.problem}
        earlier_agents = self._began_with
        self._began_with = {
            pod.uid: earlier_agents.get(pod.uid, agents.get(pod.node, "")) for pod in pods
        }
        self._next = {uid: due for uid, due in self._next.items() if uid in waiting}
        annotations: list[Annotate] = []
        for uid, pod in waiting.items():
            is_same_agent = self._began_with[uid] == agents[pod.node]
            first = (now_s + (FIRST_S if is_same_agent else RETURNED_S), 0)
            when, times = self._next.setdefault(uid, first)
            if now_s < when or len(annotations) == MOST:
                continue
            times += 1
            self._next[uid] = (now_s + min(FIRST_S * 2.0**times, MOST_S), times)
            annotations.append(Annotate(pod.namespace, pod.name, uid, TRIGGERED, str(times)))
        return tuple(annotations)

    @staticmethod
    def _waiting(
        claims: Iterable[Claim], pods: Iterable[StartingPod], world: World
    ) -> dict[str, StartingPod]:
        """Return the pods, by UID, with an unprepared claim on a node whose agent could prepare
        it.
        """
        held_claims = {(claim.namespace, claim.name): claim for claim in claims if claim.held}
        prepared = {c.claim.uid for gpu in world.gpus.values() for c in gpu.status.claims}
        waiting_pods: dict[str, StartingPod] = {}
        for pod in pods:
            agent = world.agents.get(pod.node)
            if agent is None or agent.problem:
                continue
            theirs = (held_claims.get((pod.namespace, name)) for name in pod.claims)
            if any(claim is not None and claim.uid not in prepared for claim in theirs):
                waiting_pods[pod.uid] = pod
        return waiting_pods
