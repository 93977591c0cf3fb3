"""Rate limits, which bound how often and for how long at a time a tenant can occupy gpud."""

import asyncio
import time

_MINUTE_SECONDS = 60.0


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
        now = asyncio.get_running_loop().time()
        if now - self._window_start >= 1.0:
            self._window_start, self._turns = now, 0
        self._turns += 1
        if self._turns > self._per_second:
            await asyncio.sleep(max(0.0, self._window_start + 1.0 - now))


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
        now = time.monotonic()
        if now - self._window_start >= _MINUTE_SECONDS:
            self._window_start, self._lines = now, 0
        self._lines += 1
        return self._lines <= self._per_minute
