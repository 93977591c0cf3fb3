"""Instructions on the bits and bytes of a register.

All arithmetic is on unsigned integers of the operand's width.
"""

from typing import Final

import numpy as np

from vgpu_sim.exec.interp.lanes import Lanes
from vgpu_sim.exec.interp.numbers.bits import Bits, Mask
from vgpu_sim.exec.interp.operands import read_bits, signed_view, write_bits
from vgpu_sim.isa import DataType, Instruction, Op, Permute

_BYTE, _NOWHERE = np.uint32(0xFF), np.uint32(0xFFFF_FFFF)


def _sources(warp: Lanes, instruction: Instruction, *widths: int) -> list[Bits]:
    return [read_bits(warp, s, bits) for s, bits in zip(instruction.srcs, widths, strict=True)]


def _ones(count: Bits, dtype: np.dtype[np.unsignedinteger]) -> Bits:
    """Return patterns with the low ``count`` bits set. All bits are set if ``count`` is the width
    or more.
    """
    bits = dtype.itemsize * 8
    within = np.minimum(count, np.uint32(bits - 1)).astype(dtype)
    partial_pattern = (dtype.type(1) << within) - dtype.type(1)
    result: Bits = np.where(count >= bits, ~dtype.type(0), partial_pattern)
    return result


def _shift(a: Bits, count: Bits, *, left: bool) -> Bits:
    """Return ``a`` shifted by any count, filled with zeros."""
    bits = a.dtype.itemsize * 8
    within = np.minimum(count, np.uint32(bits - 1)).astype(a.dtype)
    moved = a << within if left else a >> within
    result: Bits = np.where(count >= bits, a.dtype.type(0), moved)
    return result


def _popcount(a: Bits) -> Bits:
    """Return the number of ones in each pattern, as 32 bits."""
    groups = a.astype(np.uint64)
    for width, low in ((1, 0x5555555555555555), (2, 0x3333333333333333), (4, 0x0F0F0F0F0F0F0F0F)):
        mask = np.uint64(low)
        groups = (groups & mask) + (groups >> np.uint64(width) & mask)
    return (groups * np.uint64(0x0101010101010101) >> np.uint64(56)).astype(np.uint32)


def _smear(a: Bits) -> Bits:
    """Return patterns with ones from the highest one of ``a`` down to bit 0."""
    bits, width = a.dtype.itemsize * 8, 1
    while width < bits:
        a = a | a >> a.dtype.type(width)
        width *= 2
    return a


def _reverse_bits(a: Bits) -> Bits:
    octets = np.ascontiguousarray(a).view(np.uint8).reshape(-1, a.dtype.itemsize)
    turned = np.packbits(np.unpackbits(octets, axis=1), axis=1, bitorder="little")
    return turned[:, ::-1].copy().view(a.dtype).reshape(a.shape)


def _field_count(type_: DataType, count: Bits) -> Bits:
    """Return what counts of a position or length: its low 8 bits, or all for 64-bit types."""
    return np.minimum(count, _BYTE) if type_.bits == 64 else count & _BYTE


def _bfe(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    type_ = instruction.type
    a, *counts = _sources(warp, instruction, type_.bits, 32, 32)
    position, length = (_field_count(type_, count) for count in counts)
    field = _ones(length, a.dtype)
    if type_.is_signed:
        within = np.minimum(position, np.uint32(type_.bits - 1)).astype(a.dtype)
        moved = (signed_view(a) >> signed_view(within)).view(a.dtype)
        sign = moved & field & ~(field >> a.dtype.type(1))
        value = np.where(sign != 0, moved | ~field, moved & field)
    else:
        value = _shift(a, position, left=False) & field
    write_bits(warp, instruction.dsts[0], value, type_, mask)


def _bfi(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    type_ = instruction.type
    a, b, *counts = _sources(warp, instruction, type_.bits, type_.bits, 32, 32)
    position, length = (_field_count(type_, count) for count in counts)
    field = _shift(_ones(length, a.dtype), position, left=True)
    value = b & ~field | _shift(a, position, left=True) & field
    write_bits(warp, instruction.dsts[0], value, type_, mask)


def _bmsk(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    position, width = _sources(warp, instruction, 32, 32)
    if instruction.wrap:
        position, width = position & np.uint32(31), width & np.uint32(31)
    value = _shift(_ones(width, np.dtype(np.uint32)), position, left=True)
    write_bits(warp, instruction.dsts[0], value, instruction.type, mask)


def _szext(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    a, width = _sources(warp, instruction, 32, 32)
    if instruction.wrap:
        width = width & np.uint32(31)
    field = _ones(width, a.dtype)
    value = a & field
    if instruction.type.is_signed:
        sign = value & ~(field >> np.uint32(1))
        value = np.where(sign != 0, value | ~field, value)
    write_bits(warp, instruction.dsts[0], value, instruction.type, mask)


def _bfind(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    type_ = instruction.type
    (a,) = _sources(warp, instruction, type_.bits)
    if type_.is_signed:
        a = np.where(signed_view(a) < 0, ~a, a)
    value = _popcount(_smear(a)) - np.uint32(1)
    if instruction.shift_amount:
        value = np.where(a == 0, _NOWHERE, np.uint32(type_.bits - 1) - value)
    write_bits(warp, instruction.dsts[0], value, DataType.U32, mask)


def _fns(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    """Find the n-th set bit by testing one position after another, as the PTX ISA specifies.

    If the first position is out of range, no position is tested.
    """
    a, base, offset = _sources(warp, instruction, 32, 32, 32)
    a, base, offset = np.broadcast_arrays(a, base, offset)
    steps = signed_view(np.ascontiguousarray(offset)).astype(np.int64)
    rank = np.maximum(np.abs(steps), 1)
    position = np.full(a.shape, _NOWHERE)
    bit_count = np.zeros(a.shape, np.int64)
    for distance in range(32):
        place = base.astype(np.int64) + np.where(steps < 0, -distance, distance)
        is_tested = (base < 32) & (place >= 0) & (place < 32) & ((steps != 0) | (distance == 0))
        bit = a >> np.where(is_tested, place, 0).astype(np.uint32) & np.uint32(1)
        hit = is_tested & (bit == 1)
        bit_count += hit
        position = np.where(hit & (bit_count == rank), place.astype(np.uint32), position)
    write_bits(warp, instruction.dsts[0], position, instruction.type, mask)


def _popc(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    (a,) = _sources(warp, instruction, instruction.type.bits)
    write_bits(warp, instruction.dsts[0], _popcount(a), DataType.U32, mask)


def _clz(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    (a,) = _sources(warp, instruction, instruction.type.bits)
    value = np.uint32(instruction.type.bits) - _popcount(_smear(a))
    write_bits(warp, instruction.dsts[0], value, DataType.U32, mask)


def _brev(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    (a,) = _sources(warp, instruction, instruction.type.bits)
    write_bits(warp, instruction.dsts[0], _reverse_bits(a), instruction.type, mask)


def _shf(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    a, b, count = _sources(warp, instruction, 32, 32, 32)
    count = count & np.uint32(31) if instruction.wrap else np.minimum(count, np.uint32(32))
    joined_words = b.astype(np.uint64) << np.uint64(32) | a
    if instruction.op is Op.SHF_L:
        joined_words = joined_words << count.astype(np.uint64) >> np.uint64(32)
    else:
        joined_words = joined_words >> count.astype(np.uint64)
    write_bits(warp, instruction.dsts[0], joined_words.astype(np.uint32), instruction.type, mask)


def _choices(mode: Permute, selector: Bits) -> list[Bits]:
    """Return, for each byte of the result, its 4-bit selector."""
    if mode is Permute.NONE:
        return [selector >> np.uint32(4 * i) & np.uint32(15) for i in range(4)]
    n = selector & np.uint32(3)
    places = [np.full(n.shape, i, np.uint32) for i in range(4)]
    match mode:
        case Permute.F4E:
            return [n + i for i in places]
        case Permute.B4E:
            return [n - i & np.uint32(7) for i in places]
        case Permute.RC8:
            return [n] * 4
        case Permute.ECL:
            return [np.maximum(n, i) for i in places]
        case Permute.ECR:
            return [np.minimum(n, i) for i in places]
        case Permute.RC16:
            return [(n & np.uint32(1)) * np.uint32(2) + (i & np.uint32(1)) for i in places]


def _prmt(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    a, b, selector = _sources(warp, instruction, 32, 32, 32)
    joined_words = b.astype(np.uint64) << np.uint64(32) | a
    value = np.zeros_like(joined_words)
    for place, choice in enumerate(_choices(instruction.permute, selector)):
        byte = joined_words >> ((choice & np.uint32(7)) * np.uint32(8)).astype(
            np.uint64
        ) & np.uint64(255)
        copies = (byte >> np.uint64(7)) * np.uint64(255)
        byte = np.where(choice >= 8, copies, byte)
        value = value | byte << np.uint64(8 * place)
    write_bits(warp, instruction.dsts[0], value.astype(np.uint32), instruction.type, mask)


def _lop3(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    a, b, c, table = _sources(warp, instruction, 32, 32, 32, 32)
    value = np.zeros_like(table)
    for row in range(8):
        inputs = [x if row & bit else ~x for x, bit in ((a, 4), (b, 2), (c, 1))]
        entry = np.uint32(0) - (table >> np.uint32(row) & np.uint32(1))
        value = value | entry & inputs[0] & inputs[1] & inputs[2]
    write_bits(warp, instruction.dsts[0], value, instruction.type, mask)


SEMANTICS: Final = {
    Op.BFE: _bfe,
    Op.BFI: _bfi,
    Op.BMSK: _bmsk,
    Op.SZEXT: _szext,
    Op.BFIND: _bfind,
    Op.FNS: _fns,
    Op.POPC: _popc,
    Op.CLZ: _clz,
    Op.BREV: _brev,
    Op.SHF_L: _shf,
    Op.SHF_R: _shf,
    Op.PRMT: _prmt,
    Op.LOP3: _lop3,
}
