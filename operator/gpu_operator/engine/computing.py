"""A thread in which one computation at a time is done, and for how long one has been going on."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_Made = TypeVar("_Made")


class Computing:
    """Used by one event loop at a time, which goes on meanwhile; liveness reads ``stuck_for_s``."""

    def __init__(self, name: str) -> None:
        """``name`` is the thread's."""
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turn = asyncio.Lock()
        self._began: float | None = None
        self.took_s = 0.0
        """How long the last one took."""

    @property
    def stuck_for_s(self) -> float:
        """For how long a computation has been going on now."""
        return 0.0 if self._began is None else time.monotonic() - self._began

    async def run(self, prepare: Callable[[], Callable[[], _Made]]) -> _Made:
        """Return what is computed, once nothing else is; raise what that raises.

        ``prepare`` is called on the event loop when the turn has come, and returns the computation:
        what is known by then is what it starts from.
        """
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # a lock belongs to the loop in which tasks first waited for it
            self._loop, self._turn = loop, asyncio.Lock()
        async with self._turn:
            self._began = began = time.monotonic()
            try:
                return await loop.run_in_executor(self._thread, prepare())
            finally:
                self._began = None
                self.took_s = time.monotonic() - began

    def close(self) -> None:
        """Begin nothing any more; what is going on is not waited for."""
        self._thread.shutdown(wait=False)
