"""A fair lock for launches that the interpreter runs concurrently, each on a thread of its own.

One launch at a time holds the lock, so that no other launch runs between the parts of an
instruction. The launch releases the lock where the interpreter pauses. Waiting launches get the
lock in order of arrival, so a launch that polls memory eventually observes another launch's
stores.
"""

import threading
from collections import deque
from time import monotonic_ns
from types import TracebackType
from typing import Final

_TURN_NS: Final = 1_000_000  # switching threads costs some tens of microseconds


class FairLock:
    """A lock with a FIFO queue; use it in a ``with`` statement around a launch."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # protects the fields below
        self._taken = False
        self._waiting: deque[threading.Lock] = deque()
        self._since_ns = 0

    def __enter__(self) -> None:
        mine = None
        with self._lock:
            if self._taken:
                mine = threading.Lock()
                mine.acquire()
                self._waiting.append(mine)
            self._taken = True
        if mine is not None:
            mine.acquire()
        self._since_ns = monotonic_ns()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._taken = False

    def yield_to_waiting(self) -> None:
        """Let waiting launches run first if this launch has held the lock long enough. Call it only
        while the lock is held.
        """
        if self._waiting and monotonic_ns() - self._since_ns >= _TURN_NS:
            self.__exit__(None, None, None)
            self.__enter__()
