"""Choices that may be assumed to fall alike for all lanes: no group is at an edge (``Chosen``).

An index that is clamped or wraps around at an edge (``x == 0 ? width - 1 : x - 1``) is that of
neighbours in all groups but those at the edge. In the fast version such a choice is the operand
that goes on with the lanes; one test of the group's first and last number shows whether it is. Only
choices that an address is made of are assumed: all else gains nothing by it.
"""

from vgpu_sim.exec.jit.ir.ssa import Merge, Operation, Phi, Source, SsaFunction, Value, sources_of
from vgpu_sim.exec.jit.numbers.comparisons import MIRRORED, NEGATED
from vgpu_sim.exec.jit.shapes.lane_shapes import Affine, LaneShape, Vector
from vgpu_sim.isa import BoolOp, Compare, Family, Op

_COMPUTES = frozenset((Family.INTEGER, Family.CONVERT, Family.MOVE, Family.BITWISE))


def candidates(ssa: SsaFunction) -> frozenset[Operation]:
    """Return the choices by a comparison of integers that addresses are made of."""
    found = ssa.analyses.get(candidates)
    if not isinstance(found, frozenset):
        nodes = (ssa.definition[value] for value in addresses(ssa))
        found = frozenset(
            n for n in nodes if isinstance(n, Operation) and comparison(ssa, n) is not None
        )
        ssa.analyses[candidates] = found
    return found


def comparison(ssa: SsaFunction, node: Operation) -> tuple[Operation, bool] | None:
    """Return the comparison that a choice goes by, and whether by its inverse result."""
    if node.instruction.op is not Op.SELP:
        return None
    condition = node.sources[2]
    found = ssa.definition.get(condition) if isinstance(condition, Value) else None
    if not isinstance(found, Operation) or found.instruction.op is not Op.SETP:
        return None
    instruction = found.instruction
    if not instruction.type.is_integer or instruction.combine is not BoolOp.NONE:
        return None
    return found, found.results[0] is not condition


def relation(
    compare: Compare, shapes: tuple[LaneShape, LaneShape], *, holds: bool
) -> tuple[int, Compare] | None:
    """Return which operand of a comparison differs between lanes, and how all of its lanes are to
    lie to the other one for the comparison to hold for all lanes, or for none."""
    wanted = compare if holds else NEGATED.get(compare)
    for place, (number, bound) in enumerate((shapes, shapes[::-1])):
        if not _goes_on(number) or wanted is Compare.EQ or wanted not in MIRRORED:
            continue
        if not isinstance(bound, Affine) or not bound.uniform:
            return None
        return place, MIRRORED[wanted] if place else wanted
    return None


def going_on(new: LaneShape, old: LaneShape) -> int | None:
    """Return which operand of a choice goes on from lane to lane, where the other one does not."""
    for place, (own, other) in enumerate(((new, old), (old, new))):
        if _goes_on(own):
            return place if isinstance(other, Affine) and other.uniform else None
    return None


def _goes_on(shape: LaneShape) -> bool:
    """Return whether lanes differ by known distances."""
    if isinstance(shape, Affine):
        return not shape.uniform
    return isinstance(shape, Vector) and shape.linear is not None and shape.linear.alike


def addresses(ssa: SsaFunction) -> frozenset[Value]:
    """Return the values that some address of an access is made of."""
    known = ssa.analyses.get(addresses)
    if isinstance(known, frozenset):
        return known
    pending: list[Source] = [
        source
        for block in ssa.blocks.values()
        for node in block.nodes
        if isinstance(node, Operation) and node.instruction.op in (Op.LD, Op.ST)
        for source in node.sources[:1]
    ]
    found: set[Value] = set()
    while pending:
        source = pending.pop()
        if not isinstance(source, Value) or source in found:
            continue
        found.add(source)
        node = ssa.definition[source]
        if isinstance(node, Phi | Merge):
            pending += sources_of(node)
        elif node.instruction.op.family in _COMPUTES:
            pending += node.sources
    ssa.analyses[addresses] = frozenset(found)
    return frozenset(found)
