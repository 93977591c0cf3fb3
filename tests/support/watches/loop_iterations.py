"""An event loop that measures the CPU time of each of its iterations."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any


class MeasuredLoop(asyncio.SelectorEventLoop):
    """An event loop that keeps the longest iteration, in seconds of its thread's CPU time."""

    longest_s = 0.0
    iterations = 0

    def _run_once(self) -> None:
        began = time.thread_time()
        super()._run_once()  # type: ignore[misc]
        self.longest_s = max(self.longest_s, time.thread_time() - began)
        self.iterations += 1


def run_measured(work: Coroutine[Any, Any, object]) -> MeasuredLoop:
    """Run a coroutine to its end in a new loop; return the loop, which is closed."""
    loop = MeasuredLoop()
    try:
        loop.run_until_complete(work)
    finally:
        loop.close()
    return loop
