"""The node's GPUs and MIG instances: every change is checked by geometry, then made durable.

One asyncio task changes it at a time; nothing here waits. Whether something is in use is asked of
the caller, which knows the contexts.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from mig.errors import IllegalLayoutError, MigError, UnknownBoardError, UnknownProfileError
from mig.geometry import Instance
from mig.planner import rules
from vgpu_sim.gpud.devices import journal
from vgpu_sim.gpud.devices.journal import NodeState
from vgpu_sim.gpud.errors import Conflict, InUse, InvalidRequest, NotFound
from vgpu_sim.gpud.model import (
    Gpu,
    GpuUuid,
    InstanceUuid,
    MigInstance,
    new_instance_uuid,
)
from vgpu_sim.hal.address_map import MAX_GPUS


class Inventory:
    """What exists on this node.

    Raises JournalError on construction when the journal is corrupt.
    """

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._state = journal.load(state_dir)

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """Return the GPUs, by index."""
        return self._state.gpus

    @property
    def instances(self) -> tuple[MigInstance, ...]:
        """Return the instances in the order of their creation."""
        return self._state.instances

    @property
    def budget_bytes(self) -> int:
        """Return the budget as configured; 0 means the default."""
        return self._state.budget_bytes

    def instance(self, uuid: str) -> MigInstance:
        """Return an instance. Raises NotFound."""
        for instance in self._state.instances:
            if instance.uuid == uuid:
                return instance
        raise NotFound(f"no instance {uuid}")

    def instances_of(self, gpu: Gpu) -> tuple[MigInstance, ...]:
        """Return a GPU's instances by start."""
        mine = (one for one in self._state.instances if one.gpu.uuid == gpu.uuid)
        return tuple(sorted(mine, key=lambda one: one.start))

    def configure(self, gpus: Iterable[Gpu], budget_bytes: int) -> None:
        """Make these the node's GPUs.

        Raises:
            InvalidRequest: an unknown board, an index beyond the aperture, duplicates.
            InUse: a GPU that left, or changed its board or index, has instances.
        """
        wanted = tuple(sorted(gpus, key=lambda gpu: gpu.index))
        _check_gpus(wanted)
        unchanged = set(wanted)
        for gpu in self._state.gpus:
            if gpu not in unchanged and self.instances_of(gpu):
                raise InUse(f"{gpu.uuid} has instances: destroy them first")
        self._store(replace(self._state, gpus=wanted, budget_bytes=budget_bytes))

    def create_instance(self, gpu_uuid: GpuUuid, profile_name: str, start: int) -> MigInstance:
        """Make an instance at a placement.

        Raises:
            NotFound: no such GPU.
            InvalidRequest: the board has no such profile, or not at that start.
            Conflict: it cannot exist beside the instances that are there.
        """
        gpu = next((gpu for gpu in self._state.gpus if gpu.uuid == gpu_uuid), None)
        if gpu is None:
            raise NotFound(f"no GPU {gpu_uuid}")
        try:
            profile = gpu.board.profile(profile_name)
            candidate = Instance(profile, start)
        except (UnknownProfileError, IllegalLayoutError) as err:
            raise InvalidRequest(str(err)) from err
        others = [Instance(one.profile, one.start) for one in self.instances_of(gpu)]
        try:
            rules.check(gpu.board, [*others, candidate])
        except MigError as err:
            raise Conflict(str(err)) from err
        taken = {one.slot for one in self._state.instances}
        slot = next(number for number in range(len(taken) + 1) if number not in taken)
        instance = MigInstance(new_instance_uuid(), gpu, profile, start, slot)
        self._store(replace(self._state, instances=(*self._state.instances, instance)))
        return instance

    def destroy_instance(self, uuid: InstanceUuid, in_use: Callable[[MigInstance], bool]) -> None:
        """Forget an instance. Raises NotFound, or InUse when ``in_use`` says so."""
        instance = self.instance(uuid)
        if in_use(instance):
            raise InUse(f"{uuid} has contexts")
        kept = tuple(one for one in self._state.instances if one.uuid != uuid)
        self._store(replace(self._state, instances=kept))

    def set_admission(self, uuid: InstanceUuid, admit: bool) -> None:
        """Say whether new contexts are admitted. Raises NotFound."""
        self.instance(uuid)
        changed = tuple(
            replace(one, admit=admit) if one.uuid == uuid else one for one in self._state.instances
        )
        self._store(replace(self._state, instances=changed))

    def _store(self, state: NodeState) -> None:
        if state != self._state:
            journal.save(self._state_dir, state)
            self._state = state


def _check_gpus(gpus: tuple[Gpu, ...]) -> None:
    for gpu in gpus:
        if not 0 <= gpu.index < MAX_GPUS:
            raise InvalidRequest(f"{gpu.uuid}: index {gpu.index} is not below {MAX_GPUS}")
        try:
            _ = gpu.board
        except UnknownBoardError as err:
            raise InvalidRequest(str(err)) from err
    if len({gpu.uuid for gpu in gpus}) != len(gpus) or len({gpu.index for gpu in gpus}) != len(
        gpus
    ):
        raise InvalidRequest("two GPUs share a uuid or an index")
