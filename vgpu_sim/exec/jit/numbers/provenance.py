"""Pointer provenance: which pointer an address is made from, how far from it, in which steps.

A global address is confined once, at the pointer it is made from: a 64-bit kernel parameter or the
module's segment. What is added to that pointer must be a *number* with a known bound, so that the
sum cannot leave the zones around the aperture that are never allocated.

Facts are about typed values. An integer's rule, by opcode, says what is known of its result; an
opcode without a rule, and every result that is not of an integer type, is ``UNKNOWN``: the pattern
of a float is never a bounded number, whatever it was converted from. A register narrower than 64
bits bounds what is read from it, zero-extended, by its width alone.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from vgpu_sim.exec.jit.ir.ssa import Merge, Operation, Phi, Source, SsaFunction, Value, results_of
from vgpu_sim.exec.jit.numbers import fold
from vgpu_sim.exec.jit.numbers.trip_counts import most_trips, step_of
from vgpu_sim.exec.jit.shapes.lane_shapes import signed
from vgpu_sim.isa import (
    DataType,
    Instruction,
    Literal,
    MulMode,
    Op,
    Space,
    SpecialRegister,
    Symbol,
)

BOUND_BYTES = 1 << 37
SEGMENT = -1
WINDOW = -2
_UNBOUNDED = 1 << 63
_MAX_GRAIN = 1 << 12


@dataclass(frozen=True, slots=True)
class Number:
    """``bound``: of the magnitude, as a signed 64-bit number; ``grain``: a power of two that
    divides it."""

    bound: int
    grain: int


@dataclass(frozen=True, slots=True)
class Pointer:
    """A number added to the pointer ``origin``: a parameter's offset, ``SEGMENT``, or ``WINDOW``,
    the generic address of shared memory."""

    origin: int
    bound: int
    grain: int

    def confined(self, displacement: int, size: int) -> bool:
        """Return whether an access of ``size`` bytes is safe once the origin is."""
        return self.bound + abs(displacement) + size <= BOUND_BYTES

    def aligned(self, displacement: int, size: int) -> bool:
        """Return whether the access is a multiple of ``size`` bytes away from the origin."""
        return self.grain % size == 0 and displacement % size == 0


Fact = Number | Pointer
UNKNOWN = Number(_UNBOUNDED, 1)


class Provenance:
    """The facts of one function. ``offsets`` are those of the module's variables."""

    def __init__(self, ssa: SsaFunction, offsets: Mapping[str, int] | None = None) -> None:
        self._ssa = ssa
        self._offsets = offsets or {}
        self._facts: dict[Value, Fact] = {}
        self._window_known = False
        # In the order of the program what a value is made from is known already, but for what
        # comes around a loop, which counts as unknown. So no search goes deep.
        for block in ssa.blocks.values():
            for node in (*block.phis, *block.nodes):
                for place, result in enumerate(results_of(node)):
                    fact = self._find(node) if place == 0 else UNKNOWN
                    self._facts[result] = _cut(fact, result.bits)

    def trace(self, address: Source) -> Pointer | None:
        """Return the pointer that ``address`` is made from, or None where that is not known."""
        fact = self._read(address, 64)
        return fact if isinstance(fact, Pointer) else None

    @property
    def window_known(self) -> bool:
        """Return whether the function asks where the window is, without which no address of it
        gets here: one of shared memory is made in the function that uses it."""
        return self._window_known

    def grain(self, offset: Source) -> int:
        """Return a power of two that divides a 32-bit offset."""
        return self._number(offset, 32).grain

    def _read(self, source: Source, bits: int) -> Fact:
        """Return what is known of an operand of ``bits`` bits."""
        if isinstance(source, Symbol):
            offset = self._offsets.get(source.name)
            if offset is None:
                return _cut(Pointer(SEGMENT, abs(source.addend) + BOUND_BYTES // 4, 1), bits)
            distance = offset + source.addend
            return _cut(Pointer(SEGMENT, abs(distance), _grain_of(distance)), bits)
        if isinstance(source, Literal):
            return _cut(Number(abs(signed(source.bits, 64)), _grain_of(source.bits)), bits)
        return _cut(self._facts.get(source, UNKNOWN), min(bits, source.bits))

    def _number(self, source: Source, bits: int) -> Number:
        fact = self._read(source, bits)
        return fact if isinstance(fact, Number) else UNKNOWN

    def _find(self, node: Phi | Merge | Operation) -> Fact:
        if isinstance(node, Phi):
            return self._phi(node)
        if isinstance(node, Merge):
            return _either([self._read(source, 64) for source in (node.new, node.old)])
        type_ = fold.result_type(node.instruction)
        if not type_.is_integer or node.instruction.saturate:
            return UNKNOWN
        self._window_known |= node.instruction.sreg is SpecialRegister.SHARED_WINDOW
        rule = _RULES.get(node.instruction.op)
        return UNKNOWN if rule is None else _cut(rule(self, node), type_.bits)

    def _phi(self, phi: Phi) -> Fact:
        body = self._ssa.graph.loops.get(phi.block, frozenset())
        around = [source for block, source in phi.arguments.items() if block in body]
        entry = [source for block, source in phi.arguments.items() if block not in body]
        start = _either([self._read(source, 64) for source in entry])
        if not around:
            return start
        if len(around) > 1:
            return UNKNOWN
        step = step_of(self._ssa, around[0], phi.result)
        if step is None:
            return _moved(start, Number(_UNBOUNDED, self._drift(around[0], phi.result)))
        trips = most_trips(self._ssa, phi.block) if step else 0
        reach = _UNBOUNDED if trips is None else abs(step) * trips
        return _moved(start, Number(reach, _grain_of(step)))

    def _drift(self, source: Source, origin: Value) -> int:
        """Return the grain of ``source - origin``, which must be a sum of numbers."""
        grain = _MAX_GRAIN
        while source is not origin:
            node = self._ssa.definition.get(source) if isinstance(source, Value) else None
            if not isinstance(node, Operation) or len(node.results) != 1:
                return 1
            result = node.results[0]
            if result is None or result.bits != origin.bits:
                return 1
            if fold.result_type(node.instruction).bits != origin.bits:
                return 1
            operands = node.sources
            match node.instruction.op:
                case Op.ADD if self._leads_to(operands[1], origin):
                    source, other = operands[1], self._number(operands[0], origin.bits)
                case Op.ADD | Op.SUB:
                    source, other = operands[0], self._number(operands[1], origin.bits)
                case Op.MAD:
                    source, other = operands[2], self._product(node)
                case _:
                    return 1
            if not isinstance(source, Value):
                return 1
            grain = min(grain, other.grain)
        return grain

    def _leads_to(self, source: Source, origin: Value) -> bool:
        return source is origin or step_of(self._ssa, source, origin) is not None

    # The rules: what is known of an integer result. A result is cut to its type by the caller.

    def _load(self, node: Operation) -> Fact:
        instruction = node.instruction
        whole = instruction.type.bits == 64 and instruction.vector == 1
        if instruction.space is Space.PARAM and whole:
            return Pointer(instruction.displacement, 0, _MAX_GRAIN)
        return UNKNOWN

    def _copy(self, node: Operation) -> Fact:
        return self._read(node.sources[0], node.instruction.type.bits)

    def _select(self, node: Operation) -> Fact:
        return _either([self._read(s, node.instruction.type.bits) for s in node.sources[:2]])

    def _sum(self, node: Operation) -> Fact:
        a, b = (self._read(source, node.instruction.type.bits) for source in node.sources)
        return _moved(a, b) if isinstance(b, Number) else _moved(b, a)

    def _difference(self, node: Operation) -> Fact:
        a, b = (self._read(source, node.instruction.type.bits) for source in node.sources)
        if isinstance(a, Pointer) and isinstance(b, Pointer) and a.origin == b.origin:
            return Number(a.bound + b.bound, min(a.grain, b.grain))
        return _moved(a, b) if isinstance(b, Number) else UNKNOWN

    def _negative(self, node: Operation) -> Fact:
        return self._number(node.sources[0], node.instruction.type.bits)

    def _product(self, node: Operation) -> Number:
        instruction = node.instruction
        if instruction.mode is MulMode.HI:
            return UNKNOWN
        a, b = (self._factor(instruction, source) for source in node.sources[:2])
        return Number(a.bound * b.bound, min(a.grain * b.grain, _MAX_GRAIN))

    def _factor(self, instruction: Instruction, source: Source) -> Number:
        bits = instruction.type.bits
        if instruction.mode is MulMode.WIDE and isinstance(source, Literal):
            pattern = source.bits & ((1 << bits) - 1)
            value = signed(pattern, bits) if instruction.type.is_signed else pattern
            return Number(abs(value), _grain_of(value))
        return self._number(source, bits)

    def _product_and_sum(self, node: Operation) -> Fact:
        product = self._product(node)
        addend = self._read(node.sources[2], fold.result_type(node.instruction).bits)
        return _moved(addend, product)

    def _shift_left(self, node: Operation) -> Fact:
        bits = node.instruction.type.bits
        number, count = self._number(node.sources[0], bits), node.sources[1]
        if not isinstance(count, Literal):
            return Number(_UNBOUNDED, number.grain)
        places = count.bits & 0xFFFF_FFFF
        if bits == 64 and places == 32 and self._is_window_half(node.sources[0]):
            return Pointer(WINDOW, 0, _MAX_GRAIN)
        if places >= bits:
            return Number(0, _MAX_GRAIN)
        return Number(number.bound << places, min(number.grain << places, _MAX_GRAIN))

    def _is_window_half(self, source: Source) -> bool:
        """Return whether it is the upper half of the window's address, in 64 bits."""
        node = self._ssa.definition.get(source) if isinstance(source, Value) else None
        if not isinstance(node, Operation) or node.instruction.op is not Op.CVT:
            return False
        half = self._ssa.definition.get(node.sources[0])  # type: ignore[arg-type]
        return (
            node.instruction.source_type is DataType.U32
            and node.instruction.type is DataType.U64
            and isinstance(half, Operation)
            and half.instruction.sreg is SpecialRegister.SHARED_WINDOW
        )

    def _and(self, node: Operation) -> Fact:
        bits = node.instruction.type.bits
        numbers = [self._number(source, bits) for source in node.sources]
        masks = [s.bits for s in node.sources if isinstance(s, Literal) and s.bits < _UNBOUNDED]
        return Number(min(masks, default=_UNBOUNDED), max(n.grain for n in numbers))

    def _or(self, node: Operation) -> Fact:
        bits = node.instruction.type.bits
        return Number(_UNBOUNDED, min(self._number(s, bits).grain for s in node.sources))

    def _convert(self, node: Operation) -> Fact:
        source = node.instruction.source_type
        if source is None or not source.is_integer:
            return UNKNOWN
        # From 64 bits on nothing is known but the grain: only its own type bounds a number.
        number = self._number(node.sources[0], source.bits)
        bound = 1 << source.bits if source.bits < 64 else _UNBOUNDED
        return Number(bound, number.grain)


_RULES: dict[Op, Callable[[Provenance, Operation], Fact]] = {
    Op.LD: Provenance._load,
    Op.MOV: Provenance._copy,
    Op.SELP: Provenance._select,
    Op.ADD: Provenance._sum,
    Op.SUB: Provenance._difference,
    Op.NEG: Provenance._negative,
    Op.MUL: Provenance._product,
    Op.MAD: Provenance._product_and_sum,
    Op.SHL: Provenance._shift_left,
    Op.AND: Provenance._and,
    Op.OR: Provenance._or,
    Op.CVT: Provenance._convert,
}


def _grain_of(value: int) -> int:
    return min(value & -value, _MAX_GRAIN) if value else _MAX_GRAIN


def _cut(fact: Fact, bits: int) -> Fact:
    """Return what is known of the low ``bits`` of a value, extended by zeros or by the sign."""
    if bits >= 64:
        return fact
    return Number(1 << bits, fact.grain if isinstance(fact, Number) else 1)


def _moved(fact: Fact, by: Fact) -> Fact:
    """Return what is known of the sum, or the difference, of ``fact`` and a number."""
    if not isinstance(by, Number):
        return UNKNOWN
    bound, grain = min(fact.bound + by.bound, _UNBOUNDED), min(fact.grain, by.grain)
    if isinstance(fact, Pointer):
        return Pointer(fact.origin, bound, grain)
    return Number(bound, grain)


def _either(facts: Iterable[Fact]) -> Fact:
    """Return what is known of a value that is one of several."""
    known = list(facts)
    bound = max((fact.bound for fact in known), default=_UNBOUNDED)
    grain = min((fact.grain for fact in known), default=1)
    if all(isinstance(fact, Number) for fact in known):
        return Number(bound, grain)
    origins = {fact.origin if isinstance(fact, Pointer) else None for fact in known}
    origin = origins.pop()
    if origins or origin is None:
        return UNKNOWN
    return Pointer(origin, bound, grain)
