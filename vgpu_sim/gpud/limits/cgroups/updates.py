"""Updates slices' control groups without blocking gpud's loop.

When a group's memory limit is lowered, the kernel first frees memory; when a group is created,
it waits for processes that are being moved. gpud's loop must wait for neither. Updates of one
slice run one after the other, each with the values that are current when it runs; none runs
after the group is removed.
"""

import asyncio
import logging
from collections.abc import Callable

from vgpu_sim.gpud.limits.cgroups.base import Share, SliceCgroups
from vgpu_sim.gpud.model import InstanceUuid, MigInstance

logger = logging.getLogger("tessera.gpud")


class GroupUpdates:
    """Updates and removes slices' control groups. ``share_and_count`` returns an instance's
    current share and its number of contexts.
    """

    def __init__(
        self, cgroups: SliceCgroups, share_and_count: Callable[[MigInstance], tuple[Share, int]]
    ) -> None:
        self._cgroups = cgroups
        self._wanted = share_and_count
        self._locks: dict[InstanceUuid, asyncio.Lock] = {}
        self._queued: dict[InstanceUuid, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def prepare(self, instance: MigInstance) -> None:
        """Create the group of an instance, or update it to the current share and number of
        contexts. Raises OSError.
        """
        async with self._lock(instance.uuid):
            await self._prepare(instance)

    def schedule(self, instance: MigInstance) -> None:
        """Schedule an update of an instance's group in the background. Do nothing if an earlier
        scheduled update has not begun yet.
        """
        if instance.uuid in self._queued:
            return
        task = asyncio.create_task(self._update(instance))
        self._queued[instance.uuid] = task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def remove(self, uuid: InstanceUuid) -> None:
        """Remove the group of an instance and cancel its scheduled updates. Raises OSError."""
        queued = self._queued.pop(uuid, None)
        if queued is not None:
            queued.cancel()
        async with self._lock(uuid):
            await asyncio.to_thread(self._cgroups.remove, uuid)
        self._locks.pop(uuid, None)

    async def finish(self) -> None:
        """Wait until all running updates have ended."""
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))

    async def _prepare(self, instance: MigInstance) -> None:
        work = asyncio.create_task(
            asyncio.to_thread(self._cgroups.prepare, instance.uuid, *self._wanted(instance))
        )
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            # A thread cannot be stopped: no later operation may overtake it.
            await asyncio.wait((work,))
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
