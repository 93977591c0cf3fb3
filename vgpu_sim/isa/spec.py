"""The shape of every opcode: operand roles, types and modifiers. Verifier, assembler and the
reference are driven by these; the rows themselves are in ``table``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from vgpu_sim.isa.instruction import Instruction
from vgpu_sim.isa.opcodes import Op
from vgpu_sim.isa.types import Compare, DataType, MulMode, Rounding, Space

Types = tuple[DataType, ...]


class Role(Enum):
    """What stands in an operand's place; the value is its name in the reference."""

    VALUE = "value"  # as wide as the type; a predicate where the type is PRED
    RESULT = "result"  # as VALUE, but twice as wide in mode WIDE
    SOURCE = "source"  # as wide as the source type
    COUNT = "count"  # 32 bits, whatever the type
    PREDICATE = "predicate"
    ADDRESS = "address"  # 64 bits (32 in shared and local space); absent in parameter space
    DATA = "data"  # ``vector`` values


@dataclass(frozen=True, slots=True)
class OpSpec:
    """One row. Empty tuples mean that the opcode has no such property.

    ``types`` is empty where the type is not significant (it keeps its default, B32).
    ``roundings`` maps each legal rounding to the types that may have it.
    """

    op: Op
    summary: str
    semantics: str
    ptx: str
    types: Types = ()
    dsts: tuple[Role, ...] = ()
    srcs: tuple[Role, ...] = ()
    source_types: Types = ()
    modes: tuple[MulMode, ...] = ()
    roundings: Mapping[Rounding, Types] = field(default_factory=dict)
    ftz: Types = ()
    saturate: Types = ()
    spaces: tuple[Space, ...] = ()


UNTYPED: Final = (DataType.B16, DataType.B32, DataType.B64)
UNSIGNED: Final = (DataType.U16, DataType.U32, DataType.U64)
SIGNED: Final = (DataType.S16, DataType.S32, DataType.S64)
INTEGERS: Final = UNTYPED + UNSIGNED + SIGNED
FLOATS: Final = (DataType.F16, DataType.BF16, DataType.F32, DataType.F64)
BYTES: Final = (DataType.B8, DataType.U8, DataType.S8)
NUMERIC: Final = (DataType.U8, *UNSIGNED, DataType.S8, *SIGNED, *FLOATS)

INTEGRAL_ROUNDINGS: Final = (Rounding.RNI, Rounding.RZI, Rounding.RMI, Rounding.RPI)
RESULT_ROUNDINGS: Final = (Rounding.RN, Rounding.RZ, Rounding.RM, Rounding.RP)
INTEGER_COMPARES: Final = tuple(c for c in Compare if c <= Compare.GE)
MAXIMUM_VECTOR_BYTES: Final = 16


def roundings_of(spec: OpSpec, instruction: Instruction) -> tuple[Rounding, ...]:
    """Return the legal roundings; NONE is among them where it may be left out."""
    if spec.op is Op.CVT:
        return _cvt_roundings(instruction.type, instruction.source_type)
    legal = [r for r, types in spec.roundings.items() if instruction.type in types]
    return (Rounding.NONE, *legal)


def compares_of(type_: DataType) -> tuple[Compare, ...]:
    """Return the comparisons that SETP of this type may have."""
    return tuple(Compare) if type_.is_float else INTEGER_COMPARES


def is_wide(instruction: Instruction) -> bool:
    """Return whether the product is twice as wide as the type."""
    return instruction.mode is MulMode.WIDE


def _cvt_roundings(to: DataType, source: DataType | None) -> tuple[Rounding, ...]:
    if source is None:
        return ()
    if not to.is_float:
        return INTEGRAL_ROUNDINGS if source.is_float else (Rounding.NONE,)
    if not source.is_float:
        return (Rounding.NONE, *RESULT_ROUNDINGS)
    if to is source:
        return (Rounding.NONE, *INTEGRAL_ROUNDINGS)
    if to.bits > source.bits:
        return (Rounding.NONE,)
    return (Rounding.NONE, *RESULT_ROUNDINGS)
