"""Since when a daemon has not answered, and how long the next request may wait for it."""

import threading
import time
from collections.abc import Callable
from typing import Final

_LONGEST_S: Final = 15.0
_SHORTEST_S: Final = 1.0
_LOST_S: Final = 5.0  # a daemon that is slow, not gone, answers within this time


class Presence:
    """The time of a daemon's last answer. Thread-safe (``_lock``).

    A request that is made while the daemon hangs ends when the daemon begins to count as lost. So
    this is noticed in time, however long an ordinary request may take.
    """

    def __init__(self, lost_after_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._lost_after_s = lost_after_s
        self._clock = clock
        self._lock = threading.Lock()
        self._answered_at = clock()

    def record_answer(self) -> None:
        """Record that the daemon has just answered."""
        with self._lock:
            self._answered_at = self._clock()

    @property
    def is_lost(self) -> bool:
        """Return whether the daemon has not answered for so long that it counts as lost."""
        return self._remaining_s() <= 0

    def time_limit_s(self) -> float:
        """Return how long the next request may wait for its answer."""
        remaining_s = self._remaining_s()
        if remaining_s <= 0:
            return _LOST_S
        return min(max(remaining_s, _SHORTEST_S), _LONGEST_S)

    def _remaining_s(self) -> float:
        with self._lock:
            return self._answered_at + self._lost_after_s - self._clock()
