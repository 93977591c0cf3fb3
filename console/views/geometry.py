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
    there: list[Instance] = []
    every: tuple[Slice | ClaimedSlice, ...] = (*gpu.status.slices, *gpu.status.claimed)
    for one in every:
        there += _add(boxes, wrong, board, one, gpu)
    waiting = []
    for requested in _absent(gpu):
        try:
            instance = _find_instance(board, requested.place)
        except MigError:
            wrong.append(str(requested.place))
            continue
        box = make_box("", instance, BoxState.COMING)
        behind = tuple(str(one) for one in there if _covers(instance, one))
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
    there = {one.place for one in gpu.status.slices} | {one.place for one in gpu.status.claims}
    return [one for one in gpu.spec.layout_instances if one.place not in there]


def _covers(requested: Instance, there: Instance) -> bool:
    return requested.profile.is_whole or there.profile.is_whole or requested.overlaps(there)


def _add(
    boxes: list[Box],
    wrong: list[str],
    board: Board,
    one: Slice | ClaimedSlice,
    gpu: Gpu,
) -> list[Instance]:
    """Add the box of a slice; return its instance, unless the place is not one of the board.

    A slice is never better than its GPU: all are lost if the GPU is off the bus.
    """
    try:
        instance = _find_instance(board, one.place)
    except MigError:
        wrong.append(str(one.place))
        return []
    health = worse_health(gpu, one.health)
    state = BoxState.LOST if is_lost(gpu) else _state(one, health)
    boxes.append(_box_of(one, instance, state, health))
    return [instance]


def _box_of(one: Slice | ClaimedSlice, instance: Instance, state: BoxState, health: str) -> Box:
    used = 100 * one.memory_used_bytes // max(one.memory_bytes, 1)
    used = 0 if state is BoxState.LOST else used  # what was reported last is no reading
    return make_box(one.uuid, instance, state, one.holders, health, used)


@lru_cache(maxsize=4096)
def _find_instance(board: Board, place: Place) -> Instance:
    return board.instance(*place)


def _state(one: Slice | ClaimedSlice, health: str) -> BoxState:
    if not health.startswith(("Healthy", _UNKNOWN)):
        return BoxState.SICK
    if isinstance(one, ClaimedSlice):
        return BoxState.CLAIMED
    if one.state is SliceState.WITHDRAWING:
        return BoxState.LEAVING
    if one.holders:
        return BoxState.HELD
    return BoxState.FREE if one.admitted else BoxState.CLOSED
