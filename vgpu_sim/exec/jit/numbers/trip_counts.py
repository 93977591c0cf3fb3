"""Bounds on the trip counts of loops with an exit that must eventually be taken.

A 32-bit counter that advances by an odd multiple of 2^s takes, within 2^(32-s) trips, every
value congruent to its initial one modulo 2^s. A lane that evaluates the exit in every iteration
leaves within that bound if one of these values satisfies the condition. This must hold for every
possible limit: a loop with another exit may run long after a counter that misses its limit has
wrapped.
"""

from collections.abc import Callable

from vgpu_sim.exec.jit.ir.ssa import Operation, Source, SsaFunction, Value
from vgpu_sim.exec.jit.numbers.comparisons import MIRRORED, NEGATED
from vgpu_sim.exec.jit.shapes.lane_shapes import to_signed
from vgpu_sim.isa import BoolOp, Compare, Literal, Op
from vgpu_sim.records import dataclass

_BITS = 32
_ALL = 1 << _BITS
_HOLDS_ITSELF = (Compare.EQ, Compare.LE, Compare.GE)


@dataclass(frozen=True, slots=True)
class _Exit:
    """An exit that is taken if ``counter how limit`` is true."""

    counter: Source
    limit: Source
    how: Compare
    is_signed: bool


Multiple = Callable[[Source], int]
"""Returns a power of two, up to 2^32, that divides the low 32 bits of a value."""


def most_trips(ssa: SsaFunction, header: int, multiple: Multiple) -> int | None:
    """Return an upper bound, for all lanes, of the trip count of the loop with this header; None if
    no bound is known.

    ``multiple`` returns a power of two that divides a value. Other modules call
    ``KnownValues.most_trips``, which passes ``KnownValues.known_divisor`` as ``multiple``.
    """
    graph = ssa.graph
    body = graph.loops[header]
    latches = [b for b in graph.blocks[header].predecessors if b in body]
    if len(latches) != 1:
        return None
    tested = [
        b for b in body if graph.innermost_loop[b] == header and graph.dominates(b, latches[0])
    ]
    trip_bounds = (_trips_until(ssa, block, header, multiple) for block in tested)
    return min((trips for trips in trip_bounds if trips is not None), default=None)


def step_of(ssa: SsaFunction, source: Source, origin: Value) -> int | None:
    """Return the constant c for which ``source`` is ``origin + c``; None if no such c is known."""
    total = 0
    while source is not origin:
        node = ssa.definition.get(source) if isinstance(source, Value) else None
        if not isinstance(node, Operation) or node.instruction.type.bits != origin.bits:
            return None
        if node.results[0] is None or node.results[0].bits != origin.bits:
            return None
        first, second = (*node.sources, None, None)[:2]
        if node.instruction.op is Op.ADD and isinstance(first, Literal):
            first, second = second, first
        if node.instruction.op not in (Op.ADD, Op.SUB) or not isinstance(second, Literal):
            return None
        sign = 1 if node.instruction.op is Op.ADD else -1
        total += sign * to_signed(second.bits, origin.bits)
        if not isinstance(first, Value):
            return None
        source = first
    return total


def _trips_until(ssa: SsaFunction, block: int, header: int, multiple: Multiple) -> int | None:
    """Return the trips after which all lanes have left through ``block``, passed in every trip."""
    body, last = ssa.graph.loops[header], ssa.blocks[block]
    leaving = [target not in body for target in last.successors]
    if last.condition is None or len(leaving) != 2 or leaving[0] == leaving[1]:
        return None
    value = last.condition.value
    node = ssa.definition.get(value) if isinstance(value, Value) else None
    if not isinstance(node, Operation) or node.instruction.op is not Op.SETP:
        return None
    instruction = node.instruction
    if instruction.combine is not BoolOp.NONE or not instruction.type.is_integer:
        return None
    compare = instruction.compare
    if instruction.type.bits != _BITS or compare is None:
        return None
    inverse = len(node.results) > 1 and value is node.results[1]
    if leaving[0] == (last.condition.negated != inverse):
        compare = NEGATED[compare]
    for (counter, limit), how in (
        (node.sources[:2], compare),
        (node.sources[1::-1], MIRRORED[compare]),
    ):
        if not isinstance(limit, Value) or ssa.block_of[limit] not in body:
            exit_ = _Exit(counter, limit, how, instruction.type.is_signed)
            trips = _count_trips(ssa, header, exit_, multiple)
            if trips is not None:
                return trips
    return None


def _count_trips(ssa: SsaFunction, header: int, exit_: _Exit, multiple: Multiple) -> int | None:
    """Return the trips until an exit's condition has certainly been true, or None."""
    counter, limit, how = exit_.counter, exit_.limit, exit_.how
    body = ssa.graph.loops[header]
    for phi in ssa.blocks[header].phis:
        offset = step_of(ssa, counter, phi.result) if phi.result.bits == _BITS else None
        around = [s for block, s in phi.arguments.items() if block in body]
        if offset is None or len(around) != 1:
            continue
        step = (step_of(ssa, around[0], phi.result) or 0) % _ALL
        if not step:
            continue
        grain = step & -step
        starts = [s for block, s in phi.arguments.items() if block not in body]
        known = min(offset & -offset or _ALL, *map(multiple, (limit, *starts)))
        meets = how in _HOLDS_ITSELF and known >= grain
        if meets or _least_count(limit, how, is_signed=exit_.is_signed) >= grain:
            return _ALL // grain
    return None


def _least_count(limit: Source, how: Compare, *, is_signed: bool) -> int:
    """Return a lower bound on the number of consecutive values that satisfy the comparison."""
    if how is Compare.NE:
        return _ALL - 1
    if how is Compare.EQ or not isinstance(limit, Literal):
        return int(how in _HOLDS_ITSELF)
    number = limit.bits % _ALL
    below = number ^ (_ALL >> 1) if is_signed else number
    count = below if how in (Compare.LT, Compare.LE) else _ALL - 1 - below
    return count + int(how in _HOLDS_ITSELF)
