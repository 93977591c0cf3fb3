"""What of each GPU claims can have, and who has the rest.

By the planner's rules, which are the scheduler's: that the counters of ResourceSlices accept what
the geometry accepts is tested for every state of every board.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import lru_cache

from gpu_operator.api import claim_devices
from gpu_operator.api.v1alpha1.gpupool import Allocation
from gpu_operator.api.v1alpha1.resource import Gpu
from gpu_operator.controllers.claims.reading import Claim
from gpu_operator.controllers.common.world import World
from mig import geometry, planner
from mig.errors import MigError
from mig.geometry import Board, Instance, Profile

_REMEMBERED = 16384
_IN_SERVICE = ("Healthy", "Suspect")


class Offer(Enum):
    """Whether anything of a GPU is given to claims."""

    OPEN = auto()
    PLUGIN = auto()  # all of it is the device plugin's
    OUT = auto()  # it, its node or its agent is not in service


@dataclass(frozen=True, slots=True)
class ShareOf:
    """The part of a device's memory that a claim has; ``claim`` is its UID: it may have had a
    namesake, whose part is not given back yet.
    """

    instance: Instance
    claim: str
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Seat:
    """A GPU as claims see it. ``layouts``, ``pods`` and ``claims`` name who has what is taken.

    ``sharing``: several claims can have one device; ``shares`` are those who do.
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
    shares: frozenset[ShareOf] = frozenset()

    def profiles(self, resource: str) -> tuple[Profile, ...]:
        """Return what of its board a resource means: "gpu", "mig-1g.10gb", ANY_MIG or ANY."""
        if resource == claim_devices.ANY_MIG:
            return self.board.profiles
        every = (*self.board.profiles, self.board.whole)
        if resource == claim_devices.ANY:
            return every
        return tuple(one for one in every if one.resource_name == resource)

    def room(self, resource: str, memory_bytes: int = 0) -> int:
        """Return how many devices of a resource, or such parts of them, claims could have now."""
        if self.offer is not Offer.OPEN:
            return 0
        counts = (self._room_for(one, memory_bytes) for one in self.profiles(resource))
        return max(counts, default=0)

    def _room_for(self, profile: Profile, memory_bytes: int) -> int:
        most = _most(self.board, self.taken, profile)
        if not self.sharing or not memory_bytes:
            return most
        whole = profile.memory_bytes
        part = claim_devices.share_policy(whole).rounded(memory_bytes)
        used = Counter[Instance]()
        for one in self.shares:
            used[one.instance] += one.memory_bytes
        beside = sum((whole - u) // part for one, u in used.items() if one.profile == profile)
        return most * (whole // part) + beside

    def holds(self, resources: Sequence[str]) -> bool:
        """Return whether claims could have one device of each of these together, now."""
        if self.offer is not Offer.OPEN:
            return False
        profiles = [self.profiles(one)[:1] for one in resources]
        wish = tuple(profile for found in profiles for profile in found)
        return len(wish) == len(resources) and _fit(self.board, self.taken, wish)


_Given = tuple[str, str, claim_devices.Device]
"""A claim's UID, its name, and what the scheduler gave it."""


class Seats:
    """The GPUs of a cluster; what is read from one is kept as long as that stays the same."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[Gpu, Seat]] = {}

    def of(self, world: World, claims: Iterable[Claim]) -> tuple[Seat, ...]:
        """Return the GPUs of a world, with what the scheduler has given to claims since.

        A claim's slice is in its GPU's status only once it was prepared. A GPU of a board that
        nobody knows, as a person may write one, is left out: its node makes none of it.
        """
        self._read = {
            gpu.name: self._reading(gpu)
            for gpu in world.gpus.values()
            if not gpu.meta.deleting and gpu.spec.board in geometry.BOARDS
        }
        given: dict[tuple[str, int], dict[_Given, int]] = {}
        for claim in claims:
            for held in claim.held:
                try:
                    device = claim_devices.parse(held.device)
                except ValueError:
                    continue  # of a driver of another version
                there = given.setdefault((held.node, device.gpu_index), {})
                key = claim.uid, str(claim), device
                there[key] = there.get(key, 0) + held.memory_bytes
        return tuple(
            _with(_serving(seat, world), given.get((seat.node, seat.index), {}))
            for _, seat in self._read.values()
        )

    def _reading(self, gpu: Gpu) -> tuple[Gpu, Seat]:
        known = self._read.get(gpu.name)
        return known if known is not None and known[0] is gpu else (gpu, _seat(gpu))


def _seat(gpu: Gpu) -> Seat:
    board, offer = geometry.board(gpu.spec.board), Offer.OPEN
    if gpu.status.health.partition(":")[0] not in _IN_SERVICE:
        offer = Offer.OUT
    if gpu.spec.allocation is Allocation.DEVICE_PLUGIN:
        offer = Offer.PLUGIN
    wanted = gpu.spec.layout_instances
    places = [one.place for one in wanted]
    places += [one.place for one in gpu.status.slices]
    places += [one.place for one in gpu.status.claims]
    return Seat(
        gpu.spec.node_name,
        gpu.spec.index,
        board,
        offer,
        taken=frozenset(_instances(board, places)),
        layouts=frozenset([gpu.spec.layout or ""] if wanted or gpu.status.slices else ()),
        pods=frozenset(f"{h.namespace}/{h.name}" for s in gpu.status.slices for h in s.holders),
        claims=frozenset(f"{s.claim.namespace}/{s.claim.name}" for s in gpu.status.claims),
        sharing=gpu.spec.allow_multiple_allocations,
        shares=frozenset(
            ShareOf(instance, s.claim.uid, s.memory_bytes)
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
            continue  # of another board: its layout says what is wrong


def _serving(seat: Seat, world: World) -> Seat:
    node = world.nodes.get(seat.node)
    lost = seat.offer is Offer.OPEN and (node is None or not node.ready)
    return replace(seat, offer=Offer.OUT) if lost else seat


def _with(seat: Seat, given: Mapping[_Given, int]) -> Seat:
    if not given:
        return seat
    found = [
        ShareOf(instance, uid, memory_bytes)
        for (uid, _, d), memory_bytes in given.items()
        for instance in _instances(seat.board, [(d.profile or geometry.WHOLE, d.start or 0, None)])
    ]
    shares = (one for one in found if 0 < one.memory_bytes < one.instance.profile.memory_bytes)
    return replace(
        seat,
        taken=seat.taken | {one.instance for one in found},
        claims=seat.claims | {claim for _, claim, _ in given},
        shares=seat.shares | frozenset(shares),
    )


@lru_cache(maxsize=_REMEMBERED)
def _most(board: Board, taken: frozenset[Instance], profile: Profile) -> int:
    """Return how many of a profile fit beside what is taken."""
    if profile.is_whole:
        return int(not taken)
    most = 0
    while _fit(board, taken, (profile,) * (most + 1)):
        most += 1
    return most


@lru_cache(maxsize=_REMEMBERED)
def _fit(board: Board, taken: frozenset[Instance], wish: tuple[Profile, ...]) -> bool:
    if planner.violations(board, tuple(taken)):
        return False  # a report and an allocation that contradict each other
    return next(iter(planner.ways(board, tuple(taken), wish)), None) is not None


def on_nodes(seats: Iterable[Seat], resource: str, memory_bytes: int = 0) -> Mapping[str, int]:
    """Return how many devices of a resource, or such parts of them, each node has left.

    Nodes without any are missing.
    """
    found: dict[str, int] = {}
    for seat in seats:
        if room := seat.room(resource, memory_bytes):
            found[seat.node] = found.get(seat.node, 0) + room
    return found
