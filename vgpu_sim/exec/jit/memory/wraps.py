"""Rows unless an index wraps around (``Row``): lanes whose extended 32-bit numbers may.

``a[row * n + k + tid.x]`` is a row of memory in all but the lanes where its 32 bits wrap around.
Where a group may start over, that is tested once for all accesses (``Extended``).
Behind a barrier that others have come to, or in a loop with one, a group may not: there an address
is a vector of which is known what it would be if nothing wrapped (``Vector.hoped``). An access
computes the first lane's address once more, as a scalar, and asks on the way whether a lane of its
strip wraps: one comparison a strip, where to look at all lanes' addresses takes ten instructions.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from vgpu_sim.exec.jit.analysis import assumptions
from vgpu_sim.exec.jit.ir.ssa import Operation, Source, Value
from vgpu_sim.exec.jit.memory.access import Access, Where
from vgpu_sim.exec.jit.numbers import fold
from vgpu_sim.exec.jit.shapes.lane_shapes import Vector, scalar_of, signed
from vgpu_sim.exec.jit.text.writer import integer
from vgpu_sim.exec.jit.values import assumption_tests
from vgpu_sim.exec.jit.values.environment import Form, Values
from vgpu_sim.isa import DataType, MulMode, Op

_MOST_PARTS: Final = 8


@dataclass(frozen=True, slots=True)
class Firsts:
    """The address of each strip's first lane, and whether some lane may wrap around."""

    addresses: tuple[str, ...]
    wrapped: str


def firsts(values: Values, access: Access) -> Firsts | None:
    """Write what tells whether an access is one of rows; None: it is none, or cannot be told."""
    size = access.element_bytes * access.count
    if not assumptions.is_row(access.shape, size, values.text.width):
        return None
    if access.where is not Where.GLOBAL:
        return None
    found = _Strip(values, 0)
    leaves = list(found.leaves(access.address))
    if None in leaves or not all(is_at_hand(values, leaf) for leaf in leaves):
        return None
    addresses, tests = [], list[str]()
    for strip in range(values.strips):
        one = _Strip(values, strip)
        addresses.append(one.read(access.address, 64))
        tests += one.tests
    return Firsts(tuple(addresses), assumption_tests.any_of(values.text, tests))


def is_at_hand(values: Values, source: Source | None) -> bool:
    """Return whether a strip's scalar can be read here."""
    if not isinstance(source, Value):
        return True
    return is_readable(values, source) and values.form_of(source) is not Form.VECTOR


def is_readable(values: Values, source: Value) -> bool:
    """Return whether a value can be read here: those of a part of the code are forgotten."""
    known = values.form_of(source) is None or source in values.held
    return known and values.shape(source, source.bits) == values.analysis.shapes[source]


class _Strip:
    """Numbers of a strip's first lane. ``tests`` are whether a widening on the way wraps around."""

    def __init__(self, values: Values, strip: int) -> None:
        self._values = values
        self._strip = strip
        self.tests: list[str] = []
        self._parts = 0

    def leaves(self, source: Source) -> Iterator[Source | None]:
        """Yield what a number is made of, None for what cannot be said again."""
        if not self._hoped(source):
            yield source
            return
        node = self._definition(source)
        self._parts += 1
        if node is None or self._parts > _MOST_PARTS:
            yield None
        elif _widens(node):
            yield from node.sources[:1] if node.instruction.op is Op.CVT else self._factors(node)
            if node.instruction.op is Op.MAD:
                yield from self.leaves(node.sources[2])
        elif node.instruction.op in (Op.ADD, Op.SUB, Op.MOV):
            for operand in node.sources:
                yield from self.leaves(operand)
        elif node.instruction.op is Op.SHL and self._known(node.sources[1], 32) is not None:
            yield from self.leaves(node.sources[0])
        else:
            yield None

    def read(self, source: Source, bits: int) -> str:
        """Return the first lane's number, of which ``leaves`` has yielded all parts."""
        values, text, scalar = self._values, self._values.text, integer(bits)
        if not self._hoped(source):
            return values.read(source, scalar, Form.SCALAR, self._strip)
        node = self._definition(source)
        assert node is not None
        op = node.instruction.op
        if op is Op.CVT:
            return self._widened(node.sources[0], node.instruction.source_type)
        if _widens(node):
            number, factor = self._factors(node)
            known = self._known(factor, node.instruction.type.bits)
            assert known is not None
            if node.instruction.type.is_signed:
                known = signed(known, node.instruction.type.bits)
            wide = self._widened(number, node.instruction.type)
            product = text.let(f"mul i64 {wide}, {known}")
            if op is Op.MUL:
                return product
            return text.let(f"add i64 {product}, {self.read(node.sources[2], 64)}")
        first = self.read(node.sources[0], bits)
        if op is Op.MOV:
            return first
        if op is Op.SHL:
            count = self._known(node.sources[1], 32)
            return text.let(f"shl {scalar} {first}, {count}")
        second = self.read(node.sources[1], bits)
        return text.let(f"{op.name.lower()} {scalar} {first}, {second}")

    def _hoped(self, source: Source) -> bool:
        if not isinstance(source, Value):
            return False
        return isinstance(self._values.shape(source, source.bits), Vector)

    def _definition(self, source: Source) -> Operation | None:
        """Return what computes a number of 64 bits of which is known what it would be."""
        assert isinstance(source, Value)
        shape = self._values.shape(source, source.bits)
        node = self._values.analysis.ssa.definition.get(source)
        if not isinstance(shape, Vector) or shape.hoped is None or not isinstance(node, Operation):
            return None
        type_ = fold.result_type(node.instruction)
        whole = type_.is_integer and type_.bits == source.bits == 64
        return node if whole and not node.instruction.saturate else None

    def _known(self, source: Source, bits: int) -> int | None:
        return scalar_of(self._values.shape(source, bits))

    def _factors(self, node: Operation) -> tuple[Source, Source]:
        """Return the factor that differs by lane, and the known one."""
        a, b = node.sources[:2]
        bits = node.instruction.type.bits
        return (a, b) if self._known(b, bits) is not None else (b, a)

    def _widened(self, source: Source, kind: DataType | None) -> str:
        """Return a number of 32 bits extended; note whether a lane's wraps around."""
        assert kind is not None
        text, narrow = self._values.text, integer(kind.bits)
        number = self._values.read(source, narrow, Form.SCALAR, self._strip)
        self.tests.append(assumption_tests.wrapped(self._values, source, kind, 0, self._strip))
        extension = "sext" if kind.is_signed else "zext"
        return text.let(f"{extension} {narrow} {number} to i64")


def _widens(node: Operation) -> bool:
    """Return whether a node extends a number of 32 bits to 64."""
    instruction = node.instruction
    if instruction.op is Op.CVT:
        source = instruction.source_type
        return source is not None and source.is_integer and source.bits == 32
    return instruction.mode is MulMode.WIDE and instruction.op in (Op.MUL, Op.MAD)
