"""How long a resource stays at 0: the operator removes it, a kubelet that remembers puts it back."""

import itertools
from dataclasses import dataclass, field

import pytest

from gpu_operator.app import cleanup
from gpu_operator.controllers.nodes import extended_resources
from gpu_operator.engine.store import Store
from gpu_operator.kube.actions import PatchNode

RESOURCE = "gpu.tessera.dev/mig-1g.10gb"
TICK_S = 10  # nodeStatusUpdateFrequency of a kubelet
REMEMBERS_S = 300  # endpointStopGracePeriod of the kubelet's device manager


@dataclass
class Retirement:
    """Seconds since the kubelet first said 0; what it remembers it says at each of its ticks.

    The operator looks when the watch says that something changed, and when it asked to. A ``quick``
    kubelet puts back what is removed before the watch can show that it was gone.
    """

    remembers_until_s: int
    quick: bool = False
    uid: str = "u"
    now_s: float = 0.0
    version: int = 0
    listed: bool = True
    looks_at_s: float | None = None
    removed_at_s: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = Store(clock=lambda: self.now_s)
        self.say("7")
        self.say("0")

    def say(self, count: str | None) -> None:
        """Let the node's status have this capacity, or none."""
        figures = {} if count is None else {RESOURCE: count}
        self.version += 1
        self.listed = count is not None
        document = {
            "metadata": {"name": "n", "uid": self.uid, "resourceVersion": str(self.version)},
            "status": {"capacity": figures, "allocatable": figures},
        }
        if self.store.put("Node", document):
            self.looks_at_s = self.now_s

    def run_until(self, end_s: float) -> None:
        while self.now_s < end_s:
            self.now_s += 1
            if self.now_s % TICK_S == 0 and self.now_s <= self.remembers_until_s:
                self.say("0")
            if self.looks_at_s is not None and self.now_s >= self.looks_at_s:
                self.look()

    def look(self) -> None:
        found = extended_resources.reconcile(self.store.world(), "n", self.now_s)
        wait_s = found.again_in_s
        self.looks_at_s = None if wait_s is None else self.now_s + wait_s
        if any(isinstance(action, PatchNode) for action in found.actions):
            self.removed_at_s.append(self.now_s)
            if not (self.quick and self.now_s <= self.remembers_until_s):
                self.say(None)


def test_it_is_removed_once_where_the_kubelet_has_forgotten_it() -> None:
    node = Retirement(remembers_until_s=30 + REMEMBERS_S)
    node.run_until(2000)
    (removed_at_s,) = node.removed_at_s
    assert 0 <= removed_at_s - extended_resources.RETIRE_AFTER_S <= 1
    assert not node.listed


@pytest.mark.parametrize("quick", [False, True])
def test_a_removal_that_did_not_hold_is_tried_again_a_minute_later(quick: bool) -> None:
    restarted_s = 340
    node = Retirement(restarted_s + REMEMBERS_S, quick)
    node.run_until(2000)
    tries = node.removed_at_s
    assert 0 <= tries[0] - extended_resources.RETIRE_AFTER_S <= 1
    waited = [after - before for before, after in itertools.pairwise(tries)]
    assert waited
    assert all(60 <= seconds <= 60 + TICK_S + 1 for seconds in waited)
    assert tries[-1] <= restarted_s + REMEMBERS_S + 60 + 1
    assert not node.listed


@pytest.mark.parametrize("restarted_s", [0, 100, 200, 300, 344])
def test_the_clean_up_waits_for_a_kubelet_that_was_restarted_meanwhile(restarted_s: int) -> None:
    node = Retirement(remembers_until_s=restarted_s + REMEMBERS_S)
    node.run_until(cleanup._RETIRE_TIMEOUT_S)
    assert not node.listed


def test_what_was_offered_again_meanwhile_has_its_whole_time() -> None:
    node = Retirement(remembers_until_s=400)
    node.run_until(402)  # removed once, and put back
    assert node.listed
    node.say("7")
    node.say("0")
    node.run_until(402 + extended_resources.RETIRE_AFTER_S - 1)
    assert len(node.removed_at_s) == 1
    node.run_until(402 + extended_resources.RETIRE_AFTER_S + 1)
    assert len(node.removed_at_s) == 2


def test_what_was_zero_when_its_node_was_first_seen_is_tried_every_minute() -> None:
    """The operator has just started, or the node has just come back: how old the 0 is is unknown."""
    node = Retirement(remembers_until_s=0)
    node.run_until(346)  # removed
    assert not node.listed
    node.store.remove("Node", "n", "u")
    node.uid, node.remembers_until_s = "another", 346 + 100
    node.say("0")
    node.run_until(346 + 59)
    assert len(node.removed_at_s) == 1
    node.run_until(346 + 61)
    assert len(node.removed_at_s) == 2
    assert not node.listed
    node.run_until(346 + 200)
    assert len(node.removed_at_s) == 3
    assert not node.listed
