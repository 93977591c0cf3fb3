"""Few contexts start at a time, and whose slice has waited longest since its last start is next.

A start costs a fork, a sandbox and the loading of a backend, mostly of one CPU. A slice whose
programs storm has its last start behind it by a moment, whatever its queue: a calm one that comes
waits for one place to become free. No slice has all places, and one that makes its own starts slow
keeps a place for a bounded time: then a slice with no start under way may have one beside it.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from vgpu_sim.gpud.model import InstanceUuid

PLACE_SECONDS = 1.0
_REMEMBERED = 1024  # slices, of which few live


class Starts:
    """At most ``at_once`` starts of a slice, and one more of all slices together."""

    def __init__(self, at_once: int, place_seconds: float = PLACE_SECONDS) -> None:
        self._at_once = at_once
        self._places = at_once + 1
        self._place_seconds = place_seconds
        self._under_way: Counter[InstanceUuid] = Counter()
        self._late = 0  # of those under way, the ones that have kept their places for too long
        self._waiting: dict[InstanceUuid, deque[asyncio.Future[None]]] = {}
        self._served: OrderedDict[InstanceUuid, None] = OrderedDict()  # the last one at the end

    @asynccontextmanager
    async def turn(self, uuid: InstanceUuid) -> AsyncIterator[None]:
        """Hold a place among the starts, waiting for it."""
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
                self._leave(uuid)  # it was given the place and goes without using it
            raise

    def _leave(self, uuid: InstanceUuid) -> None:
        self._under_way -= Counter([uuid])  # what has become 0 is dropped
        self._admit()

    def _admit(self) -> None:
        """Give places to those who may have one."""
        while (uuid := self._next()) is not None:
            queue = self._waiting[uuid]
            following = queue.popleft()
            if not queue:
                del self._waiting[uuid]
            if following.done():
                continue  # it has given up
            self._under_way[uuid] += 1
            self._served[uuid] = None
            self._served.move_to_end(uuid)
            if len(self._served) > _REMEMBERED:
                self._served.popitem(last=False)
            following.set_result(None)

    def _next(self) -> InstanceUuid | None:
        """Return the slice whose turn it is: one never served, else the one served longest ago."""
        under_way = self._under_way.total()
        if under_way < self._places:
            most = self._at_once
        elif under_way - self._late < self._places:
            most = 1
        else:
            return None
        entitled = [uuid for uuid in self._waiting if self._under_way[uuid] < most]
        new = next((uuid for uuid in entitled if uuid not in self._served), None)
        return new or next((uuid for uuid in self._served if uuid in entitled), None)
