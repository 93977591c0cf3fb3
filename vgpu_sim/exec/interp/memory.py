"""Accesses: only lanes in the mask touch memory, so only they can fault.

That an access is aligned to its size, elements of a vector together, is asked before anything else.
"""

import numpy as np

from vgpu_sim.exec.errors import AddressFault, BadAddress, MisalignedFault
from vgpu_sim.exec.interp.address_space import Words
from vgpu_sim.exec.interp.bits import Mask, unsigned_dtype
from vgpu_sim.exec.interp.lanes import Lanes
from vgpu_sim.exec.interp.operands import read_bits, write_bits
from vgpu_sim.isa import Instruction, Op, Space

_WORD_MASK = 0xFFFF_FFFF_FFFF_FFFF
_LOW = np.uint64(0xFFFF_FFFF)
_NARROW = (Space.SHARED, Space.LOCAL)


def _addresses(warp: Lanes, instruction: Instruction, mask: Mask) -> Words:
    """Base + displacement, of the set lanes only; as wide as the space's addresses."""
    bits = 32 if instruction.space in _NARROW else 64
    base = np.broadcast_to(read_bits(warp, instruction.srcs[0], bits), mask.shape)[mask]
    displacement = np.uint64(instruction.displacement & _WORD_MASK)
    result: Words = base.astype(np.uint64, copy=False) + displacement
    return result & _LOW if bits == 32 else result


def _fault(
    warp: Lanes, instruction: Instruction, mask: Mask, accessed: Words, bad: int
) -> AddressFault:
    lane = np.flatnonzero(mask)[int((accessed == np.uint64(bad)).argmax())]
    return AddressFault(bad, warp.word, warp.block_of(int(lane)), instruction.space)


def _check_alignment(warp: Lanes, instruction: Instruction, mask: Mask, first: Words) -> None:
    size = instruction.vector * instruction.type.bytes
    bad = (first & np.uint64(size - 1)) != 0
    if bad.any():
        place = int(bad.argmax())
        block = warp.block_of(int(np.flatnonzero(mask)[place]))
        raise MisalignedFault(int(first[place]), size, warp.word, block, instruction.space)


def _ld(warp: Lanes, instruction: Instruction, mask: Mask) -> Words | None:
    type_ = instruction.type
    dtype = unsigned_dtype(type_.bits)
    if instruction.space is Space.PARAM:
        offset = np.full(int(np.count_nonzero(mask)), instruction.displacement, dtype=np.uint64)
        _check_alignment(warp, instruction, mask, offset)
        for index, destination in enumerate(instruction.dsts):
            begin = instruction.displacement + index * type_.bytes
            data = warp.launch.parameters[begin : begin + type_.bytes]
            value = np.frombuffer(data, dtype=dtype.newbyteorder("<")).astype(dtype)
            write_bits(warp, destination, value, type_, mask)
        return None
    first = _addresses(warp, instruction, mask)
    _check_alignment(warp, instruction, mask, first)
    loaded = []
    for index in range(instruction.vector):
        addresses = first + np.uint64(index * type_.bytes)
        try:
            loaded.append(warp.spaces.load(instruction.space, addresses, mask, type_.bytes))
        except BadAddress as error:
            raise _fault(warp, instruction, mask, addresses, error.address) from error
    # All elements are read before any is written: a destination may be the address register.
    for destination, values in zip(instruction.dsts, loaded, strict=True):
        spread = np.zeros(mask.shape, dtype=dtype)
        spread[mask] = values.astype(dtype)
        write_bits(warp, destination, spread, type_, mask)
    return first


def _st(warp: Lanes, instruction: Instruction, mask: Mask) -> Words:
    type_ = instruction.type
    first = _addresses(warp, instruction, mask)
    _check_alignment(warp, instruction, mask, first)
    for index, source in enumerate(instruction.srcs[1:]):
        addresses = first + np.uint64(index * type_.bytes)
        bits = np.broadcast_to(read_bits(warp, source, type_.bits), mask.shape)[mask]
        try:
            warp.spaces.store(
                instruction.space, addresses, mask, bits.astype(np.uint64), type_.bytes
            )
        except BadAddress as error:
            raise _fault(warp, instruction, mask, addresses, error.address) from error
    return first


SEMANTICS = {Op.LD: _ld, Op.ST: _st}
