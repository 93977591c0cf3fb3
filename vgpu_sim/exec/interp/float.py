"""Floating point. Results are correctly rounded, in every format and rounding mode.

numpy does binary32 and binary64 to nearest; binary16 and bfloat16 go through float64 rounded to
odd; directed roundings and binary64's FMA go through exact integers. APPROX and FULL forms are
computed as RN. FNEG and FABS change the sign bit and nothing else, whatever the pattern.
"""

from collections.abc import Callable

import numpy as np

from vgpu_sim.exec.interp import softfloat
from vgpu_sim.exec.interp.bits import Bits, Mask
from vgpu_sim.exec.interp.formats import (
    FORMATS,
    Format,
    canonical,
    flush,
    is_nan,
    narrow,
    saturate,
    sum_to_odd,
    widen,
)
from vgpu_sim.exec.interp.lanes import Lanes
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
_NATIVE = {DataType.F32: np.dtype(np.float32), DataType.F64: np.dtype(np.float64)}


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


def _nearest(op: Op, type_: DataType, operands: list[Bits]) -> Bits | None:
    """Round to nearest with numpy; None where only exact integers will do."""
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
    columns = [np.broadcast_to(operand, mask.shape)[mask].tolist() for operand in operands]
    function = _EXACT[op]
    result: Bits = np.zeros(mask.shape, dtype=operands[0].dtype)
    result[mask] = [
        function(*lane, FORMATS[type_], rounding) for lane in zip(*columns, strict=True)
    ]
    return result


def _arithmetic(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    type_, format_ = instruction.type, FORMATS[instruction.type]
    operands = _operands(warp, instruction, format_)
    value = None
    if instruction.rounding not in (Rounding.RZ, Rounding.RM, Rounding.RP):
        value = _nearest(instruction.op, type_, operands)
    if value is None:
        value = _exactly(instruction.op, type_, operands, instruction.rounding, mask)
    _finish(warp, instruction, value, format_, mask)


def _operands(warp: Lanes, instruction: Instruction, format_: Format) -> list[Bits]:
    operands = [read_bits(warp, source, format_.bits) for source in instruction.srcs]
    return [flush(operand, format_) for operand in operands] if instruction.ftz else operands


def _finish(
    warp: Lanes, instruction: Instruction, value: Bits, format_: Format, mask: Mask
) -> None:
    if instruction.ftz:
        value = flush(value, format_)
    if instruction.saturate:
        value = saturate(value, format_)
    write_bits(warp, instruction.dsts[0], value, instruction.type, mask)


def _order(bits: Bits, format_: Format) -> Bits:
    """Map patterns to unsigned integers in numeric order, -0 below +0 (NaNs anywhere)."""
    sign = bits.dtype.type(format_.sign)
    result: Bits = np.where(bits >= sign, ~bits, bits | sign)
    return result


def _extremum(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    format_ = FORMATS[instruction.type]
    a, b = _operands(warp, instruction, format_)
    first_less = _order(a, format_) < _order(b, format_)
    take_first = first_less if instruction.op is Op.FMIN else ~first_less
    take_first = is_nan(b, format_) | (take_first & ~is_nan(a, format_))
    value = canonical(np.where(take_first, a, b), format_)
    _finish(warp, instruction, value, format_, mask)


def _sign(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    format_ = FORMATS[instruction.type]
    (a,) = _operands(warp, instruction, format_)
    sign = a.dtype.type(format_.sign)
    value = a ^ sign if instruction.op is Op.FNEG else a & ~sign
    _finish(warp, instruction, value, format_, mask)


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
}
