"""Integer arithmetic: two's complement, wrapping modulo 2^bits. Untyped bits are unsigned."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from vgpu_sim.exec.interp.lanes import Lanes
from vgpu_sim.exec.interp.numbers.bits import Bits, Mask, unsigned_dtype
from vgpu_sim.exec.interp.operands import (
    read_bits,
    read_predicate,
    signed_view,
    write_bits,
    write_predicate,
)
from vgpu_sim.isa import DataType, Instruction, MulMode, Op

_BINARY: dict[Op, Callable[[Bits, Bits, bool], Bits]] = {}
_UNARY: dict[Op, Callable[[Bits, bool], Bits]] = {}
_WIDENED = {
    (16, True): DataType.S32,
    (16, False): DataType.U32,
    (32, True): DataType.S64,
    (32, False): DataType.U64,
}


def _negative(a: Bits) -> Mask:
    return signed_view(a) < 0


def _magnitude(a: Bits) -> Bits:
    """Return the absolute value as an unsigned integer, correct for the smallest one too."""
    result: Bits = np.where(_negative(a), ~a + a.dtype.type(1), a)
    return result


def _pick(a: Bits, b: Bits, signed: bool, larger: bool) -> Bits:
    less = signed_view(a) < signed_view(b) if signed else a < b
    result: Bits = np.where(less, b, a) if larger else np.where(less, a, b)
    return result


def _divide(a: Bits, b: Bits, signed: bool) -> Bits:
    zero = b == 0
    x, y = (_magnitude(a), _magnitude(b)) if signed else (a, b)
    quotient = x // np.where(zero, b.dtype.type(1), y)
    if signed:
        quotient = np.where(_negative(a) != _negative(b), ~quotient + b.dtype.type(1), quotient)
    result: Bits = np.where(zero, ~np.zeros_like(b), quotient)
    return result


def _remainder(a: Bits, b: Bits, signed: bool) -> Bits:
    result: Bits = np.where(b == 0, ~np.zeros_like(a), a - _divide(a, b, signed) * b)
    return result


_BINARY[Op.ADD] = lambda a, b, _: a + b
_BINARY[Op.SUB] = lambda a, b, _: a - b
_BINARY[Op.MIN] = lambda a, b, signed: _pick(a, b, signed, larger=False)
_BINARY[Op.MAX] = lambda a, b, signed: _pick(a, b, signed, larger=True)
_BINARY[Op.DIV] = _divide
_BINARY[Op.REM] = _remainder
_BINARY[Op.AND] = lambda a, b, _: a & b
_BINARY[Op.OR] = lambda a, b, _: a | b
_BINARY[Op.XOR] = lambda a, b, _: a ^ b

_UNARY[Op.NEG] = lambda a, _: ~a + a.dtype.type(1)
_UNARY[Op.ABS] = lambda a, signed: _magnitude(a) if signed else a
_UNARY[Op.NOT] = lambda a, _: ~a


def _binary(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    type_ = instruction.type
    a, b = (read_bits(warp, source, type_.bits) for source in instruction.srcs)
    value = _BINARY[instruction.op](a, b, type_.is_signed)
    write_bits(warp, instruction.dsts[0], value, type_, mask)


def _unary(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    type_ = instruction.type
    a = read_bits(warp, instruction.srcs[0], type_.bits)
    value = _UNARY[instruction.op](a, type_.is_signed)
    write_bits(warp, instruction.dsts[0], value, type_, mask)


def _shift(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    type_ = instruction.type
    a = read_bits(warp, instruction.srcs[0], type_.bits)
    count = read_bits(warp, instruction.srcs[1], 32)
    over = count >= type_.bits
    within = np.minimum(count, np.uint32(type_.bits - 1)).astype(a.dtype)
    value: Bits
    if instruction.op is Op.SHR and type_.is_signed:
        value = (signed_view(a) >> signed_view(within)).view(a.dtype)
    else:
        shifted = a << within if instruction.op is Op.SHL else a >> within
        value = np.where(over, a.dtype.type(0), shifted)
    write_bits(warp, instruction.dsts[0], value, type_, mask)


def _wide_product(a: Bits, b: Bits, signed: bool) -> Bits:
    wide = unsigned_dtype(a.dtype.itemsize * 16)
    if signed:
        x, y = (signed_view(v).astype(wide.str.replace("u", "i")).view(wide) for v in (a, b))
    else:
        x, y = a.astype(wide), b.astype(wide)
    return x * y


def _high_product(a: Bits, b: Bits, signed: bool) -> Bits:
    if a.dtype.itemsize < 8:
        shift = a.dtype.itemsize * 8
        product = _wide_product(a, b, signed)
        return (product >> product.dtype.type(shift)).astype(a.dtype)
    low, half = np.uint64(0xFFFF_FFFF), np.uint64(32)
    al, ah, bl, bh = a & low, a >> half, b & low, b >> half
    middle = ah * bl + (al * bl >> half)
    cross = al * bh + (middle & low)
    high: Bits = ah * bh + (middle >> half) + (cross >> half)
    if signed:  # a negative factor was read as 2^64 too much
        zero = np.uint64(0)
        high = high - np.where(_negative(a), b, zero) - np.where(_negative(b), a, zero)
    return high


def _product(warp: Lanes, instruction: Instruction) -> tuple[Bits, DataType]:
    type_ = instruction.type
    a, b = (read_bits(warp, source, type_.bits) for source in instruction.srcs[:2])
    if instruction.mode is MulMode.WIDE:
        return _wide_product(a, b, type_.is_signed), _WIDENED[type_.bits, type_.is_signed]
    if instruction.mode is MulMode.HI:
        return _high_product(a, b, type_.is_signed), type_
    return a * b, type_


def _mul(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    value, type_ = _product(warp, instruction)
    write_bits(warp, instruction.dsts[0], value, type_, mask)


def _mad(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    value, type_ = _product(warp, instruction)
    value = value + read_bits(warp, instruction.srcs[2], type_.bits)
    write_bits(warp, instruction.dsts[0], value, type_, mask)


def _logic(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    if instruction.type is not DataType.PRED:
        (_unary if instruction.op is Op.NOT else _binary)(warp, instruction, mask)
        return
    operands = [read_predicate(warp, source) for source in instruction.srcs]
    value = _PREDICATE_LOGIC[instruction.op](*operands)
    write_predicate(warp, instruction.dsts[0], value, mask)


_PREDICATE_LOGIC: dict[Op, Callable[..., Mask]] = {
    Op.AND: np.logical_and,
    Op.OR: np.logical_or,
    Op.XOR: np.logical_xor,
    Op.NOT: np.logical_not,
}


def _add_with_carry(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    type_ = instruction.type
    a, b = (read_bits(warp, source, type_.bits) for source in instruction.srcs[:2])
    carry = read_predicate(warp, instruction.srcs[2])
    step = carry.astype(a.dtype)
    if instruction.op is Op.ADDC:
        value = a + b
        out = (value < a) | (carry & (value == ~a.dtype.type(0)))
        value = value + step
    else:
        value = a - b
        out = (a < b) | (carry & (value == 0))
        value = value - step
    write_bits(warp, instruction.dsts[0], value, type_, mask)
    write_predicate(warp, instruction.dsts[1], out, mask)


def _saturate(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    a, b = (_numbers(read_bits(warp, s, 32), instruction.type) for s in instruction.srcs)
    exact = a + b if instruction.op is Op.ADD_SAT else a - b
    low = -(1 << 31) if instruction.type.is_signed else 0
    value = np.clip(exact, low, low + (1 << 32) - 1).astype(np.uint64).astype(np.uint32)
    write_bits(warp, instruction.dsts[0], value, instruction.type, mask)


def _numbers(a: Bits, type_: DataType) -> NDArray[np.int64]:
    """Return the integers that patterns of up to 32 bits represent, as 64-bit integers."""
    return (signed_view(a) if type_.is_signed else a).astype(np.int64)


def _parts(a: Bits, bits: int, places: range, type_: DataType) -> list[NDArray[np.int64]]:
    """Return the elements ``places`` of packed words, each of ``bits`` bits, as integers."""
    small = unsigned_dtype(bits)
    return [_numbers((a >> np.uint32(bits * i)).astype(small), type_) for i in places]


def _dot(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    type_, byte_type = instruction.type, instruction.source_type
    assert byte_type is not None
    a, b, c = (read_bits(warp, source, 32) for source in instruction.srcs)
    if instruction.op is Op.DP4A:
        factors, byte_factors = _parts(a, 8, range(4), type_), _parts(b, 8, range(4), byte_type)
    else:
        places = range(2) if instruction.mode is MulMode.LO else range(2, 4)
        factors, byte_factors = _parts(a, 16, range(2), type_), _parts(b, 8, places, byte_type)
    total = c.astype(np.int64) + sum(x * y for x, y in zip(factors, byte_factors, strict=True))
    value = total.astype(np.uint64).astype(np.uint32)
    write_bits(warp, instruction.dsts[0], value, type_, mask)


SEMANTICS = {
    Op.ADD: _binary,
    Op.SUB: _binary,
    Op.MUL: _mul,
    Op.MAD: _mad,
    Op.NEG: _unary,
    Op.ABS: _unary,
    Op.MIN: _binary,
    Op.MAX: _binary,
    Op.DIV: _binary,
    Op.REM: _binary,
    Op.SHL: _shift,
    Op.SHR: _shift,
    Op.AND: _logic,
    Op.OR: _logic,
    Op.XOR: _logic,
    Op.NOT: _logic,
    Op.ADDC: _add_with_carry,
    Op.SUBC: _add_with_carry,
    Op.ADD_SAT: _saturate,
    Op.SUB_SAT: _saturate,
    Op.DP4A: _dot,
    Op.DP2A: _dot,
}
