"""Divide long work among iterations of hcad's loop, so that it delays no other program.

A function may have thousands of objects, so work on all of them takes longer than one iteration of
the loop may take.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any, Final, TypeVar

STEP_SECONDS: Final = 0.005
"""The CPU time that the work of one runner may take in one iteration of the loop."""
Result = TypeVar("Result")
Item = TypeVar("Item")
Steps = Generator[None, None, Result]
"""Work that is divided into short steps: it yields between them, and returns its result."""


class StepRunner:
    """Runs work in steps, within a bound for each iteration of the loop.

    All work of a runner shares this bound: programs that end together take no more of an iteration
    than one. Work is not interleaved.
    """

    def __init__(self, seconds: float = STEP_SECONDS) -> None:
        self._seconds = seconds
        self._queue: deque[tuple[Steps[Any], asyncio.Future[Any]]] = deque()
        self._task: asyncio.Task[None] | None = None

    async def run(self, steps: Steps[Result]) -> Result:
        """Run all steps, after those of earlier calls, and return their result.

        The steps are run even if the caller is cancelled. An exception of a step is raised.
        """
        return await asyncio.shield(self.begin(steps))

    def begin(self, steps: Steps[Result]) -> asyncio.Future[Result]:
        """Begin what ``run`` does, for a caller that need not wait; return the future result."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._queue.append((steps, future))
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._work())
        return future

    def finish(self) -> None:
        """Run all remaining steps now, because hcad ends."""
        self._advance(float("inf"))

    async def _work(self) -> None:
        while self._queue:
            self._advance(time.thread_time() + self._seconds)
            await asyncio.sleep(0)

    def _advance(self, end: float) -> None:
        """Run at least one step, and more until the thread's CPU time reaches ``end``."""
        while self._queue:
            steps, future = self._queue[0]
            try:
                next(steps)
            except StopIteration as stop:
                self._end(partial(future.set_result, stop.value))
            except Exception as err:  # noqa: BLE001 - it is raised where the work was requested
                self._end(partial(future.set_exception, err))
            if time.thread_time() >= end:
                return

    def _end(self, report: Callable[[], None]) -> None:
        _, future = self._queue.popleft()
        if not future.done():
            report()


def run_at_once(steps: Steps[Result]) -> Result:
    """Run all steps without a loop, and return their result."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: Result = stop.value
            return result


def divide(items: Iterable[Item], count: int) -> Iterator[list[Item]]:
    """Yield lists of at most ``count`` successive items."""
    following = iter(items)
    while batch := list(islice(following, count)):
        yield batch
