"""Integer arithmetic and logic."""

from typing import Final

from vgpu_sim.isa.layout import choice
from vgpu_sim.isa.opcodes import Op
from vgpu_sim.isa.spec import INTEGERS, SIGNED, OpSpec, Role
from vgpu_sim.isa.types import DataType, MulMode

_V, _R = Role.VALUE, Role.RESULT
_BITWISE = (DataType.PRED, *INTEGERS)
_WIDENED = tuple(type_ for type_ in INTEGERS if type_.bits < 64)
_MODES = {MulMode.LO: INTEGERS, MulMode.HI: INTEGERS, MulMode.WIDE: _WIDENED}
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


def _shift(op: Op, summary: str, semantics: str, ptx: str) -> OpSpec:
    return OpSpec(op, summary, semantics, ptx, INTEGERS, (_V,), (_V, Role.COUNT))


ROWS: Final = (
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
        " 0, or the sign in every bit.",
        "shr",
    ),
    _integer(Op.AND, "and", "d = a & b, bit by bit.", "and", _BITWISE),
    _integer(Op.OR, "or", "d = a | b, bit by bit.", "or", _BITWISE),
    _integer(Op.XOR, "exclusive or", "d = a ^ b, bit by bit.", "xor", _BITWISE),
    _integer(Op.NOT, "not", "d = ~a, bit by bit.", "not", _BITWISE, 1),
)
