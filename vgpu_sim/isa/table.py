"""One row per opcode: what it takes and, in words, what it does. Order is that of ``Op``."""

from typing import Final

from vgpu_sim.isa.opcodes import Op
from vgpu_sim.isa.spec import (
    BYTES,
    FLOATS,
    INTEGERS,
    NUMERIC,
    RESULT_ROUNDINGS,
    SIGNED,
    OpSpec,
    Role,
)
from vgpu_sim.isa.types import DataType, MulMode, Rounding, Space

_V, _R = Role.VALUE, Role.RESULT
_BITWISE = (DataType.PRED, *INTEGERS)
_FLUSHED = (DataType.F16, DataType.F32)
_DIRECTED = dict.fromkeys(RESULT_ROUNDINGS, (DataType.F32, DataType.F64))
_FULL_IEEE = {**_DIRECTED, Rounding.RN: FLOATS}
_F32 = (DataType.F32,)
_DIVISIBLE = (DataType.F32, DataType.F64)
_MODES = (MulMode.LO, MulMode.HI, MulMode.WIDE)
_LOADS = (Space.GENERIC, Space.GLOBAL, Space.SHARED, Space.LOCAL, Space.CONST, Space.PARAM)
_STORES = (Space.GENERIC, Space.GLOBAL, Space.SHARED, Space.LOCAL)
_MEMORY = (*BYTES, *INTEGERS, *FLOATS)


def _integer(
    op: Op,
    summary: str,
    semantics: str,
    ptx: str,
    types: tuple[DataType, ...] = INTEGERS,
    operands: int = 2,
) -> OpSpec:
    return OpSpec(op, summary, semantics, ptx, types, (_V,), (_V,) * operands)


def _float(
    op: Op, summary: str, semantics: str, ptx: str, operands: int, approximate: bool = False
) -> OpSpec:
    roundings = dict(_DIRECTED if approximate else _FULL_IEEE)
    if approximate:
        roundings[Rounding.APPROX] = _F32
        if op is Op.FDIV:
            roundings[Rounding.FULL] = _F32
    return OpSpec(
        op,
        summary,
        semantics,
        ptx,
        _DIVISIBLE if approximate else FLOATS,
        (_V,),
        (_V,) * operands,
        roundings=roundings,
        ftz=_F32 if approximate else _FLUSHED,
        saturate=() if approximate else _FLUSHED,
    )


def _sign(op: Op, summary: str, semantics: str, ptx: str) -> OpSpec:
    return OpSpec(op, summary, semantics, ptx, FLOATS, (_V,), (_V,), ftz=_FLUSHED)


def _extremum(op: Op, summary: str, semantics: str, ptx: str) -> OpSpec:
    return OpSpec(op, summary, semantics, ptx, FLOATS, (_V,), (_V, _V), ftz=_FLUSHED)


_ROWS = (
    OpSpec(Op.NOP, "no operation", "Nothing.", ""),
    OpSpec(
        Op.BRA,
        "branch",
        "Lanes in the guard go on at `target`, the others at the next word. Where both sets are"
        " not empty the warp diverges: the branch's lanes run first, and all meet again at the"
        " branch's immediate post-dominator. `UNI` is the source's assertion that the lanes"
        " agree; it changes nothing.",
        "bra",
    ),
    OpSpec(Op.RET, "return", "The lanes in the guard end.", "ret, exit"),
    OpSpec(
        Op.TRAP,
        "trap",
        "When a lane is in the guard, the context ends with CUDA_ERROR_LAUNCH_FAILED (719).",
        "trap",
    ),
    OpSpec(
        Op.MOV,
        "move",
        "d = a. Patterns travel unchanged, NaNs too.",
        "mov, cvta",
        (DataType.PRED, *INTEGERS, *FLOATS),
        (_V,),
        (_V,),
    ),
    OpSpec(
        Op.S2R,
        "read special register",
        "d = the 32-bit special register.",
        "Special Registers",
        (DataType.B32, DataType.U32),
        (_V,),
    ),
    OpSpec(
        Op.SELP,
        "select",
        "d = c ? a : b. Patterns travel unchanged.",
        "selp",
        (*INTEGERS, *FLOATS),
        (_V,),
        (_V, _V, Role.PREDICATE),
    ),
    _integer(Op.ADD, "add", "d = a + b, modulo 2^bits.", "add"),
    _integer(Op.SUB, "subtract", "d = a - b, modulo 2^bits.", "sub"),
    OpSpec(
        Op.MUL,
        "multiply",
        "The product of a and b has twice the bits of the type. LO: d = its low half; HI: its"
        " high half; WIDE (16 and 32 bits): all of it, d is twice as wide.",
        "mul",
        INTEGERS,
        (_R,),
        (_V, _V),
        modes=_MODES,
    ),
    OpSpec(
        Op.MAD,
        "multiply and add",
        "d = part of a * b (as MUL) + c, modulo 2^bits of d. With WIDE, c and d are twice as wide.",
        "mad",
        INTEGERS,
        (_R,),
        (_V, _V, _R),
        modes=_MODES,
    ),
    _integer(Op.NEG, "negate", "d = -a, modulo 2^bits.", "neg", operands=1),
    _integer(
        Op.ABS, "absolute value", "d = |a|; of the most negative number itself.", "abs", SIGNED, 1
    ),
    _integer(Op.MIN, "minimum", "d = the smaller of a and b.", "min"),
    _integer(Op.MAX, "maximum", "d = the greater of a and b.", "max"),
    _integer(
        Op.DIV,
        "divide",
        "d = a / b, truncated toward zero. b = 0: all bits one. Most negative number / -1: the"
        " most negative number.",
        "div",
    ),
    _integer(
        Op.REM,
        "remainder",
        "d = a - (a / b) * b, with a's sign. b = 0: a. Most negative number / -1: 0.",
        "rem",
    ),
    OpSpec(
        Op.SHL,
        "shift left",
        "d = a << b, the 32-bit count b unsigned; 0 for b >= bits.",
        "shl",
        INTEGERS,
        (_V,),
        (_V, Role.COUNT),
    ),
    OpSpec(
        Op.SHR,
        "shift right",
        "d = a >> b, arithmetic for a signed type, the 32-bit count b unsigned. For b >= bits:"
        " 0, or the sign in every bit.",
        "shr",
        INTEGERS,
        (_V,),
        (_V, Role.COUNT),
    ),
    _integer(Op.AND, "and", "d = a & b, bit by bit.", "and", _BITWISE),
    _integer(Op.OR, "or", "d = a | b, bit by bit.", "or", _BITWISE),
    _integer(Op.XOR, "exclusive or", "d = a ^ b, bit by bit.", "xor", _BITWISE),
    _integer(Op.NOT, "not", "d = ~a, bit by bit.", "not", _BITWISE, 1),
    _float(Op.FADD, "add", "d = round(a + b).", "add", 2),
    _float(Op.FSUB, "subtract", "d = round(a - b).", "sub", 2),
    _float(Op.FMUL, "multiply", "d = round(a * b).", "mul", 2),
    _float(Op.FMA, "fused multiply-add", "d = round(a * b + c), rounded once.", "fma", 3),
    _sign(
        Op.FNEG,
        "negate",
        "d = a with its sign bit inverted. A NaN is not made canonical; FTZ flushes a first.",
        "neg",
    ),
    _sign(
        Op.FABS,
        "absolute value",
        "d = a with its sign bit cleared. A NaN is not made canonical; FTZ flushes a first.",
        "abs",
    ),
    _extremum(
        Op.FMIN,
        "minimum",
        "d = the smaller of a and b; -0 < +0. Of a number and a NaN the number; of two NaNs the"
        " canonical NaN.",
        "min",
    ),
    _extremum(
        Op.FMAX,
        "maximum",
        "d = the greater of a and b; -0 < +0. Of a number and a NaN the number; of two NaNs the"
        " canonical NaN.",
        "max",
    ),
    _float(
        Op.FDIV,
        "divide",
        "d = round(a / b). APPROX and FULL round to nearest: more exact than hardware.",
        "div",
        2,
        approximate=True,
    ),
    _float(
        Op.FRCP,
        "reciprocal",
        "d = round(1 / a). APPROX rounds to nearest: more exact than hardware.",
        "rcp",
        1,
        approximate=True,
    ),
    _float(
        Op.FSQRT,
        "square root",
        "d = round(square root of a); of -0 it is -0. APPROX rounds to nearest: more exact than"
        " hardware.",
        "sqrt",
        1,
        approximate=True,
    ),
    OpSpec(
        Op.SETP,
        "compare",
        "p = (a compare b) combine c; q = !(a compare b) combine c. On NaN EQ, NE, LT, LE, GT and"
        " GE are false, their ...U forms true; NUM: neither is NaN; NAN: one is. p and q are"
        " different registers; q may be absent. FTZ flushes a and b.",
        "setp",
        (*INTEGERS, *FLOATS),
        (Role.PREDICATE, Role.PREDICATE),
        (_V, _V, Role.PREDICATE),
        ftz=_FLUSHED,
    ),
    OpSpec(
        Op.CVT,
        "convert",
        "d (type) = a (source type). Integer to integer: truncates, or clamps to d's range under"
        " SAT. Float to integer: rounds as RNI (nearest even), RZI (toward zero), RMI (down),"
        " RPI (up) says and clamps to d's range; NaN becomes the pattern with the top bit alone set"
        " if the source is F64 or d has 64 bits, else 0. Integer to float, and to a narrower"
        " float: rounds once. Between equal formats RNI ... RPI round to an integral value. FTZ"
        " flushes an F32 source and an F32 result; SAT clamps a float result to [0, 1].",
        "cvt",
        NUMERIC,
        (_V,),
        (Role.SOURCE,),
        source_types=NUMERIC,
        ftz=NUMERIC,
        saturate=NUMERIC,
    ),
    OpSpec(
        Op.LD,
        "load",
        "d1 .. dn = the n values at a + displacement (modulo 2^64) and following. All are read"
        " before any register is written. In parameter space there is no a: the displacement is"
        " the offset in the parameter block. A destination of a vector may be absent (`_`).",
        "ld, ldu",
        _MEMORY,
        (Role.DATA,),
        (Role.ADDRESS,),
        spaces=_LOADS,
    ),
    OpSpec(
        Op.ST,
        "store",
        "The n values b1 .. bn go to a + displacement (modulo 2^64) and following. Which of"
        " several lanes' values stays at one address is not defined.",
        "st",
        _MEMORY,
        (),
        (Role.ADDRESS, Role.DATA),
        spaces=_STORES,
    ),
)

TABLE: Final = {row.op: row for row in _ROWS}
