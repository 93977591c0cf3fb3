"""A kernel as text that grows line by line, with the registers that its random part uses."""

import re

from support.kernels.random_kernels.dice import Dice

TABLE_WORDS = 128
SCRATCH_BYTES = 64  # of a thread's slot: intermediate results, which it may read back
WILD_BYTE = 128  # for the values read through a wild address
SLOT_BYTES = 144
GENERAL = {32: 6, 64: 3, 16: 2}  # the number of registers of each width in the random part
PREDICATES = 4
_PREFIX = {16: "%h", 32: "%r", 64: "%d"}
_SPECIAL = ("%tid.x", "%tid.x", "%tid.y", "%laneid", "%ctaid.x", "%ntid.x", "%tid.z", "%nctaid.y")
_SPECIAL_OPERAND = re.compile(r"%(?:n?tid|n?ctaid)\.[xyz]|%laneid")
_MOVES = ("mov.b32 ", "mov.u32 ")
_INTEGERS = (0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 33, 63, 64, 127, 255, 256, 1000, 65535)
_EDGES = (0, 1, -1, -2, 1 << 15, 1 << 31, (1 << 31) - 1, -(1 << 31), 1 << 63, -16, 0x5555, 0x12345)
FLOATS = {
    32: [
        *(0x3F800000, 0x40000000, 0xBF000000, 0x7FC00001, 0x7F800000, 1, 0x80000000),
        *(0x4B7FFFFF, 0x00800000, 0x7F7FFFFF, 0xCF000000, 0x3EAAAAAB, 0x4F800000, 0xFF800001),
    ],
    64: [
        *(0x3FF0 << 48, 0x4000 << 48, 0xBFE0 << 48, 0x7FF8 << 48, 0x7FF0 << 48, 1, 1 << 63),
        *(0x43E0 << 48, 0x41F0 << 48, 0xC1E0 << 48, 0x3FD5555555555555, 0x7FEFFFFFFFFFFFFF),
    ],
}


class Program:
    """The text so far. ``dice`` makes every choice."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice
        self.lines: list[str] = []
        self._temporaries = {1: 0, 16: 0, 32: 0, 64: 0}
        self._labels = 0

    def add(self, line: str) -> None:
        """Append a line; special registers, which ``mov`` alone reads, are moved before it."""
        if not line.startswith(_MOVES):
            for special in sorted(set(_SPECIAL_OPERAND.findall(line))):
                moved = self.temporary(32)
                self.lines.append(f" mov.b32 {moved}, {special};")
                line = line.replace(special, moved)
        self.lines.append(f" {line}")

    def place(self, label: str) -> None:
        self.lines.append(f"{label}:")

    def label(self) -> str:
        self._labels += 1
        return f"L{self._labels}"

    def temporary(self, bits: int) -> str:
        """Return a register that only the caller uses."""
        self._temporaries[bits] += 1
        return f"%t{bits}_{self._temporaries[bits] - 1}"

    def declarations(self) -> list[str]:
        lines = [f" .reg .b{bits} {_PREFIX[bits]}<{count}>;" for bits, count in GENERAL.items()]
        lines.append(f" .reg .pred %p<{PREDICATES}>;")
        for bits, count in self._temporaries.items():
            kind = "pred" if bits == 1 else f"b{bits}"
            if count:
                lines.append(f" .reg .{kind} %t{bits}_<{count}>;")
        return lines

    def register(self, bits: int) -> str:
        """Return one of the general registers."""
        return f"{_PREFIX[bits]}{self.dice.number(0, GENERAL[bits] - 1)}"

    def predicate(self) -> str:
        return f"%p{self.dice.number(0, PREDICATES - 1)}"

    def integer(self, bits: int) -> str:
        """Return a constant of that width: small, near a limit, or random."""
        kind = self.dice.number(0, 5)
        if kind < 3:
            return str(self.dice.pick(_INTEGERS))
        value = self.dice.pick(_EDGES) if kind < 5 else self.dice.bits(bits)
        value &= (1 << bits) - 1
        return str(value) if value < 1 << 31 else hex(value)

    def float(self, bits: int) -> str:
        """Return a floating-point constant, written as its pattern."""
        pattern = self.dice.bits(bits) if self.dice.one_in(6) else self.dice.pick(FLOATS[bits])
        return f"0f{pattern:08x}" if bits == 32 else f"0d{pattern:016x}"

    def source(self, bits: int, *, real: bool = False) -> str:
        """Return an operand: usually a register, else a constant or a special register."""
        kind = self.dice.number(0, 7)
        if kind == 0:
            return self.float(bits) if real else self.integer(bits)
        if kind == 1 and bits == 32 and not real:
            return self.dice.pick(_SPECIAL)
        return self.register(bits)

    def guard(self) -> str:
        """Return a guard for an instruction, usually none."""
        if not self.dice.one_in(6):
            return ""
        return f"@{self.dice.pick(('', '!'))}{self.predicate()} "

    def condition(self) -> str:
        """Return a guard for a branch that depends on the lane, the block, the launch, or data."""
        dice = self.dice
        sense = dice.pick(("", "!"))
        kind = dice.number(0, 9)
        if kind < 2:
            return f"@{sense}{self.predicate()} "
        fresh, bit = self.temporary(1), self.temporary(32)
        if kind < 6:
            where = dice.pick(("%n", "%n", "%n", "%m", "%ctaid.x"))
        elif kind < 8:
            where = dice.pick(("%tid.x", "%tid.x", "%tid.y", "%thread", "%laneid"))
        else:
            where = self.register(32)
        if dice.one_in(3):
            how = dice.pick(("lt", "ge", "eq", "ne"))
            self.add(f"setp.{how}.u32 {fresh}, {where}, {dice.pick((1, 3, 5, 16, 1000))};")
        else:
            self.add(f"and.b32 {bit}, {where}, {1 << dice.number(0, 4)};")
            self.add(f"setp.ne.u32 {fresh}, {bit}, 0;")
        if dice.one_in(6):
            operator = dice.pick(("and", "or", "xor"))
            self.add(f"{operator}.pred {fresh}, {fresh}, {self.predicate()};")
        return f"@{sense}{fresh} "
