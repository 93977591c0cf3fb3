"""A layout's columns match its conditions after any history of edits, pods, deadlines and
delays.
"""

import asyncio
import datetime
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings, strategies as st

from gpu_operator.controllers.layouts import layouts
from gpu_operator.engine.queue import Key
from support.worlds.driven_operator import Operator, node, pool
from support.worlds.fake_cluster import FakeCluster
from support.worlds.gpu_world import NOW

DEADLINE_S = 60
REQUESTS: dict[str, tuple[tuple[str, int], ...]] = {
    "seven": (("1g.10gb", 7),),
    "halves": (("3g.40gb", 2),),
    "mixed": (("3g.40gb", 1), ("2g.20gb", 1), ("1g.10gb", 2)),
    "two": (("2g.20gb", 2),),
    "nothing": (),
    "too much": (("1g.10gb", 8),),
}


class Play:
    """One layout and two GPUs; the clock stands still within a step."""

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        node(self.cluster, "n")
        self.operator = Operator(self.cluster)
        self.now = NOW
        self.desired = "seven"
        pool(self.cluster)
        spec = {"instances": requests(self.desired), "rollout": {"deadlineSeconds": DEADLINE_S}}
        self.cluster.add("MIGLayout", "l", spec)
        for _ in range(3):
            self.operator.round()
            self.cluster.run_agents("n")

    def take(self, step: str) -> None:
        verb, _, what = step.partition(" ")
        match verb:
            case "edit":
                self.desired = what
                self.cluster.edit("MIGLayout", "l", instances=requests(what))
            case "hold":
                self._hold(int(what))
            case "free":
                self.cluster.holders.clear()
            case "agents":
                self.cluster.kubelets_run = what != "alone"
                self.cluster.run_agents("n")
            case "later":
                self.now += datetime.timedelta(seconds=int(what))
            case "rollout":
                rollout = {"deadlineSeconds": DEADLINE_S, "maxUnavailable": int(what)}
                self.cluster.edit("MIGLayout", "l", rollout=rollout)
        asyncio.run(self.look())

    def _hold(self, number: int) -> None:
        slices = [
            (gpu["metadata"]["name"], s["profile"], s["start"])
            for gpu in self.cluster.objects["GPU"].values()
            for s in gpu.get("status", {}).get("slices", [])
            if s["state"] == "Active"
        ]
        if slices:
            self.cluster.holders[slices[number % len(slices)]] = [f"default/pod-{number}"]

    async def look(self) -> None:
        await self.operator.worker.list_all()
        world = self.operator.store.world()
        for action in layouts.reconcile(world, "l", self.now).actions:
            await self.cluster.perform(action)
        await self.operator.worker.list_all()
        await self.operator.worker.work(Key("Node", "n"))

    def check(self) -> None:
        """Assert what must hold at any time."""
        document = self.cluster.objects["MIGLayout"]["l"]
        status, generation = document["status"], document["metadata"]["generation"]
        conditions = {c["type"]: c for c in status["conditions"]}
        said = {kind: c["status"] for kind, c in conditions.items()}
        assert status["observedGeneration"] == generation
        assert {c["observedGeneration"] for c in conditions.values()} == {generation}
        on_each = sum(count for _, count in REQUESTS[self.desired])
        states = [gpu["state"] for gpu in status["gpus"]]
        assert status["desired"] == on_each * len(states)
        assert status["applied"] == self._there()
        assert 0 <= status["applied"] <= status["desired"]
        assert (status["waiting"] > 0) == ("Waiting" in states)
        if self.desired == "too much":
            assert said["Accepted"] == said["Ready"] == "False"
            return
        assert said["Accepted"] == "True"
        assert (said["Ready"] == "True") == (states == ["Applied", "Applied"])
        assert (said["Degraded"] == "True") == ("Failed" in states)
        moving = {"Applying", "Waiting", "Pending"}
        assert (said["Progressing"] == "True") == bool(moving.intersection(states))
        if said["Ready"] == "True":
            assert status["applied"] == status["desired"]
            assert self._offered_slices() >= self._wanted_slices()

    def _wanted_slices(self) -> Counter[str]:
        return Counter({profile: 2 * count for profile, count in REQUESTS[self.desired] if count})

    def _there(self) -> int:
        """Count the requested slices that exist, independently of the operator's code."""
        wanted, found = dict(REQUESTS[self.desired]), 0
        for gpu in self.cluster.objects["GPU"].values() if self.desired != "too much" else ():
            there = Counter(s["profile"] for s in active(gpu))
            found += sum(min(there[profile], count) for profile, count in wanted.items())
        return found

    def _offered_slices(self) -> Counter[str]:
        figures = self.cluster.objects["Node"]["n"]["status"]["allocatable"]
        return Counter({name.partition("/mig-")[2]: int(n) for name, n in figures.items()})


def requests(desired: str) -> list[dict[str, Any]]:
    return [{"profile": profile, "count": count} for profile, count in REQUESTS[desired]]


def active(gpu: dict[str, Any]) -> list[dict[str, Any]]:
    return [s for s in gpu.get("status", {}).get("slices", []) if s["state"] == "Active"]


STEPS = st.lists(
    st.sampled_from(
        [
            *(f"edit {desired}" for desired in REQUESTS),
            *(f"hold {number}" for number in (0, 3, 8)),
            "free",
            "agents",
            "agents",
            "agents alone",
            "later 1",
            f"later {DEADLINE_S}",
            "rollout 1",
            "rollout 2",
        ]
    ),
    min_size=1,
    max_size=14,
)


@given(STEPS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_columns_and_conditions_agree_after_every_step(steps: list[str]) -> None:
    play = Play()
    for step in steps:
        play.take(step)
        play.check()


def test_a_rollback_applies_at_most_the_requested_slices() -> None:
    play = Play()
    steps = ("agents", "hold 0", "agents", "rollout 2", "edit halves", "agents")
    for step in (*steps, f"later {DEADLINE_S}", "agents", "agents"):
        play.take(step)
        play.check()
    status = play.cluster.objects["MIGLayout"]["l"]["status"]
    assert (status["desired"], status["applied"]) == (4, 2)
    assert [gpu["state"] for gpu in status["gpus"]] == ["Failed", "Applied"]
    assert "pod default/pod-0" in play.cluster.condition("MIGLayout", "l", "Degraded")[2]
