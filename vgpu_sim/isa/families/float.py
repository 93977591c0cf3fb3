"""Floating-point arithmetic. Every operation rounds once; NONE rounds as RN."""

from collections.abc import Mapping
from typing import Final

from vgpu_sim.isa.layout import Modifier, Types, choice, flag
from vgpu_sim.isa.opcodes import Op
from vgpu_sim.isa.spec import FLOATS, FLUSHED, OpSpec, Role
from vgpu_sim.isa.types import DataType, Rounding

_V = Role.VALUE
_F32 = (DataType.F32,)
_DIVISIBLE = (DataType.F32, DataType.F64)
_FULL_IEEE = {
    Rounding.NONE: FLOATS,
    Rounding.RN: FLOATS,
    Rounding.RZ: _DIVISIBLE,
    Rounding.RM: _DIVISIBLE,
    Rounding.RP: _DIVISIBLE,
}
_APPROXIMATE = {**dict.fromkeys(_FULL_IEEE, _DIVISIBLE), Rounding.APPROX: _F32}


def _rounding(types: Mapping[Rounding, Types]) -> Modifier:
    return choice("rounding", Rounding, 24, 4, types)


def _ftz(types: Types) -> Modifier:
    return flag("ftz", "FTZ", 28, types)


_EXACT = (_ftz(FLUSHED),)
_ROUNDED = (_rounding(_FULL_IEEE), _ftz(FLUSHED), flag("saturate", "SAT", 29, FLUSHED))
_DIVIDED = (_rounding(_APPROXIMATE), _ftz(_F32))
_QUOTIENT = (_rounding({**_APPROXIMATE, Rounding.FULL: _F32}), _ftz(_F32))


def _float(
    op: Op,
    summary: str,
    semantics: str,
    ptx: str,
    operands: int,
    modifiers: tuple[Modifier, ...] = _ROUNDED,
    types: Types = FLOATS,
) -> OpSpec:
    return OpSpec(op, summary, semantics, ptx, types, (_V,), (_V,) * operands, modifiers)


ROWS: Final = (
    _float(Op.FADD, "add", "d = round(a + b).", "add", 2),
    _float(Op.FSUB, "subtract", "d = round(a - b).", "sub", 2),
    _float(Op.FMUL, "multiply", "d = round(a * b).", "mul", 2),
    _float(Op.FMA, "fused multiply-add", "d = round(a * b + c), rounded once.", "fma", 3),
    _float(
        Op.FNEG,
        "negate",
        "d = a with its sign bit inverted. A NaN is not made canonical; FTZ flushes a first.",
        "neg",
        1,
        _EXACT,
    ),
    _float(
        Op.FABS,
        "absolute value",
        "d = a with its sign bit cleared. A NaN is not made canonical; FTZ flushes a first.",
        "abs",
        1,
        _EXACT,
    ),
    _float(
        Op.FMIN,
        "minimum",
        "d = the smaller of a and b; -0 < +0. Of a number and a NaN the number; of two NaNs the"
        " canonical NaN.",
        "min",
        2,
        _EXACT,
    ),
    _float(
        Op.FMAX,
        "maximum",
        "d = the greater of a and b; -0 < +0. Of a number and a NaN the number; of two NaNs the"
        " canonical NaN.",
        "max",
        2,
        _EXACT,
    ),
    _float(
        Op.FDIV,
        "divide",
        "d = round(a / b). APPROX and FULL round to nearest: more exact than hardware.",
        "div",
        2,
        _QUOTIENT,
        _DIVISIBLE,
    ),
    _float(
        Op.FRCP,
        "reciprocal",
        "d = round(1 / a). APPROX rounds to nearest: more exact than hardware.",
        "rcp",
        1,
        _DIVIDED,
        _DIVISIBLE,
    ),
    _float(
        Op.FSQRT,
        "square root",
        "d = round(square root of a); of -0 it is -0. APPROX rounds to nearest: more exact than"
        " hardware.",
        "sqrt",
        1,
        _DIVIDED,
        _DIVISIBLE,
    ),
)
