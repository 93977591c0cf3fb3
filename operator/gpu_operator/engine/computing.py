"""A thread that runs one computation at a time and reports how long it has been running."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_Made = TypeVar("_Made")


class Computing:
    """Runs computations in a thread, so that the event loop stays responsive.

    The liveness probe reads ``stuck_for_s``.
    """

    def __init__(self, name: str) -> None:
        """Initialize; ``name`` is the thread's name."""
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turn = asyncio.Lock()
        self._began: float | None = None
        self.took_s = 0.0
        """Duration of the last computation, in seconds."""

    @property
    def stuck_for_s(self) -> float:
        """Return the seconds for which the current computation has been running."""
        return 0.0 if self._began is None else time.monotonic() - self._began

    async def run(self, prepare: Callable[[], Callable[[], _Made]]) -> _Made:
        """Run a computation after those queued before it; return its result or raise its exception.

        ``prepare`` returns the computation. It is called on the event loop right before the
        computation starts, so that the computation uses the latest state.
        """
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # an asyncio lock belongs to the loop that first used it
            self._loop, self._turn = loop, asyncio.Lock()
        async with self._turn:
            self._began = began = time.monotonic()
            try:
                return await loop.run_in_executor(self._thread, prepare())
            finally:
                self._began = None
                self.took_s = time.monotonic() - began

    def close(self) -> None:
        """Start no further computation; do not wait for the current one."""
        self._thread.shutdown(wait=False)
