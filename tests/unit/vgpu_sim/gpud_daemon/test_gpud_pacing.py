"""Rate limits for tenants, against a clock that only the test advances."""

import asyncio

import pytest

from vgpu_sim.system import pacing
from vgpu_sim.system.pacing import LogQuota, Pace


class LoopClock:
    """Advances when the test sets it, and by every sleep."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.slept: list[float] = []
        monkeypatch.setattr(pacing.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(pacing.asyncio, "get_running_loop", lambda: self)
        monkeypatch.setattr(pacing.asyncio, "sleep", self._sleep)

    def time(self) -> float:
        return self.now

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> LoopClock:
    return LoopClock(monkeypatch)


def turns(pace: Pace, count: int) -> None:
    """Take turns without an event loop: no call really waits."""
    for _ in range(count):
        with pytest.raises(StopIteration):
            pace.wait_for_turn().send(None)


def test_turns_below_the_rate_are_immediate_and_above_it_wait_for_the_next_second(
    clock: LoopClock,
) -> None:
    pace = Pace(3)
    turns(pace, 3)
    assert clock.slept == []
    clock.now += 0.25
    turns(pace, 1)
    assert clock.slept == [0.75]


def test_in_each_second_there_are_as_many_turns(clock: LoopClock) -> None:
    pace = Pace(3)
    turns(pace, 4)  # the fourth belongs to the next second, which begins when the first is over
    assert clock.slept == [1.0]
    turns(pace, 3)
    assert clock.slept == [1.0]
    turns(pace, 1)
    assert clock.slept == [1.0, 1.0]


def test_a_pause_earns_no_turns_for_later(clock: LoopClock) -> None:
    pace = Pace(3)
    turns(pace, 1)
    clock.now += 100
    turns(pace, 3)
    assert clock.slept == []
    turns(pace, 1)
    assert clock.slept == [1.0]


def test_lines_are_counted_by_the_minute(clock: LoopClock) -> None:
    quota = LogQuota(2)
    assert [quota.take() for _ in range(4)] == [True, True, False, False]
    clock.now += 59.99
    assert not quota.take()
    clock.now = 1060.0
    assert [quota.take() for _ in range(3)] == [True, True, False]


def test_a_pace_is_kept_in_real_time() -> None:
    async def scenario() -> float:
        loop = asyncio.get_running_loop()
        pace = Pace(2)
        started = loop.time()
        for _ in range(3):
            await pace.wait_for_turn()
        return loop.time() - started

    assert asyncio.run(scenario()) > 0.9
