"""Collectives: compute each lane's result from the lanes of its warp that take part with it.

All arrays have rows of 32 lanes, one warp each. ``together`` holds, for each lane, a bit mask of
the lanes that take part with it, itself included; 0 for absent lanes.
"""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_sim.exec.interp.collective_operands import (
    LANES,
    U32,
    CollectiveOperands,
    Results,
    pack_lane_bits,
    rows_of,
)
from vgpu_sim.exec.interp.lanes import Lanes
from vgpu_sim.exec.interp.numbers.bits import WARP_LANES, Bits, Mask
from vgpu_sim.exec.interp.numbers.formats import FORMATS
from vgpu_sim.exec.interp.operands import read_bits, read_predicate, write_bits
from vgpu_sim.isa import DataType, Instruction, MatchMode, Op, Reduction, ShuffleMode
from vgpu_sim.isa.types import VoteMode

_BITS: Final = (np.uint32(1) << LANES.astype(np.uint32)).astype(np.uint32)


def gather(lanes: Lanes, instruction: Instruction) -> CollectiveOperands:
    """Read the operands of a collective, in rows of 32 lanes."""
    value: Bits = np.zeros((lanes.lanes // WARP_LANES, WARP_LANES), dtype=np.uint32)
    flag: Mask = value != 0
    srcs = instruction.srcs
    if instruction.op is Op.VOTE:
        true = np.broadcast_to(read_predicate(lanes, srcs[0]), (lanes.lanes,))
        flag = true.reshape(-1, WARP_LANES)
    elif instruction.op in (Op.SHFL, Op.MATCH, Op.REDUX):
        value = rows_of(read_bits(lanes, srcs[0], instruction.type.bits), lanes)
    shuffle_sources = srcs[1:3] if instruction.op is Op.SHFL else ()
    return CollectiveOperands(
        (value, *(rows_of(read_bits(lanes, source, 32), lanes) for source in shuffle_sources)), flag
    )


def compute_results(
    instruction: Instruction, operands: CollectiveOperands, together: U32
) -> Results:
    """Return the results of a collective, one for each destination."""
    return _RESULTS[instruction.op](instruction, operands, together)


def _shuffle(instruction: Instruction, operands: CollectiveOperands, together: U32) -> Results:
    b, c = (number.astype(np.int64) for number in operands.numbers[1:])
    distance, clamp, segment = b & 31, c & 31, c >> 8 & 31
    low = LANES & segment
    last = low | (clamp & ~segment)
    match instruction.shuffle:
        case ShuffleMode.UP:
            source = LANES - distance
        case ShuffleMode.DOWN:
            source = LANES + distance
        case ShuffleMode.BFLY:
            source = LANES ^ distance
        case _:
            source = low | (distance & ~segment)
    up = instruction.shuffle is ShuffleMode.UP
    within = source >= last if up else source <= last
    source = np.where(within, source, LANES) & 31
    read = np.take_along_axis(operands.numbers[0], source, axis=-1)
    is_named = (together >> source.astype(np.uint32)) & 1 != 0
    value = np.where(within, np.where(is_named, read, np.uint32(0)), operands.numbers[0])
    return value, within


def _vote(instruction: Instruction, operands: CollectiveOperands, together: U32) -> Results:
    ballot = pack_lane_bits(operands.flag)[:, None] & together
    if instruction.vote is VoteMode.BALLOT:
        return (ballot,)
    all_true, none_true = ballot == together, ballot == 0
    match instruction.vote:
        case VoteMode.ALL:
            return (all_true,)
        case VoteMode.ANY:
            return (~none_true,)
        case _:
            return (all_true | none_true,)


def _match(instruction: Instruction, operands: CollectiveOperands, together: U32) -> Results:
    equal = operands.numbers[0][:, :, None] == operands.numbers[0][:, None, :]
    equal_lanes = pack_lane_bits(equal) & together
    if instruction.match is MatchMode.ANY:
        return (equal_lanes,)
    agree = equal_lanes == together
    return np.where(agree, together, np.uint32(0)), agree


def _redux(instruction: Instruction, operands: CollectiveOperands, together: U32) -> Results:
    numbers = _float_keys(instruction, operands.numbers[0]) if instruction.type.is_float else None
    if numbers is None:
        numbers = operands.numbers[0].astype(np.uint32).astype(np.int64)
        if instruction.type.is_signed:
            numbers = operands.numbers[0].astype(np.uint32).view(np.int32).astype(np.int64)
    assert instruction.reduction is not None
    step = _STEPS[instruction.reduction]
    result, begun = np.zeros_like(numbers), np.zeros(numbers.shape, dtype=np.bool_)
    for lane in range(WARP_LANES):
        takes = (together >> np.uint32(lane)) & 1 != 0
        number = np.broadcast_to(numbers[:, lane : lane + 1], numbers.shape)
        result = np.where(takes, np.where(begun, step(result, number), number), result)
        begun |= takes
    if instruction.type.is_float:
        return (_from_keys(result),)
    return ((result & 0xFFFF_FFFF).astype(np.uint32),)


def _float_keys(instruction: Instruction, value: Bits) -> NDArray[np.int64]:
    """Return integers in the order of the floats; a NaN sorts last, or first in mode NAN.

    A minimum or maximum by these keys therefore ignores a NaN, or in mode NAN returns it.
    """
    patterns = value.astype(np.uint32)
    if instruction.absolute:
        patterns = patterns & np.uint32(0x7FFF_FFFF)
    signed = patterns.view(np.int32).astype(np.int64)
    keys = np.where(signed < 0, -(signed & 0x7FFF_FFFF) - 1, signed)
    is_nan = (patterns & np.uint32(0x7FFF_FFFF)) > np.uint32(0x7F80_0000)
    is_minimum = instruction.reduction is Reduction.MIN
    return np.where(is_nan, -_NAN_KEY if is_minimum == instruction.nan else _NAN_KEY, keys)


def _from_keys(keys: NDArray[np.int64]) -> Bits:
    patterns = np.where(keys < 0, (-keys - 1) | 0x8000_0000, keys)
    patterns = np.where(np.abs(keys) == _NAN_KEY, FORMATS[DataType.F32].canonical_nan, patterns)
    result: Bits = patterns.astype(np.uint32)
    return result


def _elect(instruction: Instruction, operands: CollectiveOperands, together: U32) -> Results:
    lowest = together & (~together + np.uint32(1))
    leader = np.zeros(together.shape, dtype=np.uint32)
    for lane in range(WARP_LANES):
        leader[lowest == _BITS[lane]] = lane
    return leader, leader == LANES


def _active(instruction: Instruction, operands: CollectiveOperands, together: U32) -> Results:
    return (together,)


def _wait(instruction: Instruction, operands: CollectiveOperands, together: U32) -> Results:
    return ()


def _activemask(lanes: Lanes, instruction: Instruction, mask: Mask) -> None:
    rows = mask.reshape(-1, WARP_LANES)
    together = np.where(rows, pack_lane_bits(rows)[:, None], np.uint32(0))
    write_bits(lanes, instruction.dsts[0], together.reshape(-1), DataType.B32, mask)


_NAN_KEY: Final = 1 << 40
_STEPS: Final[dict[Reduction, Callable[..., NDArray[np.int64]]]] = {
    Reduction.ADD: np.add,
    Reduction.MIN: np.minimum,
    Reduction.MAX: np.maximum,
    Reduction.AND: np.bitwise_and,
    Reduction.OR: np.bitwise_or,
    Reduction.XOR: np.bitwise_xor,
}
_RESULTS: Final[dict[Op, Callable[[Instruction, CollectiveOperands, U32], Results]]] = {
    Op.SHFL: _shuffle,
    Op.VOTE: _vote,
    Op.MATCH: _match,
    Op.REDUX: _redux,
    Op.ACTIVEMASK: _active,
    Op.ELECT: _elect,
    Op.BAR_WARP: _wait,
}

GATHERS: Final[Sequence[Op]] = tuple(op for op in _RESULTS if op is not Op.ACTIVEMASK)
"""The opcodes at which lanes wait for each other (``gathering``)."""

SEMANTICS = {Op.ACTIVEMASK: _activemask}
"""The opcodes that apply to the lanes of one path, without waiting for other lanes."""
