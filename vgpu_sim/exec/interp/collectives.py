"""Execution of the collectives of all families: read member masks and operands in rows, and write
results.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from vgpu_sim.exec.interp.collective_operands import (
    U32,
    CollectiveOperands,
    Results,
    pack_lane_bits,
    rows_of,
)
from vgpu_sim.exec.interp.families import matrix, warp
from vgpu_sim.exec.interp.lanes import Lanes
from vgpu_sim.exec.interp.numbers.bits import WARP_LANES, Mask
from vgpu_sim.exec.interp.operands import read_bits, write_bits, write_predicate
from vgpu_sim.isa import DataType, Family, Instruction, Literal, Op, Predicate

_ALL_MEMBERS: Final = Literal(0xFFFF_FFFF)


def members(lanes: Lanes, instruction: Instruction) -> U32:
    """Return the member mask that each lane specifies, in rows of 32 lanes."""
    source = _ALL_MEMBERS if instruction.op.family is Family.MATRIX else instruction.srcs[-1]
    named: U32 = rows_of(read_bits(lanes, source, 32), lanes).astype(np.uint32)
    return named


def _gather(lanes: Lanes, instruction: Instruction) -> CollectiveOperands:
    if instruction.op.family is Family.MATRIX:
        return matrix.gather(lanes, instruction)
    return warp.gather(lanes, instruction)


def _collect(
    lanes: Lanes, instruction: Instruction, operands: CollectiveOperands, together: U32
) -> Results:
    if instruction.op.family is Family.MATRIX:
        return matrix.compute_results(lanes, instruction, operands, together)
    return warp.compute_results(instruction, operands, together)


def _scatter(lanes: Lanes, instruction: Instruction, results: Results, mask: Mask) -> None:
    """Write results to the destinations of the lanes in ``mask``."""
    for destination, result in zip(instruction.dsts, results, strict=False):
        flat = result.reshape(-1)
        if isinstance(destination, Predicate):
            write_predicate(lanes, destination, flat.astype(np.bool_), mask)
        elif destination is not None:
            type_ = instruction.type if instruction.op is Op.REDUX else DataType.B32
            write_bits(lanes, destination, flat.astype(np.uint32), type_, mask)


def perform(lanes: Lanes, instruction: Instruction, together: U32, mask: Mask) -> None:
    """Perform a collective for the lanes of ``mask``. They form whole warps, and all are at
    ``instruction``.
    """
    together = np.where(mask.reshape(-1, WARP_LANES), together, np.uint32(0))
    operands = _gather(lanes, instruction)
    _scatter(lanes, instruction, _collect(lanes, instruction, operands, together), mask)


def perform_divergent(lanes: Lanes, words: Sequence[int], masks: Sequence[Mask], warp: int) -> None:
    """Perform one collective for lanes of one warp that have reached it at different instructions.

    ``words`` are the indices of the instructions. ``masks`` has, for each of them, the mask of the
    lanes that are at it.
    """
    code = [lanes.launch.function.code[word] for word in words]
    arrived = [mask.reshape(-1, WARP_LANES)[warp : warp + 1] for mask in masks]
    merged = _gather(lanes, code[0]).row(warp)
    for instruction, arrived_lanes in zip(code[1:], arrived[1:], strict=True):
        merged = merged.replace_lanes(_gather(lanes, instruction).row(warp), arrived_lanes)
    present = np.any(arrived, axis=0)
    together = np.where(present, pack_lane_bits(present)[:, None], np.uint32(0))
    results = _collect(lanes, code[0], merged, together)
    shape = (lanes.lanes // WARP_LANES, WARP_LANES)
    spread: Results = tuple(np.broadcast_to(result, shape) for result in results)  # type: ignore[misc]
    for instruction, mask in zip(code, masks, strict=True):
        _scatter(lanes, instruction, spread, mask)
