"""Where the parts of a word stand. A family lays its modifiers out as it likes.

Of the 128 bits all families share the opcode, the type and the guard; from bit 24 to 47 and from
bit 64 on a row of the family says what stands where. What no part of a row takes is zero.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import Any, Final

from vgpu_sim.isa.instruction import Instruction
from vgpu_sim.isa.types import DataType

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
"""The fields of ``Instruction`` that are modifiers, with what they hold where a row lacks them."""


@dataclass(frozen=True, slots=True)
class Modifier:
    """A field of ``Instruction`` in a word: ``width`` bits from bit ``first`` on.

    ``codes`` maps its values to their bits, ``words`` those that a mnemonic shows to their words;
    both are empty for a number. ``types`` says with which types of the instruction each value may
    stand; None: with all. What depends on more than the type is the row's ``check``.
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
        """Its name in messages and in the reference."""
        return self.name.replace("_", " ")

    @property
    def bits(self) -> range:
        return range(self.first, self.first + self.width)

    def encode(self, value: Any) -> int:
        """Return the bits of a value that ``takes`` accepts, at their place in the word."""
        code = self.codes[value] if self.codes else value & ((1 << self.width) - 1)
        return int(code) << self.first

    def decode(self, word: int) -> Any:
        """Return the value in a word.

        Raises:
            ValueError: when no value has these bits.
        """
        code = word >> self.first & ((1 << self.width) - 1)
        if not self.codes:
            return code - (1 << self.width) if self.signed and code >> (self.width - 1) else code
        for value, known in self.codes.items():
            if known == code:
                return value
        raise ValueError(f"{self.label} {code:#x} is not defined")

    def error(self, instruction: Instruction) -> str | None:
        """Return why the instruction may not have the value that it has; None if it may."""
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
        shown = value.name if isinstance(value, IntEnum) else value
        return f"{op}.{instruction.type.name} does not take {self.label} {shown}"


def choice(
    name: str,
    kind: type[IntEnum],
    first: int,
    width: int,
    types: Mapping[Any, Types] | None = None,
    *,
    spoken: bool = True,
) -> Modifier:
    """Return a modifier with the values of an enumeration, whose names are its words.

    Not ``spoken``: the value stands among the operands, or after the type.
    """
    words = {m: m.name for m in kind if m != DEFAULTS[name]} if spoken else {}
    return Modifier(name, first, width, {m: m.value for m in kind}, words, types)


def flag(name: str, word: str, first: int, types: Types | None = None) -> Modifier:
    """Return a modifier of one bit; ``types``: those of instructions that may set it."""
    legal = None if types is None else {False: tuple(DataType), True: types}
    return Modifier(name, first, 1, {False: 0, True: 1}, {True: word}, legal)


def number(name: str, first: int, width: int, *, signed: bool) -> Modifier:
    """Return a modifier that is a number."""
    return Modifier(name, first, width, signed=signed)
