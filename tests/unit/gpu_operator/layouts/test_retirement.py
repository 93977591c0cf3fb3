"""Removal of a resource that is 0, while a kubelet that remembers it restores it."""

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
    """A timeline in seconds since the kubelet first reported 0; it reports what it remembers at
    each tick.

    The operator reconciles when the watch reports a change, and at the time that it requested. A
    ``quick`` kubelet restores a removed resource before a watch can show the removal.
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
        """Set the node's capacity for the resource; None removes it."""
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


def test_a_forgotten_resource_is_removed_once() -> None:
    node = Retirement(remembers_until_s=30 + REMEMBERS_S)
    node.run_until(2000)
    (removed_at_s,) = node.removed_at_s
    assert 0 <= removed_at_s - extended_resources.RETIRE_AFTER_S <= 1
    assert not node.listed


@pytest.mark.parametrize("quick", [False, True])
def test_an_undone_removal_is_retried_a_minute_later(quick: bool) -> None:
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
def test_the_cleanup_waits_for_a_restarted_kubelet(restarted_s: int) -> None:
    node = Retirement(remembers_until_s=restarted_s + REMEMBERS_S)
    node.run_until(cleanup._RETIRE_TIMEOUT_S)
    assert not node.listed


def test_a_resource_that_was_offered_again_restarts_its_wait() -> None:
    node = Retirement(remembers_until_s=400)
    node.run_until(402)  # removed once, and restored
    assert node.listed
    node.say("7")
    node.say("0")
    node.run_until(402 + extended_resources.RETIRE_AFTER_S - 1)
    assert len(node.removed_at_s) == 1
    node.run_until(402 + extended_resources.RETIRE_AFTER_S + 1)
    assert len(node.removed_at_s) == 2


def test_a_resource_that_was_zero_at_first_is_tried_every_minute() -> None:
    """The operator has just started or the node has just returned: the age of the 0 is unknown."""
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
