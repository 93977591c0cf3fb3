"""Floating-point arithmetic. Every operation rounds once; NONE rounds as RN."""

from collections.abc import Iterator, Mapping
from typing import Final

from vgpu_sim.isa.instruction import Instruction
from vgpu_sim.isa.layout import Modifier, Types, choice, flag
from vgpu_sim.isa.module import Function
from vgpu_sim.isa.opcodes import Op
from vgpu_sim.isa.spec import FLOATS, FLUSHED, HALVES, PACKED, OpSpec, Role
from vgpu_sim.isa.types import DataType, Rounding

_V = Role.VALUE
_F32 = (DataType.F32,)
_DIVISIBLE = (DataType.F32, DataType.F64)
_ALL = (*FLOATS, *PACKED)
_DIRECTED = (*_DIVISIBLE, DataType.F32X2)
_FLUSHED = (*FLUSHED, DataType.F16X2, DataType.F32X2)
_FULL_IEEE = {
    Rounding.NONE: _ALL,
    Rounding.RN: _ALL,
    Rounding.RZ: _DIRECTED,
    Rounding.RM: _DIRECTED,
    Rounding.RP: _DIRECTED,
}
_APPROXIMATE = {**dict.fromkeys(_FULL_IEEE, _DIVISIBLE), Rounding.APPROX: _F32}
_RECIPROCAL = {**_APPROXIMATE, Rounding.APPROX: _DIVISIBLE}


def _rounding(types: Mapping[Rounding, Types]) -> Modifier:
    return choice("rounding", Rounding, 24, 4, types)


def _ftz(types: Types) -> Modifier:
    return flag("ftz", "FTZ", 28, types)


_SIGNED = (*FLOATS, DataType.F16X2, DataType.BF16X2)
_ORDERED = (*HALVES, DataType.F32)
_EXACT = (_ftz((*FLUSHED, DataType.F16X2)),)
_CHOSEN = (*_EXACT, flag("nan", "NAN", 30, _ORDERED), flag("xorsign", "XORSIGN", 31, _ORDERED))
_EX2_FLUSHED = (DataType.F32, DataType.BF16, DataType.BF16X2)
_OF_SINGLE = "For F16 and BF16 the result is that of F32, rounded once more to nearest."
_SATURATED = (*FLUSHED, DataType.F16X2)
_ROUNDED = (_rounding(_FULL_IEEE), _ftz(_FLUSHED), flag("saturate", "SAT", 29, _SATURATED))
_FUSED = (*_ROUNDED, flag("relu", "RELU", 30, HALVES))
_DIVIDED = (_rounding(_APPROXIMATE), _ftz(_F32))
_INVERTED = (_rounding(_RECIPROCAL), _ftz(_DIVISIBLE))
_NAN = (
    "NAN: if an operand is NaN the result is the canonical NaN. XORSIGN: |a| and |b| are"
    " compared; d"
    " has the exclusive or of the signs of a and b unless it is NaN."
)
_COARSE = (
    "F64 with FTZ is coarse: only the upper 32 bits of a are used, and the lower 32 bits of d are"
    " zero; the relative error is at most 2^-19."
)
_QUOTIENT = (_rounding({**_APPROXIMATE, Rounding.FULL: _F32}), _ftz(_F32))


def _coarse_errors(instruction: Instruction, function: Function) -> Iterator[str]:
    """Yield errors of an F64 instruction that is neither IEEE 754 nor coarse.

    It must be rounded as IEEE 754 specifies, or have both APPROX and FTZ.
    """
    coarse = instruction.rounding is Rounding.APPROX
    if instruction.type is DataType.F64 and coarse != instruction.ftz:
        yield f"{instruction.op.name}.F64 takes APPROX and FTZ together"


def _float(
    op: Op,
    summary: str,
    semantics: str,
    ptx: str,
    operands: int,
    modifiers: tuple[Modifier, ...] = _ROUNDED,
    types: Types = _ALL,
) -> OpSpec:
    return OpSpec(op, summary, semantics, ptx, types, (_V,), (_V,) * operands, modifiers)


def _clamped_errors(instruction: Instruction, function: Function) -> Iterator[str]:
    if instruction.saturate and instruction.relu:
        yield f"{instruction.op.name} takes SAT or RELU, not both"


def _approximate(
    op: Op, summary: str, semantics: str, ptx: str, types: Types = _F32, flushed: Types = _F32
) -> OpSpec:
    return _float(op, summary, semantics, ptx, 1, (_ftz(flushed),) if flushed else (), types)


ROWS: Final = (
    _float(Op.FADD, "add", "d = round(a + b).", "add", 2),
    _float(Op.FSUB, "subtract", "d = round(a - b).", "sub", 2),
    _float(Op.FMUL, "multiply", "d = round(a * b).", "mul", 2),
    OpSpec(
        Op.FMA,
        "fused multiply-add",
        "d = round(a * b + c), rounded once. RELU replaces negative results, including -0, by +0.",
        "fma, mad",
        _ALL,
        (_V,),
        (_V, _V, _V),
        _FUSED,
        check=_clamped_errors,
        notes=(("SAT, RELU", "one of them"),),
    ),
    _float(
        Op.FNEG,
        "negate",
        "d = a with its sign bit inverted. A NaN is not made canonical; FTZ flushes a first.",
        "neg",
        1,
        _EXACT,
        _SIGNED,
    ),
    _float(
        Op.FABS,
        "absolute value",
        "d = a with its sign bit cleared. A NaN is not made canonical; FTZ flushes a first.",
        "abs",
        1,
        _EXACT,
        _SIGNED,
    ),
    _float(
        Op.FMIN,
        "minimum",
        "d = the smaller of a and b; -0 < +0. If one operand is NaN, d is the other; if both"
        " are, the"
        f" canonical NaN. {_NAN}",
        "min",
        2,
        _CHOSEN,
        _SIGNED,
    ),
    _float(
        Op.FMAX,
        "maximum",
        "d = the greater of a and b; -0 < +0. If one operand is NaN, d is the other; if both"
        " are, the"
        f" canonical NaN. {_NAN}",
        "max",
        2,
        _CHOSEN,
        _SIGNED,
    ),
    _float(
        Op.FDIV,
        "divide",
        "d = round(a / b). APPROX and FULL round to nearest, which is more exact than hardware.",
        "div",
        2,
        _QUOTIENT,
        _DIVISIBLE,
    ),
    OpSpec(
        Op.FRCP,
        "reciprocal",
        "d = round(1 / a). APPROX of F32 rounds to nearest, which is more exact than hardware."
        f" {_COARSE}",
        "rcp",
        _DIVISIBLE,
        (_V,),
        (_V,),
        _INVERTED,
        check=_coarse_errors,
        notes=(("F64", "APPROX and FTZ together, or neither"),),
    ),
    _float(
        Op.FSQRT,
        "square root",
        "d = round(square root of a); for -0 it is -0. APPROX rounds to nearest, which is more"
        " exact"
        " than hardware.",
        "sqrt",
        1,
        _DIVIDED,
        _DIVISIBLE,
    ),
    _float(
        Op.FRSQRT,
        "reciprocal square root",
        "d = 1 / (square root of a), both rounded to nearest: the error is at most 2^-23 of the"
        " result in"
        f" F32, 2^-52 in F64. For +0 the result is +infinity, for -0 -infinity. {_COARSE}",
        "rsqrt",
        1,
        (_ftz(_DIVISIBLE),),
        _DIVISIBLE,
    ),
    _approximate(
        Op.FEX2,
        "power of two",
        f"d = 2^a, with an error of at most 0.95 ulp; exact where a is an integer. {_OF_SINGLE}",
        "ex2",
        _ORDERED,
        _EX2_FLUSHED,
    ),
    _approximate(
        Op.FLG2,
        "logarithm to base 2",
        "d = log2 a, with an error of at most 0.501 ulp; exact where a is a power of two. For a"
        " zero it"
        " is -infinity, for negative numbers NaN.",
        "lg2",
    ),
    _approximate(
        Op.FSIN,
        "sine",
        "d = sin a, a in radians, with an error of at most 2^-24 for |a| up to 2^24 (0.504 ulp"
        " up to pi)"
        " and of |a| 2^-52 beyond. For a zero the result is that zero, for an infinity NaN.",
        "sin",
    ),
    _approximate(
        Op.FCOS,
        "cosine",
        "d = cos a, a in radians, with an error of at most 2^-24 for |a| up to 2^24 (0.504 ulp"
        " up to pi)"
        " and of |a| 2^-52 beyond. For an infinity the result is NaN.",
        "cos",
    ),
    _approximate(
        Op.FTANH,
        "hyperbolic tangent",
        "d = tanh a, with an error of at most 0.505 ulp. For a zero the result is that zero."
        f" {_OF_SINGLE}",
        "tanh",
        _ORDERED,
        (),
    ),
)
