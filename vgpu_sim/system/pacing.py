"""Rate limits, which bound how often and for how long at a time a tenant can occupy gpud."""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Generator, Hashable
from typing import Any, TypeVar

STEPS_AT_ONCE = 32
_MINUTE_SECONDS = 60.0

T = TypeVar("T")
_Operation = tuple[Generator[None, None, Any], asyncio.Future[Any]]


class Pace:
    """Limits one task to ``per_second`` operations per second."""

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._window_start = 0.0
        self._turns = 0

    async def wait_for_turn(self) -> None:
        """Return at once while the task is below its rate. Otherwise, return when the current
        second is over.
        """
        now_s = asyncio.get_running_loop().time()
        if now_s - self._window_start >= 1.0:
            self._window_start, self._turns = now_s, 0
        self._turns += 1
        if self._turns > self._per_second:
            await asyncio.sleep(max(0.0, self._window_start + 1.0 - now_s))


class Turnstile:
    """Admits the tasks of one slice one by one, at most one per iteration of gpud's event loop.

    However many messages of a slice are pending, the work of other slices runs between any two
    of them.
    """

    def __init__(self, per_second: int) -> None:
        self._pace = Pace(per_second)
        self._one_by_one = asyncio.Lock()

    async def wait_for_turn(self) -> None:
        """Return when it is the caller's turn; turns are granted in order of arrival."""
        async with self._one_by_one:
            await self._pace.wait_for_turn()
            await asyncio.sleep(0)


class StepQueue:
    """Runs operations of any length in short steps: at most ``at_once`` steps per iteration of
    gpud's event loop.

    An operation is a generator; one step runs it to its next ``yield``. The operations of one
    slice run one after the other. Slices take turns, one per iteration, so long operations of a
    slice delay those of another slice by no more than their own number of iterations.
    """

    def __init__(self, at_once: int = STEPS_AT_ONCE) -> None:
        self._at_once = at_once
        self._queues: OrderedDict[Hashable, deque[_Operation]] = OrderedDict()
        self._running: asyncio.Task[None] | None = None

    async def run(self, slice_key: Hashable, steps: Generator[None, None, T]) -> T:
        """Run an operation of a slice; return its result. Raises what the operation raises.

        If the caller is cancelled, the remaining steps do not run.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(slice_key, deque()).append((steps, future))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return await future

    async def _run(self) -> None:
        try:
            while self._queues:
                slice_key, queue = next(iter(self._queues.items()))
                self._queues.move_to_end(slice_key)
                steps, future = queue[0]
                self._advance(steps, future)
                if future.done():
                    queue.popleft()
                    if not queue:
                        del self._queues[slice_key]
                await asyncio.sleep(0)
        finally:
            self._running = None

    def _advance(self, steps: Generator[None, None, T], future: asyncio.Future[T]) -> None:
        """Run some steps of an operation; settle ``future`` if the last one was among them."""
        try:
            for _ in range(self._at_once):
                if future.done():  # the caller was cancelled
                    return
                next(steps)
        except StopIteration as end:
            future.set_result(end.value)
        except Exception as err:  # noqa: BLE001 - raised again in the caller of ``run``
            future.set_exception(err)


class LogQuota:
    """Limits the number of log lines about tenants' actions: at most ``per_minute`` lines are
    logged per minute.
    """

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._window_start = float("-inf")
        self._lines = 0

    def take(self) -> bool:
        """Return whether one more line may be logged now."""
        now_s = time.monotonic()
        if now_s - self._window_start >= _MINUTE_SECONDS:
            self._window_start, self._lines = now_s, 0
        self._lines += 1
        return self._lines <= self._per_minute
