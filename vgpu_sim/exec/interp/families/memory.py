"""Accesses: only active lanes access memory, so only they can fault.

Alignment to the access's size, all elements of a vector together, is checked first.
"""

import numpy as np

from vgpu_sim.exec.errors import BadAddress
from vgpu_sim.exec.interp.accesses import addresses_of, check_alignment, fault
from vgpu_sim.exec.interp.address_space import Words
from vgpu_sim.exec.interp.lanes import Lanes
from vgpu_sim.exec.interp.numbers.bits import Mask, unsigned_dtype
from vgpu_sim.exec.interp.operands import read_bits, write_bits
from vgpu_sim.isa import Instruction, Op, Space


def _ld(warp: Lanes, instruction: Instruction, mask: Mask) -> Words | None:
    type_ = instruction.type
    dtype = unsigned_dtype(type_.bits)
    if instruction.space is Space.PARAM:
        offset = np.full(int(np.count_nonzero(mask)), instruction.displacement, dtype=np.uint64)
        check_alignment(warp, instruction, mask, offset)
        for index, destination in enumerate(instruction.dsts):
            begin = instruction.displacement + index * type_.bytes
            data = warp.launch.parameters[begin : begin + type_.bytes]
            value = np.frombuffer(data, dtype=dtype.newbyteorder("<")).astype(dtype)
            write_bits(warp, destination, value, type_, mask)
        return None
    first = addresses_of(warp, instruction, mask)
    check_alignment(warp, instruction, mask, first)
    loaded = []
    for index in range(instruction.vector):
        addresses = first + np.uint64(index * type_.bytes)
        try:
            loaded.append(warp.spaces.load(instruction.space, addresses, mask, type_.bytes))
        except BadAddress as error:
            raise fault(warp, instruction, mask, addresses, error.address) from error
    # All elements are read before any is written: a destination may be the address register.
    for destination, values in zip(instruction.dsts, loaded, strict=True):
        spread = np.zeros(mask.shape, dtype=dtype)
        spread[mask] = values.astype(dtype)
        write_bits(warp, destination, spread, type_, mask)
    return first


def _st(warp: Lanes, instruction: Instruction, mask: Mask) -> Words:
    type_ = instruction.type
    first = addresses_of(warp, instruction, mask)
    check_alignment(warp, instruction, mask, first)
    for index, source in enumerate(instruction.srcs[1:]):
        addresses = first + np.uint64(index * type_.bytes)
        bits = np.broadcast_to(read_bits(warp, source, type_.bits), mask.shape)[mask]
        try:
            warp.spaces.store(
                instruction.space, addresses, mask, bits.astype(np.uint64), type_.bytes
            )
        except BadAddress as error:
            raise fault(warp, instruction, mask, addresses, error.address) from error
    return first


SEMANTICS = {Op.LD: _ld, Op.ST: _st}
