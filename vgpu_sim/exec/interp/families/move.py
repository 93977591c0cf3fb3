"""Moves, which do not change bit patterns, not even those of NaNs."""

import time

import numpy as np

from vgpu_sim.exec.interp.lanes import Lanes
from vgpu_sim.exec.interp.numbers.bits import WARP_LANES, Bits, Mask
from vgpu_sim.exec.interp.operands import (
    read_bits,
    read_predicate,
    write_bits,
    write_predicate,
)
from vgpu_sim.isa import DataType, Instruction, Op, SpecialRegister


def _mov(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    (destination,), (source,) = instruction.dsts, instruction.srcs
    if instruction.type is DataType.PRED:
        write_predicate(warp, destination, read_predicate(warp, source), mask)
    else:
        value = read_bits(warp, source, instruction.type.bits)
        write_bits(warp, destination, value, instruction.type, mask)


def _special(warp: Lanes, which: SpecialRegister) -> Bits:
    axis = which % 3
    if which <= SpecialRegister.TID_Z:
        return warp.thread[axis]
    if which <= SpecialRegister.NTID_Z:
        return np.array([warp.launch.block[axis]], dtype=np.uint32)
    if which <= SpecialRegister.CTAID_Z:
        return warp.block[axis]
    if which <= SpecialRegister.NCTAID_Z:
        return np.array([warp.launch.grid[axis]], dtype=np.uint32)
    if which is SpecialRegister.LANEID:
        return np.arange(warp.lanes, dtype=np.uint32) % np.uint32(WARP_LANES)
    if which is SpecialRegister.SHARED_WINDOW:
        return np.array([warp.launch.shared_window >> 32], dtype=np.uint32)
    if which is SpecialRegister.DYNAMIC_SHARED:
        return np.array([warp.launch.dynamic_shared_bytes], dtype=np.uint32)
    if which is SpecialRegister.NSMID:
        return np.array([warp.launch.surroundings.multiprocessors], dtype=np.uint32)
    if which is SpecialRegister.GRIDID:
        return np.array([warp.launch.surroundings.grid_id], dtype=np.uint64)
    if which.is_clock:
        return np.array([time.monotonic_ns()], dtype=np.uint64)
    return np.array([WARP_LANES], dtype=np.uint32)


def _s2r(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    if instruction.sreg is None:
        raise TypeError("S2R has no special register")
    value = _special(warp, instruction.sreg)
    write_bits(warp, instruction.dsts[0], value, instruction.type, mask)


def _selp(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    a, b, chooser = instruction.srcs
    bits = instruction.type.bits
    value: Bits = np.where(
        read_predicate(warp, chooser), read_bits(warp, a, bits), read_bits(warp, b, bits)
    )
    write_bits(warp, instruction.dsts[0], value, instruction.type, mask)


SEMANTICS = {Op.MOV: _mov, Op.S2R: _s2r, Op.SELP: _selp}
