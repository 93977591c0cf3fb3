"""Limits concurrent context starts; the slice whose last start is longest ago is next.

A start costs a fork, a sandbox and the loading of a backend, mostly CPU time of one core. A
slice that starts many contexts always has a recent last start, however long its queue is. A
slice that starts contexts rarely therefore waits only until one place is free. No slice can
occupy all places. A slow start keeps its place for a bounded time; then one additional start is
admitted, of a slice that has no start under way.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from vgpu_sim.gpud.model import InstanceUuid

PLACE_SECONDS = 1.0
_REMEMBERED = 1024  # slices; few of them are active


class Starts:
    """Limits how many contexts start concurrently: at most ``at_once`` per slice, and at most
    ``at_once + 1`` on all slices together.
    """

    def __init__(self, at_once: int, place_seconds: float = PLACE_SECONDS) -> None:
        self._at_once = at_once
        self._places = at_once + 1
        self._place_seconds = place_seconds
        self._under_way: Counter[InstanceUuid] = Counter()
        self._late = 0  # starts under way that have kept their places for too long
        self._waiting: dict[InstanceUuid, deque[asyncio.Future[None]]] = {}
        self._served: OrderedDict[InstanceUuid, None] = OrderedDict()  # the most recent one is last

    @asynccontextmanager
    async def turn(self, uuid: InstanceUuid) -> AsyncIterator[None]:
        """Wait until a slice may start a context. The start then counts against the limits until
        the ``with`` block ends.
        """
        await self._enter(uuid)
        late = False

        def be_late() -> None:
            nonlocal late
            late = True
            self._late += 1
            self._admit()

        expiry = asyncio.get_running_loop().call_later(self._place_seconds, be_late)
        try:
            yield
        finally:
            expiry.cancel()
            self._late -= late
            self._leave(uuid)

    async def _enter(self, uuid: InstanceUuid) -> None:
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(uuid, deque()).append(mine)
        self._admit()
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                self._leave(uuid)  # it was given the place, but is cancelled before using it
            raise

    def _leave(self, uuid: InstanceUuid) -> None:
        self._under_way -= Counter([uuid])  # drops counts that have become 0
        self._admit()

    def _admit(self) -> None:
        """Give free places to waiting starts, in the order of ``_next``."""
        while (uuid := self._next()) is not None:
            queue = self._waiting[uuid]
            following = queue.popleft()
            if not queue:
                del self._waiting[uuid]
            if following.done():
                continue  # it has stopped waiting
            self._under_way[uuid] += 1
            self._served[uuid] = None
            self._served.move_to_end(uuid)
            if len(self._served) > _REMEMBERED:
                self._served.popitem(last=False)
            following.set_result(None)

    def _next(self) -> InstanceUuid | None:
        """Return the slice whose start is admitted next: one that was never served, else the one
        served longest ago.
        """
        under_way = self._under_way.total()
        if under_way < self._places:
            starts_per_slice = self._at_once
        elif under_way - self._late < self._places:
            starts_per_slice = 1
        else:
            return None
        entitled = [uuid for uuid in self._waiting if self._under_way[uuid] < starts_per_slice]
        new = next((uuid for uuid in entitled if uuid not in self._served), None)
        return new or next((uuid for uuid in self._served if uuid in entitled), None)
