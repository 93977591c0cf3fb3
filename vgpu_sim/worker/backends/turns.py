"""Turns of launches that the interpreter runs side by side, each on a thread of its own.

One at a time has its turn, so that no instruction of another comes between the parts of one; it
ends where the interpreter pauses. Who waits gets his turn in the order in which he came, so a
launch that polls memory for what another one stores gets it.
"""

import threading
from collections import deque
from time import monotonic_ns
from types import TracebackType
from typing import Final

_TURN_NS: Final = 1_000_000  # a change of threads costs some tens of microseconds


class Turns:
    """A lock that is handed over in order; ``with`` it around a launch."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # of what follows
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

    def pause(self) -> None:
        """Let those go first who wait, if this turn was long enough. Inside ``with`` only."""
        if self._waiting and monotonic_ns() - self._since_ns >= _TURN_NS:
            self.__exit__(None, None, None)
            self.__enter__()
