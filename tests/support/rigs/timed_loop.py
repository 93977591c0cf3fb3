"""An event loop that measures the CPU time of its iterations."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any


class TimedLoop(asyncio.SelectorEventLoop):
    """Records the longest iteration, in CPU time of the loop's thread."""

    def __init__(self) -> None:
        super().__init__()
        self.longest_ms = 0.0
        self.iterations = 0

    def restart(self) -> None:
        """Forget the iterations so far."""
        self.longest_ms, self.iterations = 0.0, 0

    def _run_once(self) -> None:
        begin_ns = time.thread_time_ns()
        super()._run_once()  # type: ignore[misc]
        self.longest_ms = max(self.longest_ms, (time.thread_time_ns() - begin_ns) / 1e6)
        self.iterations += 1


def run(scenario: Coroutine[Any, Any, None]) -> None:
    """Run a scenario on a TimedLoop, at most a minute long."""
    with asyncio.Runner(loop_factory=TimedLoop) as runner:
        runner.run(asyncio.wait_for(scenario, 60))
