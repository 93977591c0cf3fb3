"""A reader from PTX text to a list of statements, independent of the compiler.

It reads the output of the random kernel generator and hand-written kernels of that kind: one
entry, its parameters, registers and labels, and arrays in ``.global`` or ``.const`` space. It
shares no code with the product's compiler, so that it can find the compiler's defects.
"""

import re
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"\s+|//[^\n]*|/\*.*?\*/"
    r"|(?P<float>0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16})"
    r"|(?P<integer>0[xX][0-9a-fA-F]+U?|[0-9]+(?![0-9.])U?)"
    r"|(?P<number>[0-9]+\.[0-9]+)"
    r"|(?P<word>[.%$_A-Za-z][.%$\w:]*(?<!:))"
    r"|(?P<mark>[@!{}\[\](),;:|+\-<>=])",
    re.DOTALL,
)
WIDTHS = {"pred": 1} | {f"{kind}{bits}": bits for kind in "bus" for bits in (8, 16, 32, 64)}
WIDTHS |= {"f16": 16, "f32": 32, "f64": 64}


class SyntaxFault(Exception):
    """Text that this reader does not understand."""


@dataclass(frozen=True)
class Number:
    """A constant; ``float_bits`` is 32 or 64 for the patterns of floating-point constants."""

    value: int
    float_bits: int = 0


@dataclass(frozen=True)
class Address:
    """``[base + displacement]``; the base is a name or a number."""

    base: "str | Number"
    displacement: int


@dataclass(frozen=True)
class Several:
    """``{a, b, ...}`` or ``p|q``."""

    parts: tuple["Operand", ...]


@dataclass(frozen=True)
class Inverse:
    """``!p``."""

    name: str


@dataclass(frozen=True)
class Negative:
    """``-r``."""

    operand: str


Operand = str | Number | Address | Several | Inverse | Negative


@dataclass(frozen=True)
class Statement:
    """One instruction: opcode and modifiers as dotted words, its guard as (predicate, negated)."""

    words: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: tuple[str, bool] | None


@dataclass
class Kernel:
    """The parsed module. ``labels`` maps a label to the index of the next statement, ``shared`` a
    variable to its address in shared memory.
    """

    parameters: dict[str, tuple[int, int]] = field(default_factory=dict)
    parameter_bytes: int = 0
    registers: dict[str, int] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)
    variables: dict[str, bytes] = field(default_factory=dict)
    shared: dict[str, int] = field(default_factory=dict)
    shared_bytes: int = 0
    local: dict[str, int] = field(default_factory=dict)
    local_bytes: int = 0
    functions: dict[str, "Kernel"] = field(default_factory=dict)
    returns: list[str] = field(default_factory=list)  # if it is a function: registers
    takes: list[str] = field(default_factory=list)


def read(source: str) -> Kernel:
    """Read a module with one kernel.

    Raises:
        SyntaxFault: names the token that was not understood.
    """
    return _Reader(_tokens(source)).module()


def _tokens(source: str) -> list[tuple[str, str]]:
    found, place = [], 0
    while place < len(source):
        match = _TOKEN.match(source, place)
        if match is None:
            raise SyntaxFault(f"at {source[place : place + 20]!r}")
        if match.lastgroup:
            found.append((match.lastgroup, match[0]))
        place = match.end()
    return found


class _Reader:
    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._place = 0
        self._kernel = Kernel()

    def module(self) -> Kernel:
        while self._place < len(self._tokens):
            word = self._next()
            if word in (".version", ".address_size"):
                self._next()
            elif word == ".target":
                self._next()
                while self._take(","):
                    self._next()
            elif word == ".entry":
                self._entry()
            elif word == ".func":
                self._function()
            elif word in (".global", ".const"):
                self._variable()
            elif word not in (".visible", ".weak", ".extern"):
                raise SyntaxFault(f"unexpected {word!r}")
        return self._kernel

    def _next(self) -> str:
        if self._place >= len(self._tokens):
            raise SyntaxFault("the text ends too soon")
        self._place += 1
        return self._tokens[self._place - 1][1]

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._place] if self._place < len(self._tokens) else ("", "")

    def _take(self, mark: str) -> bool:
        if self._peek()[1] == mark:
            self._place += 1
            return True
        return False

    def _expect(self, mark: str) -> None:
        if not self._take(mark):
            raise SyntaxFault(f"expected {mark!r}, found {self._peek()[1]!r}")

    def _width(self, word: str) -> int:
        if word[1:] not in WIDTHS:
            raise SyntaxFault(f"{word!r} is no type")
        return WIDTHS[word[1:]]

    def _integer(self) -> int:
        minus = self._take("-")
        kind, text = self._peek()
        if kind != "integer":
            raise SyntaxFault(f"expected an integer, found {text!r}")
        value = int(self._next().rstrip("U"), 0)
        return -value if minus else value

    def _variable(self) -> None:
        if self._take(".align"):
            self._next()
        size = self._width(self._next()) // 8
        name = self._next()
        self._expect("[")
        count = self._integer()
        self._expect("]")
        values = []
        if self._take("="):
            self._expect("{")
            while not self._take("}"):
                values.append(self._integer())
                self._take(",")
        self._expect(";")
        data = b"".join((v & ((1 << 8 * size) - 1)).to_bytes(size, "little") for v in values)
        self._kernel.variables[name] = data.ljust(count * size, b"\0")

    def _function(self) -> None:
        """Read a function whose parameters and results are registers, defined or declared."""
        outer, function = self._kernel, Kernel()
        function.functions = outer.functions
        self._kernel = function
        function.returns = self._formals()
        name = self._next()
        function.takes = self._formals()
        if not self._take(";"):
            outer.functions[name] = function
            self._expect("{")
            while not self._take("}"):
                self._body()
        self._kernel = outer

    def _formals(self) -> list[str]:
        names = []
        self._expect("(")
        while not self._take(")"):
            self._expect(".reg")
            width = self._width(self._next())
            names.append(self._next())
            self._kernel.registers[names[-1]] = width
            self._take(",")
        return names

    def _entry(self) -> None:
        self._next()
        self._expect("(")
        offset = 0
        while not self._take(")"):
            self._expect(".param")
            size = self._width(self._next()) // 8
            offset = -(-offset // size) * size
            self._kernel.parameters[self._next()] = (offset, size)
            offset += size
            self._take(",")
        self._kernel.parameter_bytes = offset
        self._expect("{")
        while not self._take("}"):
            self._body()

    def _body(self) -> None:
        if self._take(".reg"):
            self._registers()
            return
        if self._take(".shared"):
            self._shared()
            return
        if self._take(".local"):
            self._local()
            return
        if self._take(".callprototype"):
            while not self._take(";"):
                self._next()
            return
        following = self._tokens[self._place + 1][1] if self._place + 1 < len(self._tokens) else ""
        if following == ":":
            name = self._next()
            if name in self._kernel.labels:
                raise SyntaxFault(f"label {name!r} stands twice")
            self._kernel.labels[name] = len(self._kernel.statements)
            self._expect(":")
            return
        guard = None
        if self._take("@"):
            negated = self._take("!")
            guard = (self._next(), negated)
        words = tuple(self._next().split("."))
        operands = []
        while not self._take(";"):
            operands.append(self._operand())
            if not self._take(","):
                self._expect(";")
                break
        self._kernel.statements.append(Statement(words, tuple(operands), guard))

    def _local(self) -> None:
        name, align, size = self._array()
        address = -(-self._kernel.local_bytes // align) * align
        self._kernel.local[name] = address
        self._kernel.local_bytes = address + size

    def _shared(self) -> None:
        name, align, size = self._array()
        address = -(-self._kernel.shared_bytes // align) * align
        self._kernel.shared[name] = address
        self._kernel.shared_bytes = address + size

    def _array(self) -> tuple[str, int, int]:
        """Read the rest of an array's declaration; return its name, alignment and size in bytes."""
        align = 1
        if self._take(".align"):
            align = self._integer()
        size = self._width(self._next()) // 8
        align = max(align, size)
        name = self._next()
        self._expect("[")
        count = self._integer()
        self._expect("]")
        self._expect(";")
        return name, align, count * size

    def _registers(self) -> None:
        width = self._width(self._next())
        while True:
            name = self._next()
            if self._take("<"):
                for index in range(self._integer()):
                    self._kernel.registers[f"{name}{index}"] = width
                self._expect(">")
            else:
                self._kernel.registers[name] = width
            if not self._take(","):
                break
        self._expect(";")

    def _operand(self) -> Operand:
        if self._take("["):
            base: str | Number = self._next() if self._peek()[0] == "word" else self._number()
            displacement = 0
            if self._take("+") or self._peek()[1] == "-":
                displacement = self._integer()
            self._expect("]")
            return Address(base, displacement)
        if self._take("("):
            listed: list[Operand] = []
            while not self._take(")"):
                listed.append(self._operand())
                self._take(",")
            return Several(tuple(listed))
        if self._take("{"):
            parts = [self._operand()]
            while self._take(","):
                parts.append(self._operand())
            self._expect("}")
            return Several(tuple(parts))
        if self._take("!"):
            return Inverse(self._next())
        following = self._tokens[self._place + 1][0] if self._place + 1 < len(self._tokens) else ""
        if self._peek()[1] == "-" and following == "word":
            self._next()
            return Negative(self._next())
        if self._peek()[0] != "word":
            return self._number()
        name = self._next()
        if self._take("|"):
            return Several((name, self._next()))
        return name

    def _number(self) -> Number:
        if self._peek()[0] == "float":
            text = self._next()
            return Number(int(f"0x{text[2:]}", 0), 32 if text[1] in "fF" else 64)
        return Number(self._integer())
