"""How much text an instruction becomes, in ordinary instructions, which are one each."""

from typing import Final

from vgpu_sim.isa import DataType, Family, Instruction, Op

_SERIES: Final = (Op.FLG2, Op.FSIN, Op.FCOS, Op.FTANH)  # two vectors of binary64
_SERIES_AMOUNT: Final = 40
_POWER_AMOUNT: Final = 20
_TINY: Final = tuple(type_ for type_ in DataType if type_ >= DataType.TF32)
_SMALL: Final = (DataType.F16, DataType.BF16)
_ROUNDED_AMOUNT: Final = 6
_ODD_AMOUNT: Final = 12  # rounded twice and chosen from
_TINY_AMOUNT: Final = 24
_MATRIX_AMOUNT: Final = 8  # a call, and what it takes and gives


def amount(instruction: Instruction) -> int:
    """Return about how many ordinary instructions need as much code."""
    op, type_ = instruction.op, instruction.type.element
    if op.family is Family.MATRIX:
        return _MATRIX_AMOUNT
    numbers = 1 if type_ is instruction.type else 2
    if op in (Op.CVT, Op.CVT_RS) and (
        type_ in _TINY or instruction.source_type in _TINY or op is Op.CVT_RS
    ):
        return _TINY_AMOUNT
    if op in _SERIES:
        return _SERIES_AMOUNT * numbers
    if op is Op.FEX2:
        return _POWER_AMOUNT * numbers
    if type_ not in _SMALL or op in (Op.FNEG, Op.FABS):
        return numbers
    if op is Op.FMA or (op is Op.FMUL and type_ is DataType.BF16):
        return _ODD_AMOUNT * numbers
    return _ROUNDED_AMOUNT * numbers if op is Op.CVT or op.family.name == "FLOAT" else 1
