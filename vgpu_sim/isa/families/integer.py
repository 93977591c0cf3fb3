"""Integer arithmetic and logic."""

from typing import Final

from vgpu_sim.isa.layout import DST, Modifier, choice
from vgpu_sim.isa.opcodes import Op
from vgpu_sim.isa.spec import INTEGERS, SIGNED, OpSpec, Role
from vgpu_sim.isa.types import DataType, MulMode

_V, _R = Role.VALUE, Role.RESULT
_BITWISE = (DataType.PRED, *INTEGERS)
_WIDENED = tuple(type_ for type_ in INTEGERS if type_.bits < 64)
_MODES = {MulMode.LO: INTEGERS, MulMode.HI: INTEGERS, MulMode.WIDE: _WIDENED}
_DOTS = (DataType.U32, DataType.S32)
_CARRY = 32
_PRODUCT = (choice("mode", MulMode, 24, 2, _MODES),)


def _integer(
    op: Op,
    summary: str,
    semantics: str,
    ptx: str,
    types: tuple[DataType, ...] = INTEGERS,
    operands: int = 2,
) -> OpSpec:
    return OpSpec(op, summary, semantics, ptx, types, (_V,), (_V,) * operands)


def _carry_spec(op: Op, summary: str, semantics: str, ptx: str) -> OpSpec:
    return OpSpec(
        op,
        summary,
        semantics,
        ptx,
        (DataType.B32, DataType.B64),
        (_V, Role.CARRY),
        (_V, _V, Role.PREDICATE),
        dst_places=(DST, _CARRY),
    )


def _dots(op: Op, summary: str, semantics: str, ptx: str, *modifiers: Modifier) -> OpSpec:
    signs = choice("source_type", DataType, 32, 8, dict.fromkeys(_DOTS, _DOTS), spoken=False)
    return OpSpec(
        op, summary, semantics, ptx, _DOTS, (_V,), (_V, _V, _V), modifiers=(*modifiers, signs)
    )


def _shift(op: Op, summary: str, semantics: str, ptx: str) -> OpSpec:
    return OpSpec(op, summary, semantics, ptx, INTEGERS, (_V,), (_V, Role.COUNT))


ROWS: Final = (
    _integer(Op.ADD, "add", "d = a + b, modulo 2^bits.", "add"),
    _integer(Op.SUB, "subtract", "d = a - b, modulo 2^bits.", "sub"),
    OpSpec(
        Op.MUL,
        "multiply",
        "The product of a and b has twice the bits of the type. LO: d = its low half; HI: its"
        " high half; WIDE (16 and 32 bits): the whole product, d is twice as wide.",
        "mul",
        INTEGERS,
        (_R,),
        (_V, _V),
        _PRODUCT,
    ),
    OpSpec(
        Op.MAD,
        "multiply and add",
        "d = part of a * b (as MUL) + c, modulo 2^bits of d. With WIDE, c and d are twice as wide.",
        "mad",
        INTEGERS,
        (_R,),
        (_V, _V, _R),
        _PRODUCT,
    ),
    _integer(Op.NEG, "negate", "d = -a, modulo 2^bits.", "neg", operands=1),
    _integer(
        Op.ABS,
        "absolute value",
        "d = |a|; for the most negative number, the number itself.",
        "abs",
        SIGNED,
        1,
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
        "d = a - (a / b) * b, with a's sign. b = 0: all bits one. Most negative number / -1: 0.",
        "rem",
    ),
    _shift(
        Op.SHL,
        "shift left",
        "d = a << b, the 32-bit count b unsigned; 0 for b >= bits.",
        "shl",
    ),
    _shift(
        Op.SHR,
        "shift right",
        "d = a >> b, arithmetic for a signed type, the 32-bit count b unsigned. For b >= bits:"
        " 0, or copies of the sign.",
        "shr",
    ),
    _integer(Op.AND, "and", "d = a & b, for each bit.", "and", _BITWISE),
    _integer(Op.OR, "or", "d = a | b, for each bit.", "or", _BITWISE),
    _integer(Op.XOR, "exclusive or", "d = a ^ b, for each bit.", "xor", _BITWISE),
    _integer(Op.NOT, "not", "d = ~a, for each bit.", "not", _BITWISE, 1),
    _carry_spec(
        Op.ADDC,
        "add with carry",
        "d = a + b + c (0 or 1), modulo 2^bits; p = whether the sum has more bits. PTX's carry"
        " flag is a predicate of the function.",
        "add.cc, addc, mad.cc, madc",
    ),
    _carry_spec(
        Op.SUBC,
        "subtract with borrow",
        "d = a - b - c (0 or 1), modulo 2^bits; p = whether the difference is negative.",
        "sub.cc, subc",
    ),
    _integer(
        Op.ADD_SAT,
        "add and saturate",
        "d = a + b, clamped to the type's range.",
        "add.sat, mad.hi.sat",
        _DOTS,
    ),
    _integer(
        Op.SUB_SAT,
        "subtract and saturate",
        "d = a - b, clamped to the type's range.",
        "sub.sat",
        _DOTS,
    ),
    _dots(
        Op.DP4A,
        "dot product of bytes",
        "d = c + the sum of the products of a's bytes (signed for S32) with b's (signed for a"
        " source type of S32), modulo 2^32.",
        "dp4a",
    ),
    _dots(
        Op.DP2A,
        "dot product of halves with bytes",
        "d = c + the sum of the products of a's halves (signed for S32) with the two low (LO) or"
        " high (HI) bytes of b (signed for a source type of S32), modulo 2^32.",
        "dp2a",
        choice("mode", MulMode, 24, 2, {MulMode.LO: _DOTS, MulMode.HI: _DOTS}),
    ),
)
