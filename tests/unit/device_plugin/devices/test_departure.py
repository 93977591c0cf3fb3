"""An agent ends when no pod can be bound to its slices any more, or at its deadline."""

import threading

import pytest

from device_plugin.agent.leaving import departure
from device_plugin.agent.leaving.departure import Deadline, depart, wait_until_lowered
from device_plugin.errors import ClusterError
from device_plugin.kube.node_status import NodeStatus

SLICES, WHOLE, HCA = "gpu.tessera.dev/mig-1g.10gb", "gpu.tessera.dev/gpu", "rdma.tessera.dev/hca"


class Node:
    """A kubelet that raises ``allocatable`` every ``period`` s, and an operator that lowers it.

    ``lowers_after`` None: there is no operator.
    """

    def __init__(self, period: float = 2.0, lowers_after: float | None = 0.4) -> None:
        self.now, self.period, self.lowers_after = 100.7, period, lowers_after

    def status(self) -> NodeStatus:
        written = int(self.now / self.period)
        since = self.now - written * self.period
        is_low = self.lowers_after is not None and since >= self.lowers_after
        count = 0 if is_low else 4
        return NodeStatus({SLICES: count, WHOLE: count, HCA: count}, f"kubelet {written}")

    def pause(self, seconds: float) -> None:
        self.now += seconds

    def wait(self, *resources: str, longest_s: float = 25.0) -> bool:
        return wait_until_lowered(resources, self.status, longest_s, lambda: self.now, self.pause)


@pytest.mark.parametrize("period", [2.0, 10.0])
def test_an_agent_ends_while_the_kubelet_s_next_write_is_far_away(period: float) -> None:
    node = Node(period)
    assert node.wait(SLICES, WHOLE)
    assert node.status().allocatable[SLICES] == 0
    since = node.now % node.period
    assert 0.8 < since < max(2.0, 0.4 * node.period)
    assert node.now - 100.7 < 2 * period + 1


@pytest.mark.parametrize("resource", [HCA, "gpu.tessera.dev/small"])
def test_every_resource_with_devices_is_waited_for(resource: str) -> None:
    """The resource may be that of HCA functions, or one that sharing has named."""
    node = Node()
    assert node.wait(resource)
    assert node.status().allocatable[HCA] == 0
    assert node.now > 101.2


def test_an_agent_that_offers_nothing_ends_at_once() -> None:
    node = Node()
    assert node.wait()
    assert node.now == 100.7


@pytest.mark.parametrize("longest", [0.2, 25.0])
def test_without_an_operator_the_wait_ends(longest: float) -> None:
    node = Node(lowers_after=None)
    assert not node.wait(SLICES, longest_s=longest)
    assert node.now == pytest.approx(100.7 + longest)


def test_an_api_server_that_is_away_is_read_again() -> None:
    node = Node()
    answers = iter([ClusterError("away")] * 3)

    def look() -> NodeStatus:
        for err in answers:
            raise err
        return node.status()

    assert wait_until_lowered([SLICES], look, 25.0, lambda: node.now, node.pause)
    assert node.now > 101.2


class Agent:
    """An agent that takes ``reports_s`` for its report; records its calls and their time limits."""

    served = frozenset({SLICES})

    def __init__(self, reports_s: float = 0.0) -> None:
        self.now, self.reports_s = 100.0, reports_s
        self.done: list[object] = []

    def report_leaving(self, within_s: float) -> None:
        self.done.append(("report_leaving", within_s))
        self.now += min(within_s, self.reports_s)

    def stop_writing_cdi(self) -> None:
        self.done.append("stop_writing_cdi")

    def deadline(self, within_s: float, *, waited_for_after_s: float = 0.0) -> Deadline:
        signals = threading.Event()
        made = Deadline(within_s, signals.wait, lambda: self.now)
        assert made.left_s() == float("inf")
        signals.set()
        made._is_set.wait(60)
        self.now += waited_for_after_s
        made.wait_for_signal()
        return made


def test_the_time_to_leave_begins_when_the_signal_comes() -> None:
    """An agent that is still starting may wait for the signal only after it came."""
    agent = Agent()
    assert agent.deadline(28.0, waited_for_after_s=10.0).left_s() == 18.0
    agent.now += 20
    assert agent.deadline(28.0, waited_for_after_s=30.0).left_s() == 0.0


@pytest.mark.parametrize(("reports_s", "left_s"), [(0.5, 27.5), (60.0, 25.0)])
def test_report_and_wait_share_one_deadline(
    reports_s: float, left_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, waits = Agent(reports_s), []
    monkeypatch.setattr(departure, "wait_until_lowered", lambda *a: waits.append(a))
    look = Node().status
    depart(agent, look, agent.deadline(28.0))
    assert waits == [(agent.served, look, left_s)]
    assert agent.done == [("report_leaving", 3.0), "stop_writing_cdi"]


def test_an_api_server_that_does_not_answer_holds_up_no_end() -> None:
    agent, answers = Agent(), threading.Event()

    def look() -> NodeStatus:
        answers.wait(60)
        raise ClusterError("away")

    depart(agent, look, agent.deadline(0.0625))
    assert not answers.is_set()
    assert agent.done == [("report_leaving", 0.0625), "stop_writing_cdi"]
    answers.set()
    for one in threading.enumerate():
        if one.name == "departure":
            one.join(60)
