"""Few contexts start at a time, and the slices take turns: one slice's storm is not another's wait.

A start costs a fork, a sandbox and the loading of a backend, mostly of one CPU.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from vgpu_sim.gpud.model import InstanceUuid


class Starts:
    """At most ``at_once`` starts of all slices together; who waits is served slice by slice."""

    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._waiting: OrderedDict[InstanceUuid, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def turn(self, uuid: InstanceUuid) -> AsyncIterator[None]:
        """Hold a place among the starts, waiting for it."""
        if self._free:
            self._free -= 1
        else:
            await self._wait(uuid)
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, uuid: InstanceUuid) -> None:
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(uuid, deque()).append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                self._pass_on()  # it was given the place and goes without using it
            raise

    def _pass_on(self) -> None:
        """Give a place to the slice that has waited longest since its last turn."""
        while self._waiting:
            uuid, queue = self._waiting.popitem(last=False)
            following = queue.popleft()
            if queue:
                self._waiting[uuid] = queue
            if not following.done():
                following.set_result(None)
                return
        self._free += 1
