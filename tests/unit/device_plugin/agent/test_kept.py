"""The supervisor's restarts of a child: pauses and heartbeats, by a clock that the test sets."""

from types import SimpleNamespace

import pytest

from device_plugin import app
from device_plugin.app import ChildProcess

LONG_S = 3600.0  # without a heartbeat


class World:
    """A clock, and the processes that were created; the last one is the child."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.made: list[SimpleNamespace] = []

    def process(self, **_: object) -> SimpleNamespace:
        """Create a fake process."""
        made = SimpleNamespace(exitcode=None, sentinel=40 + len(self.made), started=0)

        def start() -> None:
            made.started += 1

        made.start = start
        self.made.append(made)
        return made

    def end(self, after_s: float) -> None:
        """Advance the clock, and end the child."""
        self.now += after_s
        self.made[-1].exitcode = 1


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(app, "_fork", SimpleNamespace(Process=made.process))
    monkeypatch.setattr(app, "time", SimpleNamespace(monotonic=lambda: made.now))
    return made


def test_a_child_is_started_once_and_watched(world: World) -> None:
    kept = ChildProcess("agent", lambda _beat: None, LONG_S)
    assert (kept.sentinel, kept.has_ended, kept.hangs) == (0, False, False)
    assert kept.start_if_due() == pytest.approx(LONG_S)
    assert kept.start_if_due() == pytest.approx(LONG_S)
    (only,) = world.made
    assert (only.started, kept.sentinel, kept.has_ended) == (1, 40, False)
    world.now += 5.0
    assert kept.age_s == 5.0


def test_one_that_dies_young_is_started_after_a_pause_that_grows(world: World) -> None:
    kept = ChildProcess("agent", lambda _beat: None, LONG_S)
    kept.start_if_due()
    pauses = [0.0, *(0.2 * 2**n for n in range(6)), 10.0, 10.0]
    for count, pause in enumerate(pauses, 1):
        world.end(after_s=4.9)
        assert kept.has_ended
        if pause:
            assert kept.start_if_due() == pytest.approx(pause)
            assert (len(world.made), kept.sentinel, kept.has_ended) == (count, 0, False)
            world.now += pause / 2
            assert kept.start_if_due() == pytest.approx(pause / 2)
            assert len(world.made) == count
            world.now += pause / 2 + 1e-6
        assert kept.start_if_due() == pytest.approx(LONG_S)
        assert len(world.made) == count + 1


def test_one_that_lived_long_is_started_at_once_and_forgiven(world: World) -> None:
    kept = ChildProcess("agent", lambda _beat: None, LONG_S)
    kept.start_if_due()
    for after_s in (1.0, 1.0, 1.0):
        world.end(after_s)
        world.now += (kept.start_if_due() or 0.0) + 1e-6
        kept.start_if_due()
    world.end(after_s=5.0)
    assert kept.start_if_due() == pytest.approx(LONG_S)
    world.end(after_s=1.0)
    assert kept.start_if_due() == pytest.approx(
        LONG_S
    )  # there is no pause before the first restart
    world.end(after_s=1.0)
    assert kept.start_if_due() == pytest.approx(0.2)


def test_one_that_is_not_to_come_again_is_left_as_it_ended(world: World) -> None:
    kept = ChildProcess("agent", lambda _beat: None, LONG_S)
    assert kept.start_if_due(again=False) == pytest.approx(
        LONG_S
    )  # a child that was never started is started
    assert kept.start_if_due(again=False) == pytest.approx(LONG_S)
    world.end(after_s=1.0)
    for _ in range(2):
        assert kept.start_if_due(again=False) == 0.0
        assert (kept.has_ended, len(world.made)) == (True, 1)
    assert kept.start_if_due() == pytest.approx(LONG_S)
    assert len(world.made) == 2


def test_silence_is_measured_from_the_start_or_the_last_sign(world: World) -> None:
    kept = ChildProcess("agent", lambda _beat: None, hung_after_s=3.0)
    assert not kept.hangs
    assert kept.start_if_due() == 3.0
    world.now += 2.0
    assert (kept.start_if_due(), kept.hangs) == (1.0, False)
    kept.record_heartbeat()
    assert kept.start_if_due() == 3.0
    world.now += 2.75
    assert (kept.start_if_due(), kept.hangs) == (0.25, False)
    world.now += 0.25
    assert (kept.start_if_due(), kept.hangs) == (0.0, True)
    world.now += 9.0
    assert (kept.start_if_due(), kept.hangs) == (0.0, True)
    world.end(after_s=0.0)
    assert not kept.hangs  # it has ended
    assert kept.start_if_due() == 3.0
    assert not kept.hangs
