"""LLVM IR text of one function: names, labels, debug locations, declarations.

SSA is written directly; a line can be reserved and filled later (loop phis). This module does
not depend on the instruction set.
"""

import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import field

from vgpu_sim.exec.jit.text.value_numbering import AvailableExpressions
from vgpu_sim.records import dataclass

BITS = {
    "i1": 1,
    "i8": 8,
    "i16": 16,
    "i32": 32,
    "i64": 64,
    "half": 16,
    "float": 32,
    "double": 64,
}


Touched = tuple[int | None, str]
"""The vector of lanes for which an access is made (None if for all), and the accessed memory."""


def integer(bits: int) -> str:
    """Return LLVM's name of the integer type of ``bits`` bits."""
    return f"i{bits}"


def constant(pattern: int, type_: str) -> str:
    """Return a scalar constant of ``type_``, given its bit pattern."""
    bits = BITS[type_]
    pattern &= (1 << bits) - 1
    if type_ == "float":
        return f"0x{_float_as_double(pattern):016X}"
    if type_ == "double":
        return f"0x{pattern:016X}"
    if type_ == "half":
        return f"0xH{pattern:04X}"
    if type_ == "i1":
        return "true" if pattern else "false"
    return str(pattern - (1 << bits) if pattern >> (bits - 1) else pattern)


def _float_as_double(pattern: int) -> int:
    # LLVM writes float constants as the double of the same value. NaNs are widened by hand: the
    # host's conversion would quiet them.
    sign, exponent, fraction = pattern >> 31, pattern >> 23 & 0xFF, pattern & 0x7F_FFFF
    if exponent == 0xFF:
        return sign << 63 | 0x7FF << 52 | fraction << 29
    value = struct.unpack("<f", struct.pack("<I", pattern))[0]
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])


@dataclass(slots=True)
class Shared:
    """The parts that all functions of a module share: declarations, helpers and debug locations.

    ``helpers`` maps names to definitions of helper functions. ``embedded_rounding`` states that the
    CPU has AVX-512, whose instructions may encode a rounding mode.
    """

    embedded_rounding: bool = False
    helpers: dict[str, str] = field(default_factory=dict)
    declarations: set[str] = field(default_factory=set)
    metadata: list[str] = field(default_factory=list)
    _locations: dict[tuple[int, int], int] = field(default_factory=dict)

    def add_metadata(self, text: str) -> int:
        """Append a numbered metadata node; return its number."""
        self.metadata.append(text)
        return len(self.metadata) - 1

    def location(self, line: int, subprogram: int) -> int:
        """Return the number of the debug location of ``line`` within a function."""
        key = (line, subprogram)
        if key not in self._locations:
            text = f"!DILocation(line: {line}, scope: !{subprogram})"
            self._locations[key] = self.add_metadata(text)
        return self._locations[key]


class Text:
    """The body of one function. ``width`` is the number of lanes of a vector.

    ``word`` is the index of the instruction whose code is being written (debug line = word + 1,
    because line 0 means "no line"). ``prologue`` lines run once, before the body.
    """

    def __init__(self, shared: Shared, subprogram: int, width: int) -> None:
        self.shared = shared
        self.width = width
        self.word = 0
        self.block_label = "entry"
        self.body: list[str] = []
        self.prologue: list[str] = []
        self.known = AvailableExpressions()
        self.touched: dict[int, Touched] = {}
        self._touching: Touched | None = None
        self._read_at: dict[str, int] = {}
        self._lines = self.body
        self._subprogram = subprogram
        self._names = 0
        self._labels = 0
        self._distances: dict[str, tuple[str, int]] = {}

    def type_of(self, scalar: str, vector: bool) -> str:
        """Return the LLVM type ``scalar``. If ``vector`` is set, return the type of a vector of
        such elements.
        """
        return f"<{self.width} x {scalar}>" if vector else scalar

    def name(self) -> str:
        """Return an unused name for an LLVM value."""
        self._names += 1
        return f"%v{self._names}"

    def label(self, hint: str) -> str:
        """Return an unused label; ``hint`` is a part of it."""
        self._labels += 1
        return f"{hint}{self._labels}"

    def let(self, expression: str) -> str:
        """Write ``name = expression`` unless it was written before; return the name."""
        added = self._fold_addition(expression) if expression.startswith("add i") else None
        if added is not None:
            number, away, type_ = added
            if not away:
                return number
            expression = f"add {type_} {number}, {away}"
        lasting = self._lines is self.prologue
        name = self.known.find(expression, lasting=lasting)
        if name is None:
            name = self.name()
            if self._touching is not None and not lasting:
                self._read_at[name] = len(self.body)
            self._write(f"{name} = {expression}")
            self.known.add(expression, name, lasting=lasting)
        elif self._touching is not None and name in self._read_at:
            self._read_for_others(self._read_at[name], self._touching)
        if added is not None:
            self._distances[name] = added[:2]
        return name

    def _fold_addition(self, expression: str) -> tuple[str, int, str] | None:
        """Fold a scalar ``add`` of a constant into a preceding one.

        Return the value, the total constant and the type, so that equal sums of different origin
        share one name; None for other expressions.
        """
        _, type_, number, distance = expression.split(" ")
        digits = distance.removeprefix("-")
        if not digits.isdecimal() or not number.startswith("%"):
            return None
        number, away = number.removesuffix(","), int(distance)
        number, earlier_distance = self._distances.get(number, (number, 0))
        bits = int(type_.removeprefix("i"))
        away = (away + earlier_distance) % (1 << bits)
        return number, away - (away >> bits - 1 << bits), type_

    def _read_for_others(self, place: int, touching: Touched) -> None:
        if self.touched.get(place, touching) != touching:
            self.touched[place] = (None, touching[1])

    def do(self, statement: str) -> None:
        """Write an instruction without a result, or one whose result is named by the caller."""
        self.known.record_statement(statement)
        self._write(statement)

    def _write(self, statement: str) -> None:
        if self._touching is not None and self._lines is self.body and _touches(statement):
            self.touched[len(self.body)] = self._touching
        location = self.shared.location(self.word + 1, self._subprogram)
        self._lines.append(f"  {statement}, !dbg !{location}")

    def begin(self, label: str, *, follows: bool = False) -> None:
        """Start a basic block. ``follows`` states that all paths to this block lead through the
        preceding text.
        """
        if not follows:
            self.known.forget()
        self.body.append(f"{label}:")
        self.block_label = label

    def jump(self, label: str) -> None:
        """Write an unconditional branch."""
        self.do(f"br label %{label}")

    def branch(self, condition: str, yes: str, no: str) -> None:
        """Write a conditional branch."""
        self.do(f"br i1 {condition}, label %{yes}, label %{no}")

    def reserve(self) -> int:
        """Reserve a line of the text, which ``fill`` writes later. Return the position of the
        line.
        """
        self.body.append("")
        return len(self.body) - 1

    def fill(self, place: int, name: str, type_: str, ways: Iterable[tuple[str, str]]) -> None:
        """Write a phi of (value, label) pairs into the line at ``place``, which ``reserve``
        returned.
        """
        self.body[place] = f"  {name} = {_phi(type_, ways)}"

    def phi(self, type_: str, *ways: tuple[str, str]) -> str:
        """Write a phi of (value, label) pairs here."""
        name = self.name()
        self.body.append(f"  {name} = {_phi(type_, ways)}")
        return name

    def call(self, result: str, function: str, *arguments: tuple[str, str]) -> str:
        """Call an intrinsic and declare it; arguments are (type, value)."""
        types = ", ".join(type_ for type_, _ in arguments)
        self.shared.declarations.add(f"declare {result} @{function}({types})")
        text = f"call {result} @{function}({', '.join(f'{t} {v}' for t, v in arguments)})"
        if result == "void":
            self.do(text)
            return ""
        return self.let(text)

    def prefetch(self, pointer: str) -> None:
        """Write an instruction that prefetches the cache line at ``pointer`` into the data cache.
        The line is expected to be read repeatedly.
        """
        self.call(
            "void",
            "llvm.prefetch.p0",
            ("ptr", pointer),
            ("i32", "0"),
            ("i32", "3"),
            ("i32", "1"),
        )

    def intrinsic(self, stem: str, scalar: str, vector: bool, *values: str) -> str:
        """Call the intrinsic ``llvm.<stem>.<type>``. Its operands and its result have the same
        type.
        """
        type_ = self.type_of(scalar, vector)
        suffix = self.mangle(scalar, self.width if vector else 0)
        return self.call(type_, f"llvm.{stem}.{suffix}", *((type_, value) for value in values))

    @staticmethod
    def mangle(scalar: str, lanes: int) -> str:
        """Return the suffix that a type has in the names of intrinsics. ``lanes`` is the number of
        lanes of a vector, or 0 for a scalar.
        """
        short = {"half": "f16", "float": "f32", "double": "f64"}.get(scalar, scalar)
        return f"v{lanes}{short}" if lanes else short

    def splat(self, scalar: str, value: str) -> str:
        """Return a vector whose lanes all have ``value``; a constant remains a constant."""
        if not value.startswith("%"):
            return f"splat ({scalar} {value})"
        type_ = self.type_of(scalar, vector=True)
        first = self.let(f"insertelement {type_} poison, {scalar} {value}, i64 0")
        zeros = f"<{self.width} x i32> zeroinitializer"
        return self.let(f"shufflevector {type_} {first}, {type_} poison, {zeros}")

    def lanes(self, scalar: str, patterns: Iterable[int]) -> str:
        """Return a constant vector, given the lanes' bit patterns."""
        return "<" + ", ".join(f"{scalar} {constant(p, scalar)}" for p in patterns) + ">"

    def const(self, pattern: int, scalar: str, vector: bool) -> str:
        """Return a constant as text; for a vector, it is equal in all lanes."""
        value = constant(pattern, scalar)
        return f"splat ({scalar} {value})" if vector else value

    def select(self, condition: str, yes: str, no: str, scalar: str, vector: bool) -> str:
        """Write ``condition ? yes : no``, lane by lane for a vector."""
        type_, flags = self.type_of(scalar, vector), self.type_of("i1", vector)
        return self.let(f"select {flags} {condition}, {type_} {yes}, {type_} {no}")

    def flags_to_integers(self, flags: str, scalar: str) -> str:
        """Return a vector that has 1 in each lane whose flag is set, and 0 in the other lanes.

        The code is a select, not an extension. If vectors of flags are legal (AVX-512), LLVM's
        combiner may turn ``a + zext f`` into ``a - sext f`` and back, endlessly. This happens if
        the combiner already knows that no flag is set, but has not folded the flags yet.
        """
        return self.select(flags, self.const(1, scalar, True), "zeroinitializer", scalar, True)

    @contextmanager
    def in_pairs(self, vector: bool) -> Iterator[None]:
        """Within the ``with`` block, write operations that treat each element as two halves.

        A vector then has two elements per lane, and a scalar becomes a vector of two elements.
        """
        outer = self.width
        self.width = 2 * outer if vector else 2
        try:
            yield
        finally:
            self.width = outer

    @contextmanager
    def marking_accesses(self, part: int | None, memory: str) -> Iterator[None]:
        """Within the ``with`` block, mark each access that is written. The mark states that the
        access is one to ``memory``, and that the vector ``part`` makes it (None: all vectors
        make it).

        ``vector_order`` reads the marks. An access to unknown memory ("") is not marked and
        keeps its position.
        """
        outer, self._touching = self._touching, (part, memory) if memory else None
        try:
            yield
        finally:
            self._touching = outer

    @contextmanager
    def in_prologue(self) -> Iterator[None]:
        """Within the ``with`` block, write to the prologue."""
        outer, self._lines = self._lines, self.prologue
        try:
            yield
        finally:
            self._lines = outer


def _touches(statement: str) -> bool:
    """Return whether an instruction reads or writes memory that may change."""
    instruction = statement.partition(" = ")[2] if statement.startswith("%") else statement
    if instruction.startswith("load "):
        return "!invariant.load" not in instruction
    return instruction.startswith("store ") or "@llvm.masked." in instruction


def _phi(type_: str, ways: Iterable[tuple[str, str]]) -> str:
    return f"phi {type_} " + ", ".join(f"[ {value}, %{label} ]" for value, label in ways)
