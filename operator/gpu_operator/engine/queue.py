"""A work queue, in which each key waits at most once and is in progress at most once.

A key whose work failed is processed again after a growing delay.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

FIRST_BACKOFF_S = 0.25
LAST_BACKOFF_S = 60.0


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """The unit of reconciliation: a kind and a name."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


class WorkQueue:
    """A queue of keys to process, owned by one event loop.

    A key that is added while in progress is processed again.
    """

    def __init__(self) -> None:
        self._ready: asyncio.Queue[Key] = asyncio.Queue()
        self._waiting: set[Key] = set()  # in _ready
        self._working: set[Key] = set()
        self._again: set[Key] = set()  # added while in progress
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._failures: dict[Key, int] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: Key) -> None:
        """Enqueue a key, to be processed as soon as possible."""
        self._cancel_timer(key)
        if key in self._working:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._ready.put_nowait(key)

    def add_after(self, key: Key, delay_s: float) -> None:
        """Enqueue a key after a delay.

        If the key is already due to be enqueued earlier, that time is kept.
        """
        if delay_s <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None and timer.when() <= loop.time() + delay_s:
            return
        self._cancel_timer(key)
        self._timers[key] = loop.call_later(delay_s, self.add, key)

    async def work_on_one(self, work: Callable[[Key], Awaitable[bool]]) -> None:
        """Wait for a key and call ``work`` with it; ``work`` returns whether it succeeded."""
        key = await self._ready.get()
        self._waiting.discard(key)
        self._working.add(key)
        is_done = False
        try:
            is_done = await work(key)
        finally:
            self._working.discard(key)
            if is_done:
                self._failures.pop(key, None)
            if key in self._again:
                self._again.discard(key)
                self.add(key)
            elif not is_done:
                self.add_after(key, self._next_backoff_s(key))

    def _next_backoff_s(self, key: Key) -> float:
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        return min(FIRST_BACKOFF_S * 2.0 ** min(failures, 16), LAST_BACKOFF_S)

    def _cancel_timer(self, key: Key) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
