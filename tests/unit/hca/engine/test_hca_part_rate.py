"""The rate of DCQCN's reaction point, compared with the paper's equations and a worked example.

Zhu and others, "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015, section 5.
Rates are in Gb/s here and in bytes per nanosecond in the engine, so that a wrong unit is
detected.
"""

import random
from ctypes import POINTER, byref, c_uint64, pointer

import pytest

from support.rigs import hca_parts
from support.rigs.hca_parts import Bucket, Congestion, Limit, Parts

LINE, LEAST = 40.0, 0.04
STEP_NS, VOLUME = 55_000, 10_000_000
G = 1 / 256
START = 7_000_000_000


@pytest.fixture
def parts(compiled_parts) -> Parts:
    return compiled_parts


class Flow:
    """A flow, as the engine computes its rate."""

    def __init__(self, parts: Parts) -> None:
        self.library, self.state, self.now = parts.library, Congestion(), START

    def cut(self) -> None:
        self.library.wire_congestion_cut(byref(self.state), c_uint64(self.now))

    def advance(self, ns: int) -> int:
        self.now += ns
        return int(self.library.wire_congestion_advance(byref(self.state), c_uint64(self.now)))

    def spend(self, count: int) -> None:
        self.library.wire_congestion_spend(byref(self.state), c_uint64(count))

    def wait_ns(self) -> int:
        return int(self.library.wire_congestion_wait_ns(byref(self.state), c_uint64(self.now)))

    @property
    def rate(self) -> float:
        """Return the rate in gigabits a second."""
        return self.state.rate * 8


class Paper:
    """The same flow, as the paper's equations compute its rate."""

    def __init__(self) -> None:
        self.limited, self.alpha, self.now = False, 1.0, START
        self.current = self.target = LINE

    def _set(self, rate: float) -> None:
        self.current = max(rate, LEAST)
        self.limited = self.current < LINE

    def cut(self) -> None:
        if not self.limited:
            self.alpha, self.current = 1.0, LINE
        self.target = self.current
        self._set(self.current * (1 - self.alpha / 2))
        self.alpha = (1 - G) * self.alpha + G
        self.timer, self.counter, self.sent = 0, 0, 0
        self.due = self.now + STEP_NS

    def _raise(self) -> None:
        if max(self.timer, self.counter) < 5:
            pass  # fast recovery
        elif min(self.timer, self.counter) > 5:
            self.target += (min(self.timer, self.counter) - 5) * 0.05
        else:
            self.target += 0.005
        self.target = min(self.target, LINE)
        middle = (self.target + self.current) / 2
        self._set(LINE if LINE - middle < 0.005 else middle)

    def advance(self, ns: int) -> int:
        self.now += ns
        steps = 0
        while self.limited and self.due <= self.now:
            self.due, self.timer, steps = self.due + STEP_NS, self.timer + 1, steps + 1
            self.alpha *= 1 - G
            self._raise()
        return steps

    def spend(self, count: int) -> None:
        if self.limited:
            self.sent += count
            if self.sent >= VOLUME:
                self.sent, self.counter = self.sent - VOLUME, self.counter + 1
                self._raise()


def test_a_worked_example_of_a_flow_that_is_notified_once(parts):
    """The rate is halved, then regains half of the loss in each of five steps."""
    flow = Flow(parts)
    flow.cut()
    assert (flow.rate, flow.state.target * 8, flow.state.alpha) == (20, 40, 1)
    seen = []
    for _ in range(5):
        assert flow.advance(STEP_NS - 1) == 0
        assert flow.advance(1) == 1
        seen.append(flow.rate)
    assert seen == [30, 35, 37.5, 38.75, 39.375]
    assert flow.state.alpha == pytest.approx((255 / 256) ** 5, rel=1e-12)
    flow.cut()
    assert flow.state.target * 8 == 39.375
    assert flow.rate == pytest.approx(39.375 * (1 - (255 / 256) ** 5 / 2), rel=1e-12)
    assert (flow.state.times, flow.state.volumes, flow.state.bytes) == (0, 0, 0)


@pytest.mark.parametrize(
    ("one", "other", "gained"),
    [
        *((4, 0, 0.0), (5, 0, 0.005), (1, 4, 0.0), (1, 5, 0.005), (6, 5, 0.005), (5, 6, 0.005)),
        *((6, 6, 0.05), (9, 7, 0.1), (7, 9, 0.1)),
    ],
)
@pytest.mark.parametrize("by_time", [True, False])
def test_how_much_a_step_adds_to_the_target(parts, one, other, gained, by_time):
    """A step increments counter ``one`` and adds to the target what both counters allow."""
    times, volumes = (one, other) if by_time else (other, one)
    flow = Flow(parts)
    flow.cut()
    state = flow.state
    state.times, state.volumes = times - by_time, volumes - (not by_time)
    state.target, state.rate = 10 / 8, 6 / 8
    if by_time:
        flow.advance(STEP_NS)
    else:
        flow.spend(VOLUME - 1)
        assert flow.rate == 6
        flow.spend(1)
    assert (state.times, state.volumes) == (times, volumes)
    assert state.target * 8 == pytest.approx(10 + gained, rel=1e-12)
    assert flow.rate == pytest.approx((16 + gained) / 2, rel=1e-12)


@pytest.mark.parametrize(("rate", "limited"), [(39.98, True), (39.9899, True), (39.9902, False)])
def test_the_last_part_of_the_rate_is_restored_at_once(parts, rate, limited):
    flow = Flow(parts)
    flow.cut()
    flow.state.target, flow.state.rate = 5.0, rate / 8
    flow.advance(STEP_NS)
    assert flow.state.limited == limited
    assert (flow.rate == 40) != limited


def test_however_often_its_rate_is_cut_a_flow_continues(parts):
    flow = Flow(parts)
    for _ in range(40):
        flow.cut()
    assert flow.rate == pytest.approx(LEAST, rel=1e-12)
    flow.spend(5000)
    assert flow.wait_ns() in (1_000_000, 1_000_001), "5 MB/s"
    flow.advance(STEP_NS)
    assert flow.rate == pytest.approx(LEAST, rel=1e-9), "the target was as little"


def test_a_long_pause_restores_a_flow_s_rate_in_bounded_time(parts):
    """It takes at most 4,096 steps; by the equations alone it would take 7,839."""
    flow = Flow(parts)
    for _ in range(60):
        flow.cut()
    assert flow.advance(STEP_NS * 4096) == 4096
    assert flow.state.limited
    for _ in range(60):
        flow.cut()
    assert flow.advance(STEP_NS * 100_000) == 4096
    assert not flow.state.limited
    assert flow.rate == LINE
    assert (flow.advance(STEP_NS), flow.wait_ns()) == (0, 0)
    flow.spend(1 << 40)
    assert (flow.state.bytes, flow.wait_ns()) == (0, 0), "it has no limit any more"
    flow.cut()
    assert (flow.rate, flow.state.alpha) == (20, 1), "as the first time"


@pytest.mark.parametrize(("count", "wait"), [(0, 0), (2500, 1001), (25000, 10001)])
def test_a_flow_waits_until_its_rate_has_made_up_for_what_it_sent(parts, count, wait):
    flow = Flow(parts)
    flow.cut()
    flow.spend(count)
    assert flow.wait_ns() == wait, "20 Gb/s"
    flow.now += wait
    assert flow.wait_ns() == 0


def test_a_pause_saves_up_a_millisecond(parts):
    flow = Flow(parts)
    for _ in range(60):
        flow.cut()
    flow.now += STEP_NS * 100
    assert flow.wait_ns() == 0
    flow.spend(int(flow.state.bucket.burst))
    assert flow.state.bucket.burst == pytest.approx(flow.state.rate * 1e6, rel=1e-12)
    flow.state.next_ns = flow.now + STEP_NS
    assert flow.wait_ns() == 0
    flow.spend(2)
    assert flow.wait_ns() > 0


@pytest.mark.parametrize("seed", range(8))
def test_a_flow_s_rate_follows_the_paper_s_equations(parts, seed):
    choose = random.Random(seed)
    flow, paper = Flow(parts), Paper()
    for _ in range(400):
        act = choose.random()
        if act < 0.05 or not paper.limited:
            flow.cut()
            paper.cut()
        elif act < 0.6:
            ns = choose.choice([1, 1000, STEP_NS - 1, STEP_NS, STEP_NS + 1, 20 * STEP_NS])
            assert flow.advance(ns) == paper.advance(ns)
        else:
            count = choose.choice([1, 4096, VOLUME - 1, VOLUME, VOLUME + 1, VOLUME // 2])
            flow.spend(count)
            paper.spend(count)
        assert flow.rate == pytest.approx(paper.current, rel=1e-9)
        assert flow.state.limited == paper.limited
        if paper.limited:
            assert flow.state.target * 8 == pytest.approx(paper.target, rel=1e-9)
            assert flow.state.alpha == pytest.approx(paper.alpha, rel=1e-9)
            assert (flow.state.times, flow.state.volumes) == (paper.timer, paper.counter)
            assert flow.state.bucket.per_ns == flow.state.rate


@pytest.mark.parametrize(
    ("per_second", "burst"),
    [(0, 65536), (1, 65536), (6_553_699, 65536), (6_553_700, 65537), (10**9, 10**7)],
)
def test_a_bucket_begins_empty_and_holds_ten_milliseconds_of_its_rate(parts, per_second, burst):
    parts.set_clock(START)
    made = parts.library.hca_bucket_of(c_uint64(per_second))
    assert (made.per_ns, made.burst) == (per_second / 1e9, burst)
    assert (made.tokens, made.filled_ns) == (0, START)


@pytest.mark.parametrize(
    ("tokens", "passed", "wait", "left"),
    [
        *((0, 0, 0, 0), (-1, 0, 501, -1), (-1000, 0, 500_001, -1000), (-2, 1000, 0, 0)),
        *((-2, 999, 2, -0.002), (5, 10**9, 0, 100), (0, 50_000, 0, 100), (0, 49_999, 0, 99.998)),
        (-3, -5, 1501, -3),
    ],
)
def test_a_bucket_fills_at_its_rate_up_to_its_burst(parts, tokens, passed, wait, left):
    """The rate is two bytes per microsecond, the burst a hundred bytes."""
    bucket = Bucket(0.002, 100, tokens, START)
    now = c_uint64(START + passed)
    found = parts.library.hca_bucket_wait_ns(byref(bucket), now)
    assert found == pytest.approx(wait, abs=1)
    assert (found == 0) == (wait == 0)
    assert bucket.tokens == pytest.approx(left, abs=1e-9)
    assert bucket.filled_ns == max(START, START + passed)


def test_a_bucket_without_a_rate_has_no_limit(parts):
    bucket = Bucket(0, 100, -(10**9), START)
    assert parts.library.hca_bucket_wait_ns(byref(bucket), c_uint64(START + 1)) == 0


@pytest.mark.parametrize(
    ("tokens", "wait"),
    [
        *(([(0, 0)], 0), ([(-4, 0)], 4), ([(0, -4)], 4), ([(-4, -7)], 7), ([(-7, -4)], 7)),
        *(([(-1, 0), (-5, -2)], 5), ([(-5, -2), (-1, 0)], 5), ([(0, 0), (0, -3)], 3), ([], 0)),
    ],
)
def test_a_flow_waits_for_the_slowest_of_its_limits(parts, tokens, wait):
    """Each limit has a bucket for bytes and one for operations, filled once per microsecond."""
    limits = [Limit(*(Bucket(0.001, 100, one, START) for one in pair)) for pair in tokens]
    flow = hca_parts.Flow(limits=(POINTER(Limit) * len(limits))(*map(pointer, limits)))
    flow.limit_count = len(limits)
    found = parts.library.hca_flow_wait_ns(byref(flow), c_uint64(START))
    assert found == pytest.approx(wait * 1000, abs=1)
    assert (found == 0) == (wait == 0)
    parts.library.hca_flow_spend(byref(flow), c_uint64(20), 3)
    assert [(one.bytes.tokens, one.operations.tokens) for one in limits] == [
        (of_bytes - 20, of_operations - 3) for of_bytes, of_operations in tokens
    ]
