"""The room of each GPU for claims, and the layouts, pods and claims that use the rest of the GPU.

The room is computed by the planner's rules. They equal the scheduler's rules: a test verifies
for every state of every board that the counters of ResourceSlices allow what the geometry
allows.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import lru_cache

from facts.health import is_in_service
from gpu_operator.api import claim_devices
from gpu_operator.api.v1alpha1.gpupool import Allocation
from gpu_operator.api.v1alpha1.resource import Gpu
from gpu_operator.controllers.claims.reading import Claim
from gpu_operator.controllers.common.world import World
from mig import geometry, planner
from mig.errors import MigError
from mig.geometry import Board, Instance, Profile

_REMEMBERED = 16384


class Offer(Enum):
    """Whether claims can be allocated on a GPU."""

    OPEN = auto()
    PLUGIN = auto()  # only the device plugin allocates it
    OUT = auto()  # the GPU, its node or its agent is not in service


@dataclass(frozen=True, slots=True)
class ClaimShare:
    """The part of a shared device's memory that one claim has.

    ``claim`` is the claim's UID, because the part of an earlier claim with the same name may not
    be released yet.
    """

    instance: Instance
    claim: str
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class GpuCapacity:
    """How claims can use a GPU, and what uses the GPU already.

    ``layouts``, ``pods`` and ``claims`` are the names of the layouts, pods and claims that use
    the GPU. If ``sharing`` is set, several claims can share a device. Then ``shares`` are the
    parts of devices that claims already have.
    """

    node: str
    index: int
    board: Board
    offer: Offer
    taken: frozenset[Instance] = frozenset()
    layouts: frozenset[str] = frozenset()
    pods: frozenset[str] = frozenset()
    claims: frozenset[str] = frozenset()
    sharing: bool = False
    shares: frozenset[ClaimShare] = frozenset()

    def profiles(self, resource: str) -> tuple[Profile, ...]:
        """Return the board's profiles that belong to a resource.

        The resource is "gpu", "mig-1g.10gb", ANY_MIG or ANY.
        """
        if resource == claim_devices.ANY_MIG:
            return self.board.profiles
        every = (*self.board.profiles, self.board.whole)
        if resource == claim_devices.ANY:
            return every
        return tuple(profile for profile in every if profile.resource_name == resource)

    def room(self, resource: str, memory_bytes: int = 0) -> int:
        """Return how many more devices of ``resource`` can be allocated to claims on this GPU.

        If ``memory_bytes`` is given and devices are shared, the result counts parts of that size
        instead.
        """
        if self.offer is not Offer.OPEN:
            return 0
        counts = (self._room_for(profile, memory_bytes) for profile in self.profiles(resource))
        return max(counts, default=0)

    def _room_for(self, profile: Profile, memory_bytes: int) -> int:
        max_count = _max_count(self.board, self.taken, profile)
        if not self.sharing or not memory_bytes:
            return max_count
        whole = profile.memory_bytes
        part = claim_devices.share_policy(whole).round_up(memory_bytes)
        used = Counter[Instance]()
        for share in self.shares:
            used[share.instance] += share.memory_bytes
        beside = sum(
            (whole - u) // part for instance, u in used.items() if instance.profile == profile
        )
        return max_count * (whole // part) + beside

    def fits_together(self, resources: Sequence[str]) -> bool:
        """Return whether claims can get one device of each of these resources at the same time."""
        if self.offer is not Offer.OPEN:
            return False
        profiles = [self.profiles(resource)[:1] for resource in resources]
        requested_profiles = tuple(
            profile for resource_profiles in profiles for profile in resource_profiles
        )
        return len(requested_profiles) == len(resources) and _fits(
            self.board, self.taken, requested_profiles
        )


_Given = tuple[str, str, claim_devices.Device]
"""A claim's UID, its name, and a device that the scheduler allocated to it."""


class GpuCapacities:
    """Capacities of the cluster's GPUs. Each is computed again only if its GPU object changed."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[Gpu, GpuCapacity]] = {}

    def read(self, world: World, claims: Iterable[Claim]) -> tuple[GpuCapacity, ...]:
        """Return the capacities of all GPUs. Devices that are allocated to claims count as used.

        A claim's slice appears in the GPU's status only once the claim is prepared, so the
        status alone does not show these devices. A GPU with an unknown board is left out,
        because its node makes no slices of it. A user may have written such a GPU object.
        """
        self._read = {
            gpu.name: self._read_gpu(gpu)
            for gpu in world.gpus.values()
            if not gpu.meta.deleting and gpu.spec.board in geometry.BOARDS
        }
        allocations: dict[tuple[str, int], dict[_Given, int]] = {}
        for claim in claims:
            for allocated_device in claim.held:
                try:
                    device = claim_devices.parse(allocated_device.device)
                except ValueError:
                    continue  # from another version of the driver
                gpu_allocations = allocations.setdefault(
                    (allocated_device.node, device.gpu_index), {}
                )
                key = claim.uid, str(claim), device
                gpu_allocations[key] = gpu_allocations.get(key, 0) + allocated_device.memory_bytes
        return tuple(
            _with_allocations(
                _with_node_state(capacity, world),
                allocations.get((capacity.node, capacity.index), {}),
            )
            for _, capacity in self._read.values()
        )

    def _read_gpu(self, gpu: Gpu) -> tuple[Gpu, GpuCapacity]:
        earlier_reading = self._read.get(gpu.name)
        return (
            earlier_reading
            if earlier_reading is not None and earlier_reading[0] is gpu
            else (gpu, _capacity_of(gpu))
        )


def _capacity_of(gpu: Gpu) -> GpuCapacity:
    board, offer = geometry.board(gpu.spec.board), Offer.OPEN
    if not is_in_service(gpu.status.health):
        offer = Offer.OUT
    if gpu.spec.allocation is Allocation.DEVICE_PLUGIN:
        offer = Offer.PLUGIN
    layout_instances = gpu.spec.layout_instances
    places = [instance.place for instance in layout_instances]
    places += [gpu_slice.place for gpu_slice in gpu.status.slices]
    places += [claim.place for claim in gpu.status.claims]
    return GpuCapacity(
        gpu.spec.node_name,
        gpu.spec.index,
        board,
        offer,
        taken=frozenset(_instances(board, places)),
        layouts=frozenset([gpu.spec.layout or ""] if layout_instances or gpu.status.slices else ()),
        pods=frozenset(f"{h.namespace}/{h.name}" for s in gpu.status.slices for h in s.holders),
        claims=frozenset(f"{s.claim.namespace}/{s.claim.name}" for s in gpu.status.claims),
        sharing=gpu.spec.allow_multiple_allocations,
        shares=frozenset(
            ClaimShare(instance, s.claim.uid, s.memory_bytes)
            for s in gpu.status.claims
            if s.shared
            for instance in _instances(board, [s.place])
        ),
    )


def _instances(board: Board, places: Iterable[tuple[str, int, int | None]]) -> Iterable[Instance]:
    for place in places:
        try:
            yield board.instance(*place).gpu_instance
        except MigError:
            continue  # the slice is not valid on this board: its layout reports the error


def _with_node_state(capacity: GpuCapacity, world: World) -> GpuCapacity:
    node = world.nodes.get(capacity.node)
    lost = capacity.offer is Offer.OPEN and (node is None or not node.ready)
    return replace(capacity, offer=Offer.OUT) if lost else capacity


def _with_allocations(capacity: GpuCapacity, allocations: Mapping[_Given, int]) -> GpuCapacity:
    if not allocations:
        return capacity
    claim_shares = [
        ClaimShare(instance, uid, memory_bytes)
        for (uid, _, d), memory_bytes in allocations.items()
        for instance in _instances(
            capacity.board, [(d.profile or geometry.WHOLE, d.start or 0, None)]
        )
    ]
    shares = (
        share
        for share in claim_shares
        if 0 < share.memory_bytes < share.instance.profile.memory_bytes
    )
    return replace(
        capacity,
        taken=capacity.taken | {share.instance for share in claim_shares},
        claims=capacity.claims | {claim for _, claim, _ in allocations},
        shares=capacity.shares | frozenset(shares),
    )


@lru_cache(maxsize=_REMEMBERED)
def _max_count(board: Board, used_instances: frozenset[Instance], profile: Profile) -> int:
    """Return how many more devices of a profile fit beside ``used_instances``."""
    if profile.is_whole:
        return int(not used_instances)
    count = 0
    while _fits(board, used_instances, (profile,) * (count + 1)):
        count += 1
    return count


@lru_cache(maxsize=_REMEMBERED)
def _fits(
    board: Board, used_instances: frozenset[Instance], requested_profiles: tuple[Profile, ...]
) -> bool:
    if planner.violations(board, tuple(used_instances)):
        return False  # a report and an allocation contradict each other
    return (
        next(iter(planner.find_placements(board, tuple(used_instances), requested_profiles)), None)
        is not None
    )


def room_on_nodes(
    capacities: Iterable[GpuCapacity], resource: str, memory_bytes: int = 0
) -> Mapping[str, int]:
    """Return, for each node, how many more devices of ``resource`` can be allocated to claims.

    If ``memory_bytes`` is given and devices are shared, the result counts parts of that size
    instead. Nodes without room are omitted.
    """
    room_by_node: dict[str, int] = {}
    for capacity in capacities:
        if room := capacity.room(resource, memory_bytes):
            room_by_node[capacity.node] = room_by_node.get(capacity.node, 0) + room
    return room_by_node
