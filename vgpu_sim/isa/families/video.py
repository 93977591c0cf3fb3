"""Packed integers: two halves or four bytes of a 32-bit word, each processed separately.

The source type is the type of an element; it is encoded at its usual place, followed by what an
instruction does with its elements.
"""

from typing import Final

from vgpu_sim.isa.layout import Modifier, choice, flag
from vgpu_sim.isa.opcodes import Op
from vgpu_sim.isa.spec import OpSpec, Role
from vgpu_sim.isa.types import Compare, DataType

_V = Role.VALUE
_WORD = (DataType.B32,)
_SIGNED = (DataType.S16, DataType.S8)
_ELEMENTS = (DataType.U16, DataType.U8, *_SIGNED)
_COMPARES = {c: _WORD for c in Compare if c <= Compare.GE}
_SAT = flag("saturate", "SAT", 32)


def _elements(types: tuple[DataType, ...]) -> Modifier:
    return choice("source_type", DataType, 24, 8, dict.fromkeys(types, _WORD), spoken=False)


def _packed_spec(
    op: Op,
    summary: str,
    semantics: str,
    ptx: str,
    *modifiers: Modifier,
    operands: int = 2,
    elements: tuple[DataType, ...] = _ELEMENTS,
) -> OpSpec:
    signs = _elements(elements)
    return OpSpec(op, summary, semantics, ptx, _WORD, (_V,), (_V,) * operands, (*modifiers, signs))


ROWS: Final = (
    _packed_spec(
        Op.PADD,
        "add elements",
        "Each element of d = a + b, modulo 2^bits, or clamped to its type's range with SAT.",
        "add.u16x2, vadd2, vadd4",
        _SAT,
    ),
    _packed_spec(
        Op.PSUB,
        "subtract elements",
        "Each element of d = a - b, modulo 2^bits, or clamped to its type's range with SAT.",
        "sub.u16x2, vsub2, vsub4",
        _SAT,
    ),
    _packed_spec(
        Op.PMIN,
        "minimum of elements",
        "Each element of d = the smaller of a's and b's.",
        "min.s16x2, vmin2",
    ),
    _packed_spec(
        Op.PMAX,
        "maximum of elements",
        "Each element of d = the greater of a's and b's.",
        "max.s16x2, vmax2",
    ),
    _packed_spec(
        Op.PABS,
        "absolute value of elements",
        "Each element of d = |a|; for the most negative number, the number itself.",
        "abs.s16x2",
        operands=1,
        elements=_SIGNED,
    ),
    _packed_spec(
        Op.PNEG,
        "negate elements",
        "Each element of d = -a, modulo 2^bits.",
        "neg.s16x2",
        operands=1,
        elements=_SIGNED,
    ),
    _packed_spec(
        Op.PABSDIFF,
        "absolute difference of elements",
        "Each element of d = |a - b|, an unsigned number.",
        "vabsdiff2, vabsdiff4",
    ),
    _packed_spec(
        Op.PAVG,
        "average of elements",
        "Each element of d = the mean of a's and b's; halves are rounded away from zero.",
        "vavrg2, vavrg4",
    ),
    _packed_spec(
        Op.PSET,
        "compare elements",
        "Each element of d = 1 where a compare b, else 0.",
        "vset2, vset4",
        choice("compare", Compare, 32, 4, _COMPARES),
    ),
)
