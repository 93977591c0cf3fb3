"""Ends the contexts of pods that no longer hold their slice, a few per iteration of gpud's loop.

A new holder's context waits until no context of a former holder is left (``admission``), so it
does not matter to it in which iteration they are fenced.
"""

import asyncio
from collections.abc import Generator

from vgpu_sim.gpud.contexts.table import ContextTable
from vgpu_sim.gpud.model import InstanceUuid
from vgpu_sim.gpud.slices.admission import HolderTable
from vgpu_sim.system.pacing import StepQueue

FENCES_AT_ONCE = 8


class Fencing:
    """Compares each instance's contexts with the holders that the node agent reported."""

    def __init__(self, holders: HolderTable, contexts: ContextTable) -> None:
        self._holders = holders
        self._contexts = contexts
        self._steps = StepQueue(FENCES_AT_ONCE)
        self._scheduled: dict[InstanceUuid, asyncio.Task[None]] = {}

    def has_foreign_contexts(self, uuid: InstanceUuid) -> bool:
        """Return whether contexts of pods that do not hold an instance are alive on it."""
        return not all(
            self._holders.has_holder(uuid, owner) for owner in self._contexts.owners(uuid)
        )

    def schedule(self, uuid: InstanceUuid) -> None:
        """Fence an instance's foreign contexts in the background, if it has some."""
        if uuid not in self._scheduled and self.has_foreign_contexts(uuid):
            task = asyncio.create_task(self.fence(uuid))
            self._scheduled[uuid] = task
            task.add_done_callback(lambda _: self._scheduled.pop(uuid, None))

    async def fence(self, uuid: InstanceUuid) -> None:
        """Fence the contexts of pods that do not hold an instance, if its holders are known."""
        await self._steps.run(uuid, self._fence_in_steps(uuid))

    def _fence_in_steps(self, uuid: InstanceUuid) -> Generator[None, None, None]:
        for context in self._contexts.of(uuid):
            is_known = self._holders.is_known(uuid)
            if is_known and not self._holders.has_holder(uuid, context.owner):
                self._contexts.fence(context, "the pod no longer holds this slice")
                yield
