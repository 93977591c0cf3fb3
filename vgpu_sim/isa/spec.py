"""The definition of every opcode: operand roles, types, modifiers and effects.

Verifier, encoder, assembler and the reference use these definitions; the rows are in
``families``.
"""

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Final

from vgpu_sim.isa import effects
from vgpu_sim.isa.effects import Effects
from vgpu_sim.isa.instruction import Instruction
from vgpu_sim.isa.layout import DST, A, B, C, Modifier, Types
from vgpu_sim.isa.module import Function
from vgpu_sim.isa.opcodes import Op
from vgpu_sim.isa.types import DataType
from vgpu_sim.records import dataclass

Check = Callable[[Instruction, Function], Iterator[str]]


class Role(Enum):
    """The role of an operand. Each value is the role's description in the reference."""

    VALUE = "value"  # as wide as the type; a predicate where the type is PRED
    RESULT = "result"  # as VALUE, but twice as wide in mode WIDE
    SOURCE = "source"  # as wide as the source type
    COUNT = "count"  # 32 bits, whatever the type
    PREDICATE = "predicate"
    INVERSE = "inverse"  # a second predicate; may be a sink
    CARRY = "carry"  # a predicate; may be a sink
    COMBINED = "combined"  # a predicate; absent where the comparison is not combined
    ADDRESS = "address"  # 64 bits (32 in shared and local space); absent in parameter space
    WAY = "way"  # two values of 32 bits, named by one entry of the pool
    DATA = "data"  # ``vector`` values; a sink may be among several
    SWAPPED = "swapped"  # as VALUE; absent where nothing is compared first
    LEFT = "left"  # registers of 32 bits with a lane's part of the matrix A
    RIGHT = "right"  # the same of B
    TOTALS = "totals"  # the same of C and D


def _nothing(instruction: Instruction, function: Function) -> Iterator[str]:
    return iter(())


@dataclass(frozen=True, slots=True)
class OpSpec:
    """The definition of one opcode. Empty tuples mean that the opcode lacks the property.

    ``types`` is empty where the type is not significant (it keeps its default, B32). ``modifiers``
    are in the order of their words in a mnemonic. ``dst_places`` and ``src_places`` are the
    positions of the operands' fields: the number of each field's first bit. ``check`` yields the
    errors of an instruction that the rules of its modifiers and roles do not detect; ``notes``
    describe in the reference what ``check`` tests.
    """

    op: Op
    summary: str
    semantics: str
    ptx: str
    types: Types = ()
    dsts: tuple[Role, ...] = ()
    srcs: tuple[Role, ...] = ()
    modifiers: tuple[Modifier, ...] = ()
    dst_places: tuple[int, ...] = (DST,)
    src_places: tuple[int, ...] = (A, B, C)
    effects: Effects = effects.NONE
    check: Check = _nothing
    notes: tuple[tuple[str, str], ...] = ()

    def has(self, field: str) -> bool:
        """True if the opcode has the field ``field`` of ``Instruction`` as a modifier."""
        return any(modifier.name == field for modifier in self.modifiers)


UNTYPED: Final = (DataType.B16, DataType.B32, DataType.B64)
UNSIGNED: Final = (DataType.U16, DataType.U32, DataType.U64)
SIGNED: Final = (DataType.S16, DataType.S32, DataType.S64)
INTEGERS: Final = UNTYPED + UNSIGNED + SIGNED
FLOATS: Final = (DataType.F16, DataType.BF16, DataType.F32, DataType.F64)
BYTES: Final = (DataType.B8, DataType.U8, DataType.S8)
NUMERIC: Final = (DataType.U8, *UNSIGNED, DataType.S8, *SIGNED, *FLOATS)
PACKED: Final = (DataType.F16X2, DataType.BF16X2, DataType.F32X2)
MINIFLOATS: Final = (
    DataType.E4M3,
    DataType.E5M2,
    DataType.E2M3,
    DataType.E3M2,
    DataType.E2M1,
)
HALVES: Final = (DataType.F16, DataType.BF16, DataType.F16X2, DataType.BF16X2)
FLUSHED: Final = (DataType.F16, DataType.F32)
