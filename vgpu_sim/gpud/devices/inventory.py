"""The node's GPUs and MIG instances: each change is validated by geometry, then made durable.

Only one asyncio task may change the inventory at a time; no method waits. Callers, which know
the contexts, pass a function that returns whether an instance is in use.
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
    """The GPUs and instances of this node, as stored in the journal.

    The constructor raises JournalError if the journal is corrupt.
    """

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._state = journal.load(state_dir)
        self.on_change: Callable[[], None] = lambda: None
        """Called after every change, when it is durable."""

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """Return the node's GPUs, ordered by index."""
        return self._state.gpus

    @property
    def instances(self) -> tuple[MigInstance, ...]:
        """Return the node's instances in the order of their creation."""
        return self._state.instances

    @property
    def budget_bytes(self) -> int:
        """The node's budget of host memory in bytes, as configured; 0 means the default."""
        return self._state.budget_bytes

    def gpu(self, uuid: str) -> Gpu:
        """Return the GPU with this UUID. Raises NotFound."""
        for gpu in self._state.gpus:
            if gpu.uuid == uuid:
                return gpu
        raise NotFound(f"no GPU {uuid}")

    def instance(self, uuid: str) -> MigInstance:
        """Return the instance with this UUID. Raises NotFound."""
        for instance in self._state.instances:
            if instance.uuid == uuid:
                return instance
        raise NotFound(f"no instance {uuid}")

    def instances_of(self, gpu: Gpu) -> tuple[MigInstance, ...]:
        """Return a GPU's instances, ordered by their start. Instances in one GPU instance are
        ordered by their first compute slice.
        """
        mine = (instance for instance in self._state.instances if instance.gpu.uuid == gpu.uuid)
        return tuple(
            sorted(mine, key=lambda instance: (instance.start, instance.compute_start or 0))
        )

    def in_gpu_instance_of(self, instance: MigInstance) -> tuple[MigInstance, ...]:
        """Return all instances in the GPU instance that contains this one, ordered by their first
        compute slice.
        """
        key = instance.gpu_instance
        return tuple(
            neighbour
            for neighbour in self.instances_of(instance.gpu)
            if neighbour.gpu_instance == key
        )

    def configure(self, gpus: Iterable[Gpu], budget_bytes: int) -> None:
        """Replace the node's GPUs and its memory budget.

        Raises:
            InvalidRequest: an unknown board, an index beyond the aperture, or two GPUs with
                the same UUID or index.
            InUse: a GPU that is removed, or changes its board or index, has instances.
        """
        sorted_gpus = tuple(sorted(gpus, key=lambda gpu: gpu.index))
        _check_gpus(sorted_gpus)
        unchanged = set(sorted_gpus)
        for gpu in self._state.gpus:
            if gpu not in unchanged and self.instances_of(gpu):
                raise InUse(f"{gpu.uuid} has instances: destroy them first")
        self._store(replace(self._state, gpus=sorted_gpus, budget_bytes=budget_bytes))

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
        """Create an instance at a placement. Without ``compute``, it is an empty GPU instance,
        which admits no context.

        An instance that is narrower than its GPU instance has a ``compute_start``. The GPU
        instance is created together with the first such instance in it, and is destroyed
        together with the last. ``owner`` and ``owner_name`` name the claim for which the
        instance is created (``MigInstance``). With ``memory_bytes``, that claim gets a share of
        the instance's memory. If claims already share an instance at the placement, the claim
        joins them.

        Raises:
            NotFound: no such GPU.
            InvalidRequest: the board has no such profile, or not at that start, or the share is
                invalid.
            Conflict: the placement conflicts with an existing instance, or the share does not fit.
        """
        gpu = self.gpu(gpu_uuid)
        try:
            placed = gpu.board.instance(profile_name, start, compute_start)
        except (UnknownProfileError, IllegalLayoutError) as err:
            raise InvalidRequest(str(err)) from err
        if memory_bytes is None:
            return self._add(gpu, placed, compute, owner, owner_name)
        share = claim_shares.new_share(placed, owner, owner_name, memory_bytes)
        shared_instance = next(
            (instance for instance in self.instances_of(gpu) if instance.placed == placed), None
        )
        if shared_instance is None:
            return self._add(gpu, placed, shares=(share,))
        joined = claim_shares.add_share(shared_instance, share)
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
        used_slots = {instance.slot for instance in self._state.instances}
        slot = next(number for number in range(len(used_slots) + 1) if number not in used_slots)
        instance = MigInstance(
            uuid=instance_uuid_of(gpu, placed.profile),
            gpu=gpu,
            profile=placed.profile,
            start=placed.start,
            slot=slot,
            compute=compute,
            owner=owner,
            owner_name=name,
            within=placed.compute,
            shares=shares,
        )
        self._store(replace(self._state, instances=(*self._state.instances, instance)))
        return instance

    @staticmethod
    def _check_beside(gpu: Gpu, neighbours: Iterable[MigInstance], placed: Instance) -> None:
        try:
            rules.check(gpu.board, [*(neighbour.placed for neighbour in neighbours), placed])
        except MigError as err:
            raise Conflict(str(err)) from err

    def destroy_instance(
        self, uuid: InstanceUuid, in_use: Callable[[MigInstance], bool], owner: str = ""
    ) -> bool:
        """Destroy an instance; if claims share it, remove ``owner``'s share, and destroy the
        instance with the last share.

        Return whether the instance is gone.

        Raises:
            NotFound: no such instance.
            Conflict: the instance was not made for ``owner``.
            InUse: ``in_use`` returned True.
        """
        instance = self.owned_instance(uuid, owner)
        if in_use(instance):
            raise InUse(f"{uuid} has contexts: end them first")
        remaining_shares = tuple(share for share in instance.shares if share.owner != owner)
        if remaining_shares:
            self._replace(replace(instance, shares=remaining_shares))
            return False
        remaining_instances = tuple(
            instance for instance in self._state.instances if instance.uuid != uuid
        )
        self._store(replace(self._state, instances=remaining_instances))
        return True

    def owned_instance(self, uuid: InstanceUuid, owner: str) -> MigInstance:
        """Return an instance that was made for ``owner``, or in which ``owner`` has a share.

        Raises:
            NotFound: no such instance.
            Conflict: the instance was made for another claim or for a layout, or only other claims
                share it.
        """
        instance = self.instance(uuid)
        if instance.shares:
            if instance.share_of(owner) is None:
                whose = claim_shares.claim_names(instance)
                raise Conflict(f"{uuid} is shared by {whose}: only they can remove it")
        elif instance.owner != owner:
            whose = f"claim {instance.owner_name}" if instance.owner else "a layout"
            raise Conflict(f"{uuid} was made for {whose}: only its owner can remove it")
        return instance

    def set_admission(self, uuid: InstanceUuid, admit: bool) -> None:
        """Set whether an instance admits new contexts. Raises NotFound."""
        self._replace(replace(self.instance(uuid), admit=admit))

    def close_admission(self, uuid: InstanceUuid, owner: str) -> None:
        """Admit no new contexts of ``owner``, whose share or instance is about to be removed.

        Raises:
            NotFound: no such instance.
            Conflict: the instance was not made for ``owner``.
        """
        instance = self.owned_instance(uuid, owner)
        if instance.shares:
            self._replace(claim_shares.close_share(instance, owner))
        else:
            self._replace(replace(instance, admit=False))

    def create_compute(self, uuid: InstanceUuid, within: ComputePlace | None) -> MigInstance:
        """Create a compute instance in the GPU instance that contains ``uuid``.

        ``within`` is the place of the compute instance in the GPU instance; None means the full
        width. The first compute instance keeps the UUID of the empty GPU instance.

        Raises:
            NotFound: no such instance.
            InvalidRequest: the GPU instance has no such place.
            Conflict: existing compute instances leave no room, or the GPU instance was made for a
                claim.
        """
        instance = self.owned_instance(uuid, "")
        try:
            placed = Instance(instance.profile, instance.start, within)
        except IllegalLayoutError as err:
            raise InvalidRequest(str(err)) from err
        if instance.compute:
            return self._add(instance.gpu, placed)
        completed_instance = replace(instance, compute=True, within=within)
        self._replace(completed_instance)
        return completed_instance

    def destroy_compute(self, uuid: InstanceUuid, in_use: Callable[[MigInstance], bool]) -> bool:
        """Destroy a compute instance but not its GPU instance; return whether ``uuid`` still
        exists.

        The empty GPU instance keeps the UUID of its last compute instance.

        Raises:
            NotFound: no such instance.
            Conflict: ``uuid`` is a GPU instance without a compute instance, or was made for a
                claim.
            InUse: ``in_use`` returned True.
        """
        instance = self.owned_instance(uuid, "")
        if not instance.compute:
            raise Conflict(f"{uuid} has no compute instance")
        if len(self.in_gpu_instance_of(instance)) > 1:
            self.destroy_instance(uuid, in_use)
            return False
        if in_use(instance):
            raise InUse(f"{uuid} has contexts: end them first")
        self._replace(replace(instance, compute=False, within=None))
        return True

    def _replace(self, changed: MigInstance) -> None:
        instances = (
            changed if instance.uuid == changed.uuid else instance
            for instance in self._state.instances
        )
        self._store(replace(self._state, instances=tuple(instances)))

    def _store(self, state: NodeState) -> None:
        if state != self._state:
            journal.save(self._state_dir, state)
            self._state = state
            self.on_change()


def _check_gpus(gpus: tuple[Gpu, ...]) -> None:
    for gpu in gpus:
        if not 0 <= gpu.index < MAX_GPUS:
            raise InvalidRequest(f"{gpu.uuid}: index {gpu.index} must be below {MAX_GPUS}")
        try:
            _ = gpu.board, gpu.place
        except (UnknownBoardError, BadShape) as err:
            raise InvalidRequest(str(err)) from err
    if len({gpu.uuid for gpu in gpus}) != len(gpus) or len({gpu.index for gpu in gpus}) != len(
        gpus
    ):
        raise InvalidRequest("two GPUs have the same uuid or index")
