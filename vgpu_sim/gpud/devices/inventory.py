"""The node's GPUs and MIG instances: every change is checked by geometry, then made durable.

One asyncio task changes it at a time; nothing here waits. Whether something is in use is asked of
the caller, which knows the contexts.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from mig.errors import IllegalLayoutError, MigError, UnknownBoardError, UnknownProfileError
from mig.geometry import ComputePlace, Instance
from mig.planner import rules
from vgpu_sim.gpud.devices import claim_shares, journal
from vgpu_sim.gpud.devices.journal import NodeState
from vgpu_sim.gpud.model import (
    ClaimShare,
    Gpu,
    GpuUuid,
    InstanceUuid,
    MigInstance,
    instance_uuid_of,
)
from vgpu_sim.hal.compute.address_map import MAX_GPUS
from vgpu_sim.perf.errors import BadShape
from vgpu_sim.system.admin_socket.errors import Conflict, InUse, InvalidRequest, NotFound


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

    def gpu(self, uuid: str) -> Gpu:
        """Return a GPU. Raises NotFound."""
        for gpu in self._state.gpus:
            if gpu.uuid == uuid:
                return gpu
        raise NotFound(f"no GPU {uuid}")

    def instance(self, uuid: str) -> MigInstance:
        """Return an instance. Raises NotFound."""
        for instance in self._state.instances:
            if instance.uuid == uuid:
                return instance
        raise NotFound(f"no instance {uuid}")

    def instances_of(self, gpu: Gpu) -> tuple[MigInstance, ...]:
        """Return a GPU's instances by start, those in one GPU instance by their first slice."""
        mine = (one for one in self._state.instances if one.gpu.uuid == gpu.uuid)
        return tuple(sorted(mine, key=lambda one: (one.start, one.compute_start or 0)))

    def beside(self, instance: MigInstance) -> tuple[MigInstance, ...]:
        """Return what is in the GPU instance of this one, itself included, in order."""
        key = instance.gpu_instance
        return tuple(one for one in self.instances_of(instance.gpu) if one.gpu_instance == key)

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

    def create_instance(
        self,
        gpu_uuid: GpuUuid,
        profile_name: str,
        start: int,
        compute: bool = True,
        owner: str = "",
        owner_name: str = "",
        compute_start: int | None = None,
        memory_bytes: int | None = None,
    ) -> MigInstance:
        """Make an instance at a placement; without ``compute`` it admits nobody until it has that.

        One that is narrower than its GPU instance has a ``compute_start``: its GPU instance is
        made with the first and goes with the last in it.
        ``owner`` and ``owner_name`` are what it is made for (``MigInstance``). With
        ``memory_bytes`` that claim gets a share of it, and what claims share already is joined.

        Raises:
            NotFound: no such GPU.
            InvalidRequest: the board has no such profile, or not at that start; or no such share.
            Conflict: it cannot exist beside the instances that are there, or has no such room.
        """
        gpu = self.gpu(gpu_uuid)
        try:
            placed = gpu.board.instance(profile_name, start, compute_start)
        except (UnknownProfileError, IllegalLayoutError) as err:
            raise InvalidRequest(str(err)) from err
        if memory_bytes is None:
            return self._add(gpu, placed, compute, owner, owner_name)
        share = claim_shares.share(placed, owner, owner_name, memory_bytes)
        there = next((one for one in self.instances_of(gpu) if one.placed == placed), None)
        if there is None:
            return self._add(gpu, placed, shares=(share,))
        joined = claim_shares.joined(there, share)
        self._replace(joined)
        return joined

    def _add(
        self,
        gpu: Gpu,
        placed: Instance,
        compute: bool = True,
        owner: str = "",
        name: str = "",
        shares: tuple[ClaimShare, ...] = (),
    ) -> MigInstance:
        self._check_beside(gpu, self.instances_of(gpu), placed)
        taken = {one.slot for one in self._state.instances}
        slot = next(number for number in range(len(taken) + 1) if number not in taken)
        instance = MigInstance(
            *(instance_uuid_of(gpu, placed.profile), gpu, placed.profile, placed.start, slot),
            compute=compute,
            owner=owner,
            owner_name=name,
            within=placed.compute,
            shares=shares,
        )
        self._store(replace(self._state, instances=(*self._state.instances, instance)))
        return instance

    @staticmethod
    def _check_beside(gpu: Gpu, others: Iterable[MigInstance], placed: Instance) -> None:
        try:
            rules.check(gpu.board, [*(one.placed for one in others), placed])
        except MigError as err:
            raise Conflict(str(err)) from err

    def destroy_instance(
        self, uuid: InstanceUuid, in_use: Callable[[MigInstance], bool], owner: str = ""
    ) -> bool:
        """Forget an instance; of one that claims share ``owner``'s share, and it with the last.

        Return whether the instance is gone.

        Raises:
            NotFound: no such instance.
            Conflict: it was not made for ``owner``.
            InUse: ``in_use`` says so.
        """
        instance = self.owned(uuid, owner)
        if in_use(instance):
            raise InUse(f"{uuid} has contexts")
        others = tuple(one for one in instance.shares if one.owner != owner)
        if others:
            self._replace(replace(instance, shares=others))
            return False
        kept = tuple(one for one in self._state.instances if one.uuid != uuid)
        self._store(replace(self._state, instances=kept))
        return True

    def owned(self, uuid: InstanceUuid, owner: str) -> MigInstance:
        """Return an instance that was made for ``owner``, or that it has a share of.

        Raises:
            NotFound: no such instance.
            Conflict: it was made for others.
        """
        instance = self.instance(uuid)
        if instance.shares:
            if instance.share_of(owner) is None:
                whose = claim_shares.whose(instance)
                raise Conflict(f"{uuid} is shared by {whose}: they alone take it away")
        elif instance.owner != owner:
            whose = f"claim {instance.owner_name}" if instance.owner else "a layout"
            raise Conflict(f"{uuid} was made for {whose}: that alone takes it away")
        return instance

    def set_admission(self, uuid: InstanceUuid, admit: bool) -> None:
        """Say whether new contexts are admitted. Raises NotFound."""
        self._replace(replace(self.instance(uuid), admit=admit))

    def admit_no_more(self, uuid: InstanceUuid, owner: str) -> None:
        """Admit no new contexts of ``owner``, whose share or instance goes.

        Raises:
            NotFound: no such instance.
            Conflict: it was not made for ``owner``.
        """
        instance = self.owned(uuid, owner)
        if instance.shares:
            self._replace(claim_shares.closed(instance, owner))
        else:
            self._replace(replace(instance, admit=False))

    def create_compute(self, uuid: InstanceUuid, within: ComputePlace | None) -> MigInstance:
        """Make a compute instance in the GPU instance that ``uuid`` is in.

        ``within`` None is one of full width. The first keeps the uuid of the empty GPU instance.

        Raises:
            NotFound: no such instance.
            InvalidRequest: the GPU instance has no such place.
            Conflict: what is there leaves no room for it, or was made for a claim.
        """
        instance = self.owned(uuid, "")
        try:
            placed = Instance(instance.profile, instance.start, within)
        except IllegalLayoutError as err:
            raise InvalidRequest(str(err)) from err
        if instance.compute:
            return self._add(instance.gpu, placed)
        made = replace(instance, compute=True, within=within)
        self._replace(made)
        return made

    def destroy_compute(self, uuid: InstanceUuid, in_use: Callable[[MigInstance], bool]) -> bool:
        """Take a compute instance out of its GPU instance, which stays; tell whether ``uuid`` does.

        That of the last one is then the empty GPU instance's.

        Raises:
            NotFound: no such instance.
            Conflict: it is a GPU instance without one, or was made for a claim.
            InUse: ``in_use`` says so.
        """
        instance = self.owned(uuid, "")
        if not instance.compute:
            raise Conflict(f"{uuid} has no compute instance")
        if len(self.beside(instance)) > 1:
            self.destroy_instance(uuid, in_use)
            return False
        if in_use(instance):
            raise InUse(f"{uuid} has contexts")
        self._replace(replace(instance, compute=False, within=None))
        return True

    def _replace(self, changed: MigInstance) -> None:
        instances = (changed if one.uuid == changed.uuid else one for one in self._state.instances)
        self._store(replace(self._state, instances=tuple(instances)))

    def _store(self, state: NodeState) -> None:
        if state != self._state:
            journal.save(self._state_dir, state)
            self._state = state


def _check_gpus(gpus: tuple[Gpu, ...]) -> None:
    for gpu in gpus:
        if not 0 <= gpu.index < MAX_GPUS:
            raise InvalidRequest(f"{gpu.uuid}: index {gpu.index} is not below {MAX_GPUS}")
        try:
            _ = gpu.board, gpu.place
        except (UnknownBoardError, BadShape) as err:
            raise InvalidRequest(str(err)) from err
    if len({gpu.uuid for gpu in gpus}) != len(gpus) or len({gpu.index for gpu in gpus}) != len(
        gpus
    ):
        raise InvalidRequest("two GPUs share a uuid or an index")
