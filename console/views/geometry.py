"""The boxes of a GPU object's slices, from its status."""

from functools import lru_cache
from typing import Final

from console.views.faults import is_lost, worse_health
from drawing.slices import Box, BoxState, GpuPicture, Waiting, make_box, share_memory
from gpu_operator.api.v1alpha1.gpu import ClaimedSlice, PlacedInstance, Slice, SliceState
from gpu_operator.api.v1alpha1.resource import Gpu
from mig import geometry
from mig.errors import MigError
from mig.geometry import Board, Instance
from mig.spec import Place

_UNKNOWN: Final = "Unknown"  # the node's agent has not read the GPU's health


def draw(gpu: Gpu) -> GpuPicture:
    """Return the picture of a GPU from its status."""
    try:
        board = geometry.board(gpu.spec.board)
    except MigError:
        return GpuPicture(1, 1, (), f"unknown board {gpu.spec.board}")
    boxes: list[Box] = []
    wrong: list[str] = []
    present_instances: list[Instance] = []
    every: tuple[Slice | ClaimedSlice, ...] = (*gpu.status.slices, *gpu.status.claimed)
    for gpu_slice in every:
        present_instances += _add(boxes, wrong, board, gpu_slice, gpu)
    waiting = []
    for requested in _absent(gpu):
        try:
            instance = _find_instance(board, requested.place)
        except MigError:
            wrong.append(str(requested.place))
            continue
        box = make_box("", instance, BoxState.COMING)
        behind = tuple(
            str(obstacle) for obstacle in present_instances if _covers(instance, obstacle)
        )
        if behind:
            waiting.append(Waiting(box, behind))
        else:
            boxes.append(box)
    problem = f"not a placement of {board.key}: {', '.join(wrong)}" if wrong else ""
    return GpuPicture(
        board.placement_units,
        board.compute_slices,
        tuple(share_memory(boxes)),
        problem,
        tuple(waiting),
    )


def _absent(gpu: Gpu) -> list[PlacedInstance]:
    """Return the instances that the node's agent has yet to create.

    The instances of a GPU that claims can divide are not all for the agent: it creates those of
    layouts only.
    """
    present_places = {gpu_slice.place for gpu_slice in gpu.status.slices} | {
        gpu_slice.place for gpu_slice in gpu.status.claims
    }
    return [
        instance for instance in gpu.spec.layout_instances if instance.place not in present_places
    ]


def _covers(requested: Instance, present_instance: Instance) -> bool:
    return (
        requested.profile.is_whole
        or present_instance.profile.is_whole
        or requested.overlaps(present_instance)
    )


def _add(
    boxes: list[Box],
    wrong: list[str],
    board: Board,
    gpu_slice: Slice | ClaimedSlice,
    gpu: Gpu,
) -> list[Instance]:
    """Add the box of a slice; return its instance, unless the place is not one of the board.

    A slice is never better than its GPU: all are lost if the GPU is off the bus.
    """
    try:
        instance = _find_instance(board, gpu_slice.place)
    except MigError:
        wrong.append(str(gpu_slice.place))
        return []
    health = worse_health(gpu, gpu_slice.health)
    state = BoxState.LOST if is_lost(gpu) else _state(gpu_slice, health)
    boxes.append(_box_of(gpu_slice, instance, state, health))
    return [instance]


def _box_of(
    gpu_slice: Slice | ClaimedSlice, instance: Instance, state: BoxState, health: str
) -> Box:
    used = 100 * gpu_slice.memory_used_bytes // max(gpu_slice.memory_bytes, 1)
    used = 0 if state is BoxState.LOST else used  # what was reported last is no reading
    return make_box(gpu_slice.uuid, instance, state, gpu_slice.holders, health, used)


@lru_cache(maxsize=4096)
def _find_instance(board: Board, place: Place) -> Instance:
    return board.instance(*place)


def _state(gpu_slice: Slice | ClaimedSlice, health: str) -> BoxState:
    if not health.startswith(("Healthy", _UNKNOWN)):
        return BoxState.SICK
    if isinstance(gpu_slice, ClaimedSlice):
        return BoxState.CLAIMED
    if gpu_slice.state is SliceState.WITHDRAWING:
        return BoxState.LEAVING
    if gpu_slice.holders:
        return BoxState.HELD
    return BoxState.FREE if gpu_slice.admitted else BoxState.CLOSED
