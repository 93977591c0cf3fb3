"""Connects the management socket with gpud's inventory, snapshot and slice servers."""

from collections.abc import Awaitable, Callable
from contextlib import suppress

from mig.geometry import Board, ComputePlace, ComputeProfile, Instance, Profile
from mig.planner.rules import violations
from vgpu_sim.gpud.admin.snapshot import Snapshot
from vgpu_sim.gpud.devices.inventory import Inventory
from vgpu_sim.gpud.model import Gpu, GpuUuid, InstanceUuid, MigInstance, uuid_bytes
from vgpu_sim.gpud.slices.management import Ask
from vgpu_sim.hal.management import admin
from vgpu_sim.hal.management.nvml import ANY_START, ManagementOperation as Operation, MigMode
from vgpu_sim.system.admin_socket.errors import Conflict, InUse, InvalidRequest, NotFound

Create = Callable[[GpuUuid, str, int, bool], Awaitable[MigInstance]]


class InventoryNode:
    """The node's GPUs and instances. Requests identify them by the bytes of their UUIDs, as NVML's
    requests do.
    """

    def __init__(
        self,
        inventory: Inventory,
        snapshot: Snapshot,
        problem: Callable[[], str],
        create: Create,
        destroy: Callable[[InstanceUuid], Awaitable[None]],
        create_compute: Callable[[InstanceUuid, ComputePlace | None], Awaitable[MigInstance]],
        destroy_compute: Callable[[InstanceUuid], Awaitable[None]],
    ) -> None:
        """Connect the parts. ``problem`` returns why no context can start; the other functions
        change instances durably.
        """
        self._inventory = inventory
        self._snapshot = snapshot
        self._problem = problem
        self._create = create
        self._destroy = destroy
        self._create_compute = create_compute
        self._destroy_compute = destroy_compute

    def gpus(self) -> tuple[Gpu, ...]:
        """Return the node's GPUs, ordered by index."""
        return self._inventory.gpus

    def describe_gpu(self, gpu: Gpu, only: MigInstance | None = None) -> admin.Gpu:
        """Return a GPU as the inventory shows it, with all its instances or only with ``only``."""
        return self._snapshot.gpu(gpu, self._problem(), only)

    def reserved_bytes(self, uuid: str) -> int:
        """Return the memory that an instance neither uses nor can allocate now; 0 if the instance
        was destroyed.
        """
        with suppress(NotFound):
            return self._snapshot.reserved_bytes(self._inventory.instance(uuid))
        return 0

    def remaining(self, ask: Ask) -> int:
        """Return how many more instances of a profile fit.

        Raises:
            NotFound: no such GPU.
            InvalidRequest: the GPU's board has no such profile, or its MIG mode is off.
        """
        gpu = self._gpu(ask.uuid)
        profile = _profile(gpu.board, ask.profile)
        return _most(gpu.board, self._placements(gpu), profile)

    async def change(self, ask: Ask) -> MigInstance | None:
        """Perform the requested change: create or destroy an instance, or set a GPU's MIG mode.
        Return the created instance, if any.

        Raises:
            NotFound: no such GPU or instance.
            InvalidRequest: no such profile, or the profile cannot start at the requested position.
            Conflict: the new instance conflicts with an existing one.
            InUse: contexts use the instance.
        """
        if ask.operation == Operation.SET_MIG_MODE:
            await self._set_mode(self._gpu(ask.uuid), ask.mode)
            return None
        if ask.operation == Operation.CREATE_GPU_INSTANCE:
            gpu = self._gpu(ask.uuid)
            profile = _profile(gpu.board, ask.profile)
            start = self._start(gpu, profile, ask.start)
            return await self._create(gpu.uuid, profile.name, start, False)
        instance = self._instance(ask.uuid)
        if ask.operation == Operation.DESTROY_GPU_INSTANCE:
            if instance.compute:
                raise Conflict(f"{instance.uuid} has a compute instance: destroy that first")
            await self._destroy(instance.uuid)
            return None
        if ask.operation == Operation.DESTROY_COMPUTE_INSTANCE:
            await self._destroy_compute(instance.uuid)
            return None
        within = self._within(instance, ask.profile, ask.start)
        return await self._create_compute(instance.uuid, within)

    def _within(
        self, instance: MigInstance, number: int, requested_start: int
    ) -> ComputePlace | None:
        """Return where a compute instance with NVML's profile number is placed in a GPU instance;
        None if it has the full width.
        """
        its = next((c for c in instance.profile.ci_profiles if c.nvml_ci_enum == number), None)
        if its is None:
            raise InvalidRequest(f"{instance.profile} has no compute instance profile {number}")
        start = self._first_free(instance, its) if requested_start == ANY_START else requested_start
        if not its.is_full:
            return ComputePlace(its, start)
        if start not in its.starts:
            raise InvalidRequest(f"{its} spans its whole GPU instance: it cannot start at {start}")
        return None

    def _first_free(self, instance: MigInstance, its: ComputeProfile) -> int:
        occupied_places = [
            neighbour.within
            for neighbour in self._inventory.in_gpu_instance_of(instance)
            if neighbour.compute
        ]
        for start in its.starts:
            place = ComputePlace(its, start)
            if all(
                occupied_place is not None and not occupied_place.overlaps(place)
                for occupied_place in occupied_places
            ):
                return start
        raise Conflict(f"the GPU instance of {instance.uuid} has no room for {its}")

    async def _set_mode(self, gpu: Gpu, mode: int) -> None:
        """Create the single instance of a GPU whose MIG mode is off, or destroy it."""
        if mode not in tuple(MigMode):
            raise InvalidRequest(f"unknown MIG mode {mode}")
        instances = self._inventory.instances_of(gpu)
        whole = next((instance for instance in instances if instance.profile.is_whole), None)
        if mode == MigMode.ENABLED and whole is not None:
            await self._destroy(whole.uuid)
        if mode == MigMode.DISABLED and whole is None:
            if instances:
                raise InUse(f"{gpu.uuid} has instances: destroy them first")
            await self._create(gpu.uuid, gpu.board.whole.name, 0, True)

    def _placements(self, gpu: Gpu) -> list[Instance]:
        return [instance.placed for instance in self._inventory.instances_of(gpu)]

    def _start(self, gpu: Gpu, profile: Profile, requested_start: int) -> int:
        if requested_start != ANY_START:
            return requested_start
        placed = self._placements(gpu)
        for start in profile.starts:
            if not violations(gpu.board, [*placed, Instance(profile, start)]):
                return start
        raise Conflict(f"{gpu.uuid} has no room for {profile.name}")

    def _gpu(self, raw_uuid: bytes) -> Gpu:
        for gpu in self._inventory.gpus:
            if uuid_bytes(gpu.uuid) == raw_uuid:
                return gpu
        raise NotFound("no such GPU")

    def _instance(self, raw_uuid: bytes) -> MigInstance:
        for instance in self._inventory.instances:
            if uuid_bytes(instance.uuid) == raw_uuid and not instance.profile.is_whole:
                return instance
        raise NotFound("no such instance")


def _profile(its: Board, driver_id: int) -> Profile:
    for profile in its.profiles:
        if profile.driver_id == driver_id:
            return profile
    raise InvalidRequest(f"{its.key} has no GPU instance profile {driver_id}")


def _most(its: Board, placed: list[Instance], profile: Profile) -> int:
    """Return how many more instances of a profile fit. Starts of one profile never overlap, so each
    free start counts.
    """
    earlier_count = len(placed)
    for start in profile.starts:
        candidate = [*placed, Instance(profile, start)]
        if not violations(its, candidate):
            placed = candidate
    return len(placed) - earlier_count
