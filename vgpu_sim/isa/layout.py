"""The layout of a word: each family chooses the places of its modifiers.

All families share the opcode, the type and the guard; the rows of a family define bits 24 to 47
and those from bit 64 on. Bits that no part of a row uses are zero.
"""

from collections.abc import Mapping
from dataclasses import field, fields
from enum import IntEnum
from typing import Any, Final

from vgpu_sim.isa.instruction import Instruction
from vgpu_sim.isa.types import DataType
from vgpu_sim.records import dataclass

WORD_BITS: Final = 128
OPERAND_BITS: Final = 16
COMMON_BITS: Final = frozenset([*range(24), *range(48, 64)])  # opcode, type, guard
DST: Final = 64
A, B, C = 80, 96, 112

Types = tuple[DataType, ...]
DEFAULTS: Final[Mapping[str, Any]] = {
    f.name: f.default
    for f in fields(Instruction)
    if f.name not in ("op", "type", "dsts", "srcs", "guard")
}
"""For each field of ``Instruction`` that is a modifier, its value in rows that lack the
modifier.
"""


@dataclass(frozen=True, slots=True)
class Modifier:
    """A field of ``Instruction``, encoded in ``width`` bits of a word, from bit ``first`` on.

    ``codes`` maps the field's values to their bits. ``words`` maps those values that appear in a
    mnemonic to their text. Both are empty if the field is a number. ``types`` lists the
    instruction types with which each value is legal; None means all types. Rules that depend on
    more than the type are in the opcode's ``OpSpec.check``.
    """

    name: str
    first: int
    width: int
    codes: Mapping[Any, int] = field(default_factory=dict)
    words: Mapping[Any, str] = field(default_factory=dict)
    types: Mapping[Any, Types] | None = None
    signed: bool = False

    @property
    def label(self) -> str:
        """The modifier's name in messages and in the reference."""
        return self.name.replace("_", " ")

    @property
    def bits(self) -> range:
        return range(self.first, self.first + self.width)

    def encode(self, value: Any) -> int:
        """Return the bits of a legal value of the modifier, at their place in the word."""
        code = self.codes[value] if self.codes else value & ((1 << self.width) - 1)
        return int(code) << self.first

    def decode(self, word: int) -> Any:
        """Return the value that the modifier has in a word.

        Raises:
            ValueError: no value has these bits.
        """
        code = word >> self.first & ((1 << self.width) - 1)
        if not self.codes:
            return code - (1 << self.width) if self.signed and code >> (self.width - 1) else code
        for value, known in self.codes.items():
            if known == code:
                return value
        raise ValueError(f"{self.label} {code:#x} is not defined")

    def error(self, instruction: Instruction) -> str | None:
        """Return why the modifier's value in an instruction is illegal; None if it is legal."""
        value, op = getattr(instruction, self.name), instruction.op.name
        if value is None:
            return f"{op} needs a {self.label}"
        if not self.codes:
            low = -(1 << (self.width - 1)) if self.signed else 0
            if low <= value < low + (1 << self.width):
                return None
            return f"{self.label} {value} does not fit {self.width} bits"
        if value in self.codes and (
            self.types is None or instruction.type in self.types.get(value, ())
        ):
            return None
        if isinstance(value, bool):
            return f"{op}.{instruction.type.name} does not take {self.words[True]}"
        value_text = value.name if isinstance(value, IntEnum) else value
        return f"{op}.{instruction.type.name} does not take {self.label} {value_text}"


def choice(
    name: str,
    kind: type[IntEnum],
    first: int,
    width: int,
    types: Mapping[Any, Types] | None = None,
    *,
    spoken: bool = True,
) -> Modifier:
    """Return a modifier whose values are those of the enumeration ``kind``.

    If ``spoken`` is set, a value's name appears in the mnemonic. Otherwise, the value is written
    among the operands, or after the type.
    """
    words = {m: m.name for m in kind if m != DEFAULTS[name]} if spoken else {}
    return Modifier(name, first, width, {m: m.value for m in kind}, words, types)


def flag(name: str, word: str, first: int, types: Types | None = None) -> Modifier:
    """Return a one-bit modifier, which the mnemonic shows as ``word`` if the bit is set. ``types``
    are the instruction types that may set the bit; None means all types.
    """
    legal = None if types is None else {False: tuple(DataType), True: types}
    return Modifier(name, first, 1, {False: 0, True: 1}, {True: word}, legal)


def number(name: str, first: int, width: int, *, signed: bool) -> Modifier:
    """Return a modifier whose value is a number, with or without sign."""
    return Modifier(name, first, width, signed=signed)
