"""Where a slice of a profile exists free, or has room beside the slices that pods hold."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from console.views.waiting.supply import is_in_service
from console.views.waiting.survey import Survey
from gpu_operator.api.v1alpha1.gpu import Slice, SliceState
from gpu_operator.api.v1alpha1.gpupool import Allocation
from gpu_operator.api.v1alpha1.resource import Gpu
from mig import geometry, pools
from mig.errors import MigError
from mig.geometry import Board, Instance
from mig.pools import GpuState
from mig.spec import Place

SHOWN: Final = 40  # GPUs
_CLAIMABLE: Final = (Allocation.DRA, Allocation.BOTH)


@dataclass(frozen=True, slots=True)
class GpuRoom:
    """The room on one GPU. ``fits`` is how many slices of the profile fit beside the held ones, at
    some of ``places``, each of which no held slice overlaps. ``free`` exist, and no pod holds them.
    ``blocked`` is why the scheduler counts fewer of the node's devices as free than there are.
    """

    gpu: Gpu
    free: tuple[Slice, ...]
    fits: int
    places: tuple[Place, ...]
    blocked: str = ""


@dataclass(frozen=True, slots=True)
class ClaimRoom:
    """A GPU on which a ResourceClaim can get a slice at one of some places: no slice is there."""

    gpu: Gpu
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Room:
    """The GPUs with room for a profile, those with free slices first; ``more`` are not listed.
    ``claims`` are those with room for ResourceClaims.

    ``known`` are the profiles of the cluster's boards if none of them has this one.
    """

    rows: tuple[GpuRoom, ...]
    more: int
    claims: tuple[ClaimRoom, ...] = ()
    known: tuple[str, ...] = ()


def find_room(survey: Survey, profile: str) -> Room:
    """Return where a slice of a profile is free or could be created without moving a pod."""
    boards = {state.board for state in survey.states}
    names = sorted(
        {device_profile.name for board in boards for device_profile in board.device_profiles}
    )
    if profile not in names:
        return Room((), 0, known=tuple(names))
    states = [state for of_node in survey.usable_by_node.values() for state in of_node]
    rooms = [room for state in states for room in _of_gpu(survey, state, profile)]
    rooms.sort(key=lambda room: (not room.free, room.gpu.spec.node_name, room.gpu.spec.index))
    claims = islice(_for_claims(survey, profile), SHOWN)
    return Room(tuple(rooms[:SHOWN]), max(len(rooms) - SHOWN, 0), tuple(claims))


def _for_claims(survey: Survey, profile: str) -> Iterator[ClaimRoom]:
    """Yield the healthy GPUs that ResourceClaims can use, with the places where no slice is.

    A whole GPU that no pod holds is divided for a claim.
    """
    for _, gpu in sorted(survey.world.gpus.items()):
        if gpu.spec.allocation not in _CLAIMABLE or gpu.status.health != "Healthy":
            continue
        try:
            board = geometry.board(gpu.spec.board)
            every = [board.instance(*claim.place) for claim in gpu.status.claims]
            for gpu_slice in gpu.status.slices:
                instance = board.instance(*gpu_slice.place)
                if gpu_slice.holders or not instance.profile.is_whole:
                    every.append(instance)
        except MigError:
            continue  # the GPU reports a place that its board does not have
        places = tuple(_find_places(board, every, profile))
        if places:
            yield ClaimRoom(gpu, places)


def _of_gpu(survey: Survey, state: GpuState, profile: str) -> Iterator[GpuRoom]:
    gpu = survey.world.gpus[state.name]
    free = tuple(
        gpu_slice
        for gpu_slice in gpu.status.slices
        if gpu_slice.profile == profile and _is_free(gpu, gpu_slice)
    )
    try:
        fits = pools.advise([state], profile, 1).now
    except MigError:
        return  # its board has no such profile
    if fits or free:
        blocked = _find_block(survey, gpu, free[0].resource) if free else ""
        yield GpuRoom(gpu, free, fits, tuple(_places(state, profile)), blocked)


def _find_block(survey: Survey, gpu: Gpu, resource: str) -> str:
    """Return why free slices of a node cannot all be allocated now; empty if they can."""
    node = survey.world.nodes.get(gpu.spec.node_name)
    if node is None:
        return ""
    supply = survey.count_supply(node, resource)
    if supply.is_crowded:
        return supply.describe_crowding()
    if supply.free < supply.unheld:
        return f"the node's status offers {supply.free} of {supply.unheld} so far"
    return ""


def _places(state: GpuState, profile: str) -> Iterator[Place]:
    """Yield the places of a profile, from the start of the memory, that no held slice overlaps."""
    return _find_places(state.board, tuple(state.held), profile)


def _find_places(board: Board, occupants: Sequence[Instance], profile: str) -> Iterator[Place]:
    for start in range(board.placement_units):
        try:
            instance = board.instance(profile, start)
        except MigError:
            continue  # not a placement of this profile
        if not any(
            occupant.profile.is_whole or occupant.overlaps(instance) for occupant in occupants
        ):
            yield Place(profile, start, None)


def _is_free(gpu: Gpu, gpu_slice: Slice) -> bool:
    is_offered = (
        gpu_slice.state is SliceState.ACTIVE
        and gpu_slice.admitted
        and is_in_service(gpu, gpu_slice)
    )
    return is_offered and not gpu_slice.holders
