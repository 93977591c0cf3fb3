"""Which of several linkds of a node enforces: one at a time, and the next one in its turn."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from device_plugin.second_layer import turn as turn_module
from device_plugin.second_layer.turn import Turn

TIMEOUT_S = 60.0


class Process:
    """A linkd that waits for its turn in a thread."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.turn = Turn(directory)
        self.stopped = threading.Event()
        self.ready = threading.Event()
        self.has_turn: bool | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def wait(self, timeout_s: float) -> bool:
        """Stand in for ``Stop.wait``."""
        return self.stopped.wait(timeout_s)

    def _run(self) -> None:
        stop: Any = self
        self.has_turn = self.turn.wait(stop, self.ready.set)

    def join(self) -> bool | None:
        self._thread.join(TIMEOUT_S)
        return self.has_turn


@pytest.fixture
def start(tmp_path: Path) -> Callable[[], Process]:
    return lambda: Process(tmp_path)


def test_one_has_its_turn_at_once_and_the_next_one_waits(start: Callable[[], Process]) -> None:
    first = start()
    assert first.join()
    second = start()
    assert second.ready.wait(TIMEOUT_S)
    third = start()
    assert not third.ready.wait(0.3), "the second is the next one"
    assert second.has_turn is None
    assert first.turn.pass_on()
    assert second.join()
    first.turn.close()
    assert third.ready.wait(TIMEOUT_S)
    assert third.has_turn is None
    third.stopped.set()
    assert third.join() is False


def test_without_a_next_one_the_turn_is_not_passed_on(start: Callable[[], Process]) -> None:
    first = start()
    assert first.join()
    second = start()
    assert second.ready.wait(TIMEOUT_S)
    second.stopped.set()
    assert second.join() is False
    second.turn.close()
    assert first.turn.pass_on() is False


def test_a_next_one_that_ends_in_the_handover_gives_the_turn_back(
    start: Callable[[], Process],
) -> None:
    first = start()
    assert first.join()
    waiting = Turn(first.directory)
    assert turn_module._lock(waiting._next)
    threading.Timer(0.2, waiting.close).start()
    assert first.turn.pass_on() is False


def test_a_next_one_that_is_stopped_has_the_turn_that_was_left_to_it(
    start: Callable[[], Process],
) -> None:
    """Otherwise the rules would remain after an uninstallation."""
    first = start()
    assert first.join()
    second = start()
    assert second.ready.wait(TIMEOUT_S)
    first.turn.close()
    second.stopped.set()
    assert second.join() is True
