"""Bounds how often, and how long at a time, a tenant can make gpud work: what is more waits."""

import asyncio
import time

_MINUTE_SECONDS = 60.0


class Pace:
    """At most ``per_second`` turns in a second, in one task."""

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._window_start = 0.0
        self._turns = 0

    async def turn(self) -> None:
        """Return at once while below the rate, else when the second is over."""
        now = asyncio.get_running_loop().time()
        if now - self._window_start >= 1.0:
            self._window_start, self._turns = now, 0
        self._turns += 1
        if self._turns > self._per_second:
            await asyncio.sleep(max(0.0, self._window_start + 1.0 - now))


class Turnstile:
    """Lets the tasks of one slice through one by one: at most one in a round of gpud's loop.

    However many of a slice's messages are there at once, what others wait for comes between each
    two of them.
    """

    def __init__(self, per_second: int) -> None:
        self._pace = Pace(per_second)
        self._one_by_one = asyncio.Lock()

    async def turn(self) -> None:
        """Return when it is the caller's turn, those who came first having had theirs."""
        async with self._one_by_one:
            await self._pace.turn()
            await asyncio.sleep(0)


class LogQuota:
    """Lets ``per_minute`` lines about tenants' doings into the log."""

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._window_start = float("-inf")
        self._lines = 0

    def take(self) -> bool:
        """Tell whether one more line may be written now."""
        now = time.monotonic()
        if now - self._window_start >= _MINUTE_SECONDS:
            self._window_start, self._lines = now, 0
        self._lines += 1
        return self._lines <= self._per_minute
