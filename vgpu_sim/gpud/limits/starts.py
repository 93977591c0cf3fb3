"""Few contexts start at a time, and whose slice has waited longest since its last start is next.

A start costs a fork, a sandbox and the loading of a backend, mostly of one CPU. A slice whose
programs storm has its last start behind it by a moment, whatever its queue: a calm one that comes
waits for one place to become free. No slice has all places, and a start keeps its place for a
bounded time: who makes its own starts slow takes no place from others.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from vgpu_sim.gpud.model import InstanceUuid

PLACE_SECONDS = 0.5
_REMEMBERED = 1024  # slices, of which few live


class Starts:
    """At most ``at_once`` starts of a slice, and one more of all slices together."""

    def __init__(self, at_once: int, place_seconds: float = PLACE_SECONDS) -> None:
        self._at_once = at_once
        self._free = at_once + 1
        self._place_seconds = place_seconds
        self._held: Counter[InstanceUuid] = Counter()
        self._waiting: dict[InstanceUuid, deque[asyncio.Future[None]]] = {}
        self._served: OrderedDict[InstanceUuid, None] = OrderedDict()  # the last one at the end

    @asynccontextmanager
    async def turn(self, uuid: InstanceUuid) -> AsyncIterator[None]:
        """Wait for a place among the starts, and hold it for ``place_seconds`` at most."""
        await self._enter(uuid)
        held = True

        def give_back() -> None:
            nonlocal held
            if held:
                held = False
                self._give_back(uuid)

        expiry = asyncio.get_running_loop().call_later(self._place_seconds, give_back)
        try:
            yield
        finally:
            expiry.cancel()
            give_back()

    async def _enter(self, uuid: InstanceUuid) -> None:
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(uuid, deque()).append(mine)
        self._admit()
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                self._give_back(uuid)  # it was given the place and goes without using it
            raise

    def _give_back(self, uuid: InstanceUuid) -> None:
        self._free += 1
        self._held[uuid] -= 1
        if not self._held[uuid]:
            del self._held[uuid]
        self._admit()

    def _admit(self) -> None:
        """Give free places to those who may have one."""
        while self._free and (uuid := self._next()) is not None:
            queue = self._waiting[uuid]
            following = queue.popleft()
            if not queue:
                del self._waiting[uuid]
            if following.done():
                continue  # it has given up
            self._free -= 1
            self._held[uuid] += 1
            self._served[uuid] = None
            self._served.move_to_end(uuid)
            if len(self._served) > _REMEMBERED:
                self._served.popitem(last=False)
            following.set_result(None)

    def _next(self) -> InstanceUuid | None:
        """Return the slice whose turn it is: one never served, else the one served longest ago."""
        entitled = {uuid for uuid in self._waiting if self._held[uuid] < self._at_once}
        new = next((uuid for uuid in self._waiting if uuid in entitled - self._served.keys()), None)
        return new or next((uuid for uuid in self._served if uuid in entitled), None)
