"""Brings slices' control groups to their shares without holding up gpud's loop.

To lower a group's memory limit the kernel frees memory first, and to make a group it waits for
whoever moves processes: neither may be waited for on the loop. Updates of one slice come one after
the other, each with what is true when its turn comes, and none after the group's removal.
"""

import asyncio
import logging
from collections.abc import Callable

from vgpu_sim.gpud.limits.cgroups.base import Share, SliceCgroups
from vgpu_sim.gpud.model import InstanceUuid, MigInstance

logger = logging.getLogger("tessera.gpud")


class GroupUpdates:
    """Updates and removes groups. ``wanted`` tells an instance's share and number of contexts."""

    def __init__(
        self, cgroups: SliceCgroups, wanted: Callable[[MigInstance], tuple[Share, int]]
    ) -> None:
        self._cgroups = cgroups
        self._wanted = wanted
        self._locks: dict[InstanceUuid, asyncio.Lock] = {}
        self._queued: dict[InstanceUuid, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def prepare(self, instance: MigInstance) -> None:
        """Create the group, or bring it to what is true now. Raises OSError."""
        async with self._lock(instance.uuid):
            await self._prepare(instance)

    def soon(self, instance: MigInstance) -> None:
        """Update the group in the background; an update that has not begun yet is enough."""
        if instance.uuid in self._queued:
            return
        task = asyncio.create_task(self._update(instance))
        self._queued[instance.uuid] = task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def remove(self, uuid: InstanceUuid) -> None:
        """Remove the group; what was to be updated is not any more. Raises OSError."""
        queued = self._queued.pop(uuid, None)
        if queued is not None:
            queued.cancel()
        async with self._lock(uuid):
            await asyncio.to_thread(self._cgroups.remove, uuid)
        self._locks.pop(uuid, None)

    async def finish(self) -> None:
        """Wait for what is under way."""
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))

    async def _prepare(self, instance: MigInstance) -> None:
        work = asyncio.create_task(
            asyncio.to_thread(self._cgroups.prepare, instance.uuid, *self._wanted(instance))
        )
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            await asyncio.wait((work,))  # a thread cannot be stopped: nothing may come before it
            raise

    def _lock(self, uuid: InstanceUuid) -> asyncio.Lock:
        return self._locks.setdefault(uuid, asyncio.Lock())

    async def _update(self, instance: MigInstance) -> None:
        try:
            async with self._lock(instance.uuid):
                self._queued.pop(instance.uuid, None)
                await self._prepare(instance)
        except OSError as err:
            logger.warning("cgroup_not_updated instance=%s error=%s", instance.uuid, err)
