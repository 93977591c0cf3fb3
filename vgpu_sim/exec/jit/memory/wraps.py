"""Rows unless an index wraps around (``Row``), tested at the access.

``a[row * n + k + tid.x]`` is a row of memory except in lanes whose 32-bit index wraps around. If a
group may start over, this is tested once for all accesses (``Extended``).

After a barrier at which other groups have arrived, or in a loop with one, a group may not start
over: there an address is a vector, of which the shape without wrapping is known
(``Vector.without_wrap``). An access recomputes the first lane's address as a scalar, and tests
meanwhile whether a lane of its vector wraps: one comparison per vector, whereas a test of all
lanes' addresses takes ten instructions.
"""

from collections.abc import Iterator
from typing import Final

from vgpu_sim.exec.jit.analysis import assumptions
from vgpu_sim.exec.jit.ir.ssa import Operation, Source, Value
from vgpu_sim.exec.jit.memory.access import Access, Where
from vgpu_sim.exec.jit.numbers import fold
from vgpu_sim.exec.jit.shapes.lane_shapes import Vector, scalar_of, to_signed
from vgpu_sim.exec.jit.text.writer import integer
from vgpu_sim.exec.jit.values import assumption_tests
from vgpu_sim.exec.jit.values.environment import Form, Values
from vgpu_sim.isa import DataType, MulMode, Op
from vgpu_sim.records import dataclass

_MOST_TERMS: Final = 8


@dataclass(frozen=True, slots=True)
class Firsts:
    """The address of the first lane of each vector, and a flag: whether any lane may wrap
    around.
    """

    addresses: tuple[str, ...]
    wrapped: str


def first_lane_addresses(values: Values, access: Access) -> Firsts | None:
    """Emit the addresses of the first lanes of a row access, with tests for wrap-around.

    Return None if the access cannot be treated as a row here.
    """
    size = access.element_bytes * access.count
    if not assumptions.is_row(access.shape, size, values.text.width):
        return None
    if access.where is not Where.GLOBAL:
        return None
    first_lane = _FirstLane(values, 0)
    leaves = list(first_lane.leaves(access.address))
    if None in leaves or not all(is_at_hand(values, leaf) for leaf in leaves):
        return None
    addresses, tests = [], list[str]()
    for part in range(values.vectors):
        vector_lane = _FirstLane(values, part)
        addresses.append(vector_lane.read(access.address, 64))
        tests += vector_lane.tests
    return Firsts(tuple(addresses), assumption_tests.any_of(values.text, tests))


def is_at_hand(values: Values, source: Source | None) -> bool:
    """Return whether a value is available as a scalar at this point of the text."""
    if not isinstance(source, Value):
        return True
    return is_readable(values, source) and values.form_of(source) is not Form.VECTOR


def is_readable(values: Values, source: Value) -> bool:
    """Return whether a value is available at this point of the text.

    A value that is computed in a conditional region is not available after the region.
    """
    known = values.form_of(source) is None or source in values.held
    return known and values.shape(source, source.bits) == values.analysis.shapes[source]


class _FirstLane:
    """The values of a vector's first lane. ``tests`` show whether an extension of one wraps
    around.
    """

    def __init__(self, values: Values, part: int) -> None:
        self._values = values
        self._part = part
        self.tests: list[str] = []
        self._terms = 0

    def leaves(self, source: Source) -> Iterator[Source | None]:
        """Yield the values from which ``source`` can be recomputed.

        Yield None among them if it cannot be recomputed.
        """
        if not self._has_shape_without_wrap(source):
            yield source
            return
        node = self._definition(source)
        self._terms += 1
        if node is None or self._terms > _MOST_TERMS:
            yield None
        elif _widens(node):
            yield from node.sources[:1] if node.instruction.op is Op.CVT else self._factors(node)
            if node.instruction.op is Op.MAD:
                yield from self.leaves(node.sources[2])
        elif node.instruction.op in (Op.ADD, Op.SUB, Op.MOV):
            for operand in node.sources:
                yield from self.leaves(operand)
        elif node.instruction.op is Op.SHL and self._constant(node.sources[1], 32) is not None:
            yield from self.leaves(node.sources[0])
        else:
            yield None

    def read(self, source: Source, bits: int) -> str:
        """Return the first lane's value, recomputed from ``leaves``."""
        values, text, scalar = self._values, self._values.text, integer(bits)
        if not self._has_shape_without_wrap(source):
            return values.read(source, scalar, Form.SCALAR, self._part)
        node = self._definition(source)
        assert node is not None
        op = node.instruction.op
        if op is Op.CVT:
            return self._widen(node.sources[0], node.instruction.source_type)
        if _widens(node):
            number, factor = self._factors(node)
            known = self._constant(factor, node.instruction.type.bits)
            assert known is not None
            if node.instruction.type.is_signed:
                known = to_signed(known, node.instruction.type.bits)
            wide = self._widen(number, node.instruction.type)
            product = text.let(f"mul i64 {wide}, {known}")
            if op is Op.MUL:
                return product
            return text.let(f"add i64 {product}, {self.read(node.sources[2], 64)}")
        first = self.read(node.sources[0], bits)
        if op is Op.MOV:
            return first
        if op is Op.SHL:
            count = self._constant(node.sources[1], 32)
            return text.let(f"shl {scalar} {first}, {count}")
        second = self.read(node.sources[1], bits)
        return text.let(f"{op.name.lower()} {scalar} {first}, {second}")

    def _has_shape_without_wrap(self, source: Source) -> bool:
        if not isinstance(source, Value):
            return False
        return isinstance(self._values.shape(source, source.bits), Vector)

    def _definition(self, source: Source) -> Operation | None:
        """Return the operation that computes a 64-bit value whose shape without wrapping is
        known.
        """
        assert isinstance(source, Value)
        shape = self._values.shape(source, source.bits)
        node = self._values.analysis.ssa.definition.get(source)
        if (
            not isinstance(shape, Vector)
            or shape.without_wrap is None
            or not isinstance(node, Operation)
        ):
            return None
        type_ = fold.result_type(node.instruction)
        whole = type_.is_integer and type_.bits == source.bits == 64
        return node if whole and not node.instruction.saturate else None

    def _constant(self, source: Source, bits: int) -> int | None:
        return scalar_of(self._values.shape(source, bits))

    def _factors(self, node: Operation) -> tuple[Source, Source]:
        """Return the factor that varies over lanes, and the constant one."""
        a, b = node.sources[:2]
        bits = node.instruction.type.bits
        return (a, b) if self._constant(b, bits) is not None else (b, a)

    def _widen(self, source: Source, kind: DataType | None) -> str:
        """Extend a 32-bit value of the first lane; add a test for lanes that wrap around."""
        assert kind is not None
        text, narrow = self._values.text, integer(kind.bits)
        number = self._values.read(source, narrow, Form.SCALAR, self._part)
        self.tests.append(assumption_tests.wraps_around(self._values, source, kind, 0, self._part))
        extension = "sext" if kind.is_signed else "zext"
        return text.let(f"{extension} {narrow} {number} to i64")


def _widens(node: Operation) -> bool:
    """Return whether a node extends a 32-bit value to 64 bits."""
    instruction = node.instruction
    if instruction.op is Op.CVT:
        source = instruction.source_type
        return source is not None and source.is_integer and source.bits == 32
    return instruction.mode is MulMode.WIDE and instruction.op in (Op.MUL, Op.MAD)
