"""Floating point. Results are correctly rounded, in every format and rounding mode.

numpy computes binary32 and binary64 rounded to nearest; binary16 and bfloat16 are computed in
float64 rounded to odd, as is binary64's FMA of moderate numbers; directed roundings, and the FMA
of other numbers, use exact integers. APPROX and FULL forms are computed as RN. FNEG and FABS
change only the sign bit, whatever the pattern.
"""

from collections.abc import Callable

import numpy as np

from vgpu_sim.exec import approximations
from vgpu_sim.exec.interp.lanes import Lanes
from vgpu_sim.exec.interp.numbers import softfloat
from vgpu_sim.exec.interp.numbers.bits import Bits, Mask, unsigned_dtype
from vgpu_sim.exec.interp.numbers.doubles import ARITHMETIC, SINGLES
from vgpu_sim.exec.interp.numbers.formats import (
    FORMATS,
    Doubles,
    Format,
    canonical,
    flush,
    is_nan,
    narrow,
    relu,
    saturate,
    sum_to_odd,
    widen,
)
from vgpu_sim.exec.interp.operands import read_bits, write_bits
from vgpu_sim.isa import DataType, Instruction, Op, Rounding

_EXACT: dict[Op, Callable[..., int]] = {
    Op.FADD: softfloat.add,
    Op.FSUB: softfloat.subtract,
    Op.FMUL: softfloat.multiply,
    Op.FMA: softfloat.fma,
    Op.FDIV: softfloat.divide,
    Op.FRCP: softfloat.reciprocal,
    Op.FSQRT: softfloat.square_root,
}
_NATIVE: dict[DataType, np.dtype[np.floating]] = {
    DataType.F32: np.dtype(np.float32),
    DataType.F64: np.dtype(np.float64),
}
_SPLITTER = float((1 << 27) + 1)
_MODERATE = 400  # exponents for which the errors of products are normal numbers


def _reciprocal(a: np.ndarray) -> np.ndarray:
    result: np.ndarray = np.divide(a.dtype.type(1), a)
    return result


_NUMPY: dict[Op, Callable[..., np.ndarray]] = {
    Op.FADD: np.add,
    Op.FSUB: np.subtract,
    Op.FMUL: np.multiply,
    Op.FDIV: np.divide,
    Op.FRCP: _reciprocal,
    Op.FSQRT: np.sqrt,
}

_APPROXIMATIONS: dict[Op, Callable[..., Doubles]] = {
    Op.FLG2: approximations.logarithm,
    Op.FSIN: approximations.sine,
    Op.FCOS: approximations.cosine,
    Op.FTANH: approximations.hyperbolic_tangent,
}


def _nearest(op: Op, type_: DataType, operands: list[Bits]) -> Bits | None:
    """Round to nearest with numpy; None if only exact integers are correct."""
    if type_ in _NATIVE and op is not Op.FMA:
        native = [operand.view(_NATIVE[type_]) for operand in operands]
        result: Bits = _NUMPY[op](*native).view(operands[0].dtype)
        return canonical(result, FORMATS[type_])
    if type_ is DataType.F64 or op in (Op.FDIV, Op.FRCP, Op.FSQRT):
        return None
    a, b, *addend = (widen(operand, type_) for operand in operands)
    if op is Op.FMA:  # the product of two short significands is exact in float64
        return narrow(sum_to_odd(a * b, addend[0]), type_)
    if op is Op.FMUL:
        return narrow(a * b, type_)
    return narrow(sum_to_odd(a, -b if op is Op.FSUB else b), type_)


def _exactly(op: Op, type_: DataType, operands: list[Bits], rounding: Rounding, mask: Mask) -> Bits:
    where = mask if operands[0].ndim == 1 else np.repeat(mask[:, np.newaxis], 2, axis=1)
    columns = [np.broadcast_to(operand, where.shape)[where].tolist() for operand in operands]
    function = _EXACT[op]
    result: Bits = np.zeros(where.shape, dtype=operands[0].dtype)
    result[where] = [
        function(*lane, FORMATS[type_], rounding) for lane in zip(*columns, strict=True)
    ]
    return result


def _fma(operands: list[Bits], mask: Mask) -> Bits:
    """Return a * b + c of binary64, rounded once to nearest.

    If no intermediate result can vanish or overflow, it is computed in binary64: the errors of
    the product and of two sums are exact, and their sum, rounded to odd, is a sticky part of the
    result (S. Boldo, G. Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
    Otherwise it is computed in exact integers.
    """
    a, b, c = (np.broadcast_to(operand, mask.shape) for operand in operands)
    fields = [
        (operand >> np.uint64(52) & np.uint64(0x7FF)).astype(np.int64) for operand in (a, b, c)
    ]
    plain = np.logical_and.reduce([np.abs(field - 1023) <= _MODERATE for field in fields])
    x, y, z = (operand.view(np.float64) for operand in (a, b, c))
    product, product_error = _product(x, y)
    total, first = _sum(z, product_error)
    head, second = _sum(product, total)
    result: Bits = (head + sum_to_odd(first, second)).view(np.uint64)
    extreme_lanes = mask & ~plain
    if not extreme_lanes.any():
        return result
    exact = _exactly(Op.FMA, DataType.F64, operands, Rounding.RN, extreme_lanes)
    return np.where(plain, result, exact)


def _product(a: Doubles, b: Doubles) -> tuple[Doubles, Doubles]:
    """Return a product and its exact error (T. Dekker, G. Veltkamp, 1971)."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    error = a_high * b_high - product + a_high * b_low + a_low * b_high
    return product, error + a_low * b_low


def _halves(a: Doubles) -> tuple[Doubles, Doubles]:
    scaled = a * _SPLITTER
    high = scaled - (scaled - a)
    return high, a - high


def _sum(a: Doubles, b: Doubles) -> tuple[Doubles, Doubles]:
    """Return a sum and its exact error (D. Knuth)."""
    total = a + b
    virtual = total - a
    return total, (a - (total - virtual)) + (b - virtual)


def _arithmetic(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    type_ = instruction.type.element
    operands = _operands(warp, instruction)
    value = None
    if type_ is DataType.F64 and instruction.rounding is Rounding.APPROX:
        value = _coarse(operands[0], lambda a: 1.0 / a)
    elif instruction.rounding not in (Rounding.RZ, Rounding.RM, Rounding.RP):
        value = _nearest(instruction.op, type_, operands)
        if value is None and instruction.op is Op.FMA:
            value = _fma(operands, mask)
    if value is None:
        value = _exactly(instruction.op, type_, operands, instruction.rounding, mask)
    _finish(warp, instruction, value, mask)


def _coarse(bits: Bits, function: Callable[[Doubles], Doubles]) -> Bits:
    """Return a binary64 function of the upper half of ``bits``, truncated to its upper half."""
    format_, upper = FORMATS[DataType.F64], np.uint64(0xFFFF_FFFF_0000_0000)
    cut = np.where(is_nan(bits, format_), bits, bits & upper)
    return canonical(function(cut.view(np.float64)).view(np.uint64), format_) & upper


def _reciprocal_root(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    (a,) = _operands(warp, instruction)
    if instruction.ftz and instruction.type is DataType.F64:
        value = _coarse(a, lambda x: 1.0 / np.sqrt(x))
    else:
        root = np.sqrt(a.view(_NATIVE[instruction.type]))
        value = canonical(_reciprocal(root).view(a.dtype), FORMATS[instruction.type])
    _finish(warp, instruction, value, mask)


def _approximation(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    type_ = instruction.type.element
    (a,) = _operands(warp, instruction)
    wide = widen(a, type_)
    if instruction.op is Op.FEX2:
        power = approximations.exponential(SINGLES, wide.astype(np.float32))
        value = canonical(power.view(np.uint32), FORMATS[DataType.F32])
    else:
        value = narrow(_APPROXIMATIONS[instruction.op](ARITHMETIC, wide), DataType.F32)
    if type_ is not DataType.F32:
        value = narrow(widen(value, DataType.F32), type_)
    _finish(warp, instruction, value, mask)


def _operands(warp: Lanes, instruction: Instruction) -> list[Bits]:
    """Return the operands, with subnormals flushed if requested; packed ones in columns."""
    format_ = FORMATS[instruction.type.element]
    operands = [read_bits(warp, source, instruction.type.bits) for source in instruction.srcs]
    if instruction.type.bits != format_.bits:
        halves = unsigned_dtype(format_.bits)
        operands = [operand.view(halves).reshape(-1, 2) for operand in operands]
    return [flush(operand, format_) for operand in operands] if instruction.ftz else operands


def _finish(warp: Lanes, instruction: Instruction, value: Bits, mask: Mask) -> None:
    format_ = FORMATS[instruction.type.element]
    if instruction.ftz:
        value = flush(value, format_)
    if instruction.saturate:
        value = saturate(value, format_)
    if instruction.relu:
        value = relu(value, format_)
    if value.ndim == 2:
        packed = unsigned_dtype(instruction.type.bits)
        value = np.ascontiguousarray(value).view(packed).reshape(-1)
    write_bits(warp, instruction.dsts[0], value, instruction.type, mask)


def _order(bits: Bits, format_: Format) -> Bits:
    """Map patterns to unsigned integers in numeric order, -0 below +0 (NaNs anywhere)."""
    sign = bits.dtype.type(format_.sign)
    result: Bits = np.where(bits >= sign, ~bits, bits | sign)
    return result


def _extremum(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    format_ = FORMATS[instruction.type.element]
    a, b = _operands(warp, instruction)
    sign = a.dtype.type(format_.sign)
    signs = (a ^ b) & sign
    if instruction.xorsign:
        a, b = a & ~sign, b & ~sign
    first_less = _order(a, format_) < _order(b, format_)
    take_first = first_less if instruction.op is Op.FMIN else ~first_less
    a_nan, b_nan = is_nan(a, format_), is_nan(b, format_)
    take_first = b_nan | (take_first & ~a_nan)
    if instruction.nan:
        take_first = a_nan | (take_first & ~b_nan)
    value = canonical(np.where(take_first, a, b), format_)
    if instruction.xorsign:
        value = np.where(is_nan(value, format_), value, value | signs)
    _finish(warp, instruction, value, mask)


def _sign(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    format_ = FORMATS[instruction.type.element]
    (a,) = _operands(warp, instruction)
    sign = a.dtype.type(format_.sign)
    value = a ^ sign if instruction.op is Op.FNEG else a & ~sign
    _finish(warp, instruction, value, mask)


SEMANTICS = {
    Op.FADD: _arithmetic,
    Op.FSUB: _arithmetic,
    Op.FMUL: _arithmetic,
    Op.FMA: _arithmetic,
    Op.FNEG: _sign,
    Op.FABS: _sign,
    Op.FMIN: _extremum,
    Op.FMAX: _extremum,
    Op.FDIV: _arithmetic,
    Op.FRCP: _arithmetic,
    Op.FSQRT: _arithmetic,
    Op.FRSQRT: _reciprocal_root,
    **dict.fromkeys((Op.FEX2, *_APPROXIMATIONS), _approximation),
}
