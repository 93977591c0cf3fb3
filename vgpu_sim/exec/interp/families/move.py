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
from vgpu_sim.isa.families.move import (
    CLUSTER_RANK_BITS,
    CLUSTER_RANK_SHIFT,
    FIRST_RANK_FIELD,
    MAX_MAPPED_RANK,
)


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
    if which >= SpecialRegister.CLUSTER_NCTAID_X:
        values = (*warp.launch.cluster_shape, warp.launch.cluster is not None)
        return np.array([values[which - SpecialRegister.CLUSTER_NCTAID_X]], dtype=np.uint32)
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


def _mapa(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    bits = instruction.type.bits
    where, rank = (
        read_bits(warp, instruction.srcs[0], bits),
        read_bits(warp, instruction.srcs[1], 32),
    )
    address_mask = where.dtype.type((1 << bits) - 1 - CLUSTER_RANK_BITS)
    value: Bits = where & address_mask
    if warp.launch.cluster_blocks > 1:
        named = np.minimum(rank, np.uint32(MAX_MAPPED_RANK)) + np.uint32(FIRST_RANK_FIELD)
        value = value | named.astype(where.dtype) << where.dtype.type(CLUSTER_RANK_SHIFT)
    write_bits(warp, instruction.dsts[0], value, instruction.type, mask)


SEMANTICS = {Op.MOV: _mov, Op.S2R: _s2r, Op.SELP: _selp, Op.MAPA: _mapa}
