"""Assembly of one function: its header, labels and instructions (syntax: see ``asm``)."""

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

from vgpu_sim.isa import mnemonic
from vgpu_sim.isa.errors import AssemblyError
from vgpu_sim.isa.instruction import (
    Destination,
    Guard,
    Instruction,
    Literal,
    Operand,
    Predicate,
    Register,
    Symbol,
)
from vgpu_sim.isa.module import Function, Parameter, PhysicalAllocation
from vgpu_sim.isa.rules import MATRICES
from vgpu_sim.isa.spec import OpSpec, Role
from vgpu_sim.isa.table import TABLE
from vgpu_sim.isa.tokens import Line, Token
from vgpu_sim.isa.types import Space, SpecialRegister
from vgpu_sim.isa.verify import MAXIMUM_REGISTERS

_INDEXED: Final = re.compile(r"([rp])(0|[1-9][0-9]{0,5})", re.ASCII)
_COUNTS: Final = {
    ".parameter_bytes": "parameter_bytes",
    ".predicates": "predicate_count",
    ".shared": "shared_bytes",
    ".local": "local_bytes",
    ".maximum_cluster": "maximum_cluster",
}
_BLOCKS: Final = {
    ".required_block": "required_block",
    ".maximum_block": "maximum_block",
    ".required_cluster": "required_cluster",
}
_Place = tuple[int, int]
_T = TypeVar("_T")


class FunctionParser:
    """Parses the lines after ``.function`` up to the closing brace."""

    def __init__(self, name: str, line: int, column: int) -> None:
        self.name = name
        self._header_place = (line, column)
        self._fields: dict[str, Any] = {"parameter_bytes": 0, "predicate_count": 0}
        self._parameters: list[Parameter] = []
        self._register_bits: list[int] = []
        self._code: list[dict[str, Any]] = []
        self._lines: list[int] = []
        self._places: list[_Place] = []
        self._labels: dict[str, int] = {}
        self._branches: list[tuple[int, str, _Place]] = []
        self._open = False

    def read(self, line: Line) -> bool:
        """Parse a line of a function; return True when the line closes the function."""
        if line.accept("}"):
            if not self._open:
                raise line.fail("the function has no body")
            line.finish()
            return True
        if self._open:
            self._statement(line)
        elif line.accept("{"):
            self._open = True
        else:
            self._directive(line)
        line.finish()
        return False

    def finish(self) -> Function:
        """Return the function with its branches resolved; it is not verified yet."""
        for word, label, (line, column) in self._branches:
            if label not in self._labels:
                raise AssemblyError(line, column, f"label {label!r} is not defined")
            self._code[word]["target"] = self._labels[label]
        return Function(
            name=self.name,
            parameters=tuple(self._parameters),
            register_bits=tuple(self._register_bits),
            code=tuple(Instruction(**fields) for fields in self._code),
            lines=tuple(self._lines),
            **self._fields,
        )

    def position_of(self, word: int | None) -> _Place:
        """Return the line and the column of the instruction with index ``word``. If ``word`` is
        None, return the position of the function.
        """
        return self._header_place if word is None else self._places[word]

    def _directive(self, line: Line) -> None:
        token = line.next("directive", "a directive or '{'")
        name = token.text
        if name in _COUNTS:
            self._fields[_COUNTS[name]] = line.integer()
        elif name in _BLOCKS:
            self._fields[_BLOCKS[name]] = (line.integer(), line.integer(), line.integer())
        elif name == ".counts_clusters":
            self._fields["counts_clusters"] = True
        elif name == ".parameter":
            self._parameters.append(_parameter(line))
        elif name == ".tensor_memory":
            self._fields["tensor_memory"] = True
        elif name == ".parameter_image":
            self._fields["parameter_image"] = line.name()
        elif name == ".registers":
            self._registers(line)
        elif name == ".physical":
            self._fields["physical"] = _physical(line)
        else:
            raise line.fail(f"unknown directive {name}", token)

    def _registers(self, line: Line) -> None:
        token = line.current
        first = _register(line)
        line.expect("-")
        last = _register(line)
        if first != len(self._register_bits) or last < first:
            reason = f"expected a range from r{len(self._register_bits)} on"
            raise line.fail(reason, token)
        if last >= MAXIMUM_REGISTERS:
            raise line.fail(f"more than {MAXIMUM_REGISTERS} registers", token)
        self._register_bits += [line.integer()] * (last + 1 - first)

    def _statement(self, line: Line) -> None:
        guard = _guard(line)
        token = line.next("word", "a label or an opcode")
        if guard is None and line.accept(":"):
            if token.text in self._labels:
                raise line.fail(f"label {token.text!r} is defined twice", token)
            self._labels[token.text] = len(self._code)
            return
        try:
            fields = mnemonic.parse(token.text)
        except ValueError as error:
            raise line.fail(str(error), token) from None
        self._places.append((line.number, token.column))
        self._code.append(fields | {"guard": guard})
        self._lines.append(line.ptx_line)
        self._operands(line, self._code[-1])

    def _operands(self, line: Line, fields: dict[str, Any]) -> None:
        spec = TABLE[fields["op"]]
        if spec.has("target"):
            token = line.next("word", "a label")
            place = line.number, token.column
            self._branches.append((len(self._code) - 1, token.text, place))
        elif not line.empty:
            _plain_operands(line, spec, fields)


def _plain_operands(line: Line, spec: OpSpec, fields: dict[str, Any]) -> None:
    if spec.dsts:
        fields["dsts"] = _destinations(line, spec)
        if line.empty and Role.ADDRESS not in spec.srcs:
            return
        line.expect(",")
    if spec.has("sreg"):
        token = line.next("word", "a special register")
        if token.text not in SpecialRegister.__members__:
            raise line.fail(f"unknown special register {token.text!r}", token)
        fields["sreg"] = SpecialRegister[token.text]
        return
    sources: tuple[Operand, ...] = ()
    roles = iter(spec.srcs)
    while True:
        role = next(roles, None)
        if role is Role.ADDRESS:
            base, fields["displacement"] = _address(line, fields)
            sources += base
        elif role in (Role.DATA, Role.WAY, Role.SWAPPED, *MATRICES):
            sources += _vector(line, _operand)
        else:
            sources += (_operand(line),)
        if not line.accept(","):  # the verifier checks that all operands are present
            break
    fields["srcs"] = sources


def _destinations(line: Line, spec: OpSpec) -> tuple[Destination, ...]:
    if Role.DATA in spec.dsts or Role.TOTALS in spec.dsts:
        return _vector(line, _destination)
    destinations = [_destination(line)]
    if line.accept("|"):
        destinations.append(_destination(line))
    elif spec.dsts[-1] in (Role.INVERSE, Role.CARRY):
        destinations.append(None)
    return tuple(destinations)


def _guard(line: Line) -> Guard | None:
    if not line.accept("@"):
        return None
    negated = line.accept("!")
    token = line.next("word", "a predicate")
    place = _parse_indexed(token)
    if not isinstance(place, Predicate):
        raise line.fail(f"{token.text!r} is not a predicate", token)
    return Guard(place, negated)


def _parse_indexed(token: Token) -> Register | Predicate | None:
    match = _INDEXED.fullmatch(token.text)
    if match is None:
        return None
    index = int(match.group(2))
    return Register(index) if match.group(1) == "r" else Predicate(index)


def _register(line: Line) -> int:
    token = line.next("word", "a register")
    place = _parse_indexed(token)
    if not isinstance(place, Register):
        raise line.fail(f"{token.text!r} is not a register", token)
    return place.index


def _destination(line: Line) -> Destination:
    token = line.next("word", "a register or predicate")
    place = None if token.text == "_" else _parse_indexed(token)
    if place is None and token.text != "_":
        raise line.fail(f"{token.text!r} is not a register or predicate", token)
    return place


def _operand(line: Line) -> Operand:
    token = line.current
    if line.accept("&"):
        return _symbol(line)
    if token.kind == "word":
        place = _destination(line)
        if place is None:
            raise line.fail("a source operand must not be absent", token)
        return place
    value = line.integer()
    if not -(1 << 63) <= value < 1 << 64:
        raise line.fail(f"{value} does not fit 64 bits", token)
    return Literal(value & (1 << 64) - 1)


def _symbol(line: Line) -> Symbol:
    if not line.accept("("):
        return Symbol(line.name())
    symbol = Symbol(line.name(), line.integer())
    line.expect(")")
    return symbol


def _vector(line: Line, element: Callable[[Line], _T]) -> tuple[_T, ...]:
    if not line.accept("{"):
        return (element(line),)
    elements = [element(line)]
    while line.accept(","):
        elements.append(element(line))
    line.expect("}")
    return tuple(elements)


def _address(line: Line, fields: dict[str, Any]) -> tuple[tuple[Operand, ...], int]:
    line.expect("[")
    base: tuple[Operand, ...] = ()
    displacement = 0
    if fields.get("space") is Space.PARAM:
        displacement = line.integer()
    else:
        base = (_operand(line),)
        if line.current.text in ("+", "-"):
            displacement = line.integer()
    line.expect("]")
    return base, displacement


def _parameter(line: Line) -> Parameter:
    name = line.name()
    line.expect("offset")
    offset = line.integer()
    line.expect("size")
    size = line.integer()
    line.expect("align")
    align = line.integer()
    space = None
    if line.accept("pointer"):
        space = parse_space(line)
    return Parameter(name, offset, size, align, space)


def _physical(line: Line) -> PhysicalAllocation:
    line.expect("peak")
    peak = line.integer()
    line.expect("spill")
    spill = line.integer()
    line.expect("slots")
    slots = []
    while not line.empty:
        slots.append(line.integer())
    return PhysicalAllocation(tuple(slots), peak, spill)


def parse_space(line: Line) -> Space:
    """Parse the name of an address space in assembly text."""
    token = line.next("word", "an address space")
    if token.text not in Space.__members__:
        raise line.fail(f"unknown address space {token.text!r}", token)
    return Space[token.text]
