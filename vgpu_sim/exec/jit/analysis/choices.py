"""Selects that may be assumed to take the same operand in all lanes (``Chosen``).

An index that is clamped or wrapped at an edge (``x == 0 ? width - 1 : x - 1``) has consecutive
values in all groups except those at the edge. In the fast version, such a select is replaced by
the operand that has consecutive values; one test of the group's first and last index shows
whether that is right. Only selects that feed an address are assumed, since no other code
benefits.
"""

from vgpu_sim.exec.jit.ir.ssa import Merge, Operation, Phi, Source, SsaFunction, Value, sources_of
from vgpu_sim.exec.jit.numbers.comparisons import MIRRORED, NEGATED
from vgpu_sim.exec.jit.shapes.lane_shapes import Affine, LaneShape, Vector
from vgpu_sim.isa import BoolOp, Compare, Family, Op

_COMPUTES = frozenset((Family.INTEGER, Family.CONVERT, Family.MOVE, Family.BITWISE))


def candidates(ssa: SsaFunction) -> frozenset[Operation]:
    """Return the selects from which addresses are computed, if an integer comparison decides
    them.
    """
    selects = ssa.analyses.get(candidates)
    if not isinstance(selects, frozenset):
        nodes = (ssa.definition[value] for value in addresses(ssa))
        selects = frozenset(
            n for n in nodes if isinstance(n, Operation) and comparison(ssa, n) is not None
        )
        ssa.analyses[candidates] = selects
    return selects


def comparison(ssa: SsaFunction, node: Operation) -> tuple[Operation, bool] | None:
    """Return the comparison that decides a select, and whether its result is inverted."""
    if node.instruction.op is not Op.SELP:
        return None
    condition = node.sources[2]
    setp = ssa.definition.get(condition) if isinstance(condition, Value) else None
    if not isinstance(setp, Operation) or setp.instruction.op is not Op.SETP:
        return None
    instruction = setp.instruction
    if not instruction.type.is_integer or instruction.combine is not BoolOp.NONE:
        return None
    return setp, setp.results[0] is not condition


def relation(
    compare: Compare, shapes: tuple[LaneShape, LaneShape], *, holds: bool
) -> tuple[int, Compare] | None:
    """Return an operand of a comparison (0 or 1) that varies over lanes, and a relation to test.

    If this operand has the returned relation to the other operand in every lane, then the
    comparison has the same result in all lanes: true if ``holds`` is true, else false. Return
    None if there is no such relation.
    """
    effective_compare = compare if holds else NEGATED.get(compare)
    for place, (number, bound) in enumerate((shapes, shapes[::-1])):
        if (
            not _goes_on(number)
            or effective_compare is Compare.EQ
            or effective_compare not in MIRRORED
        ):
            continue
        if not isinstance(bound, Affine) or not bound.uniform:
            return None
        return place, MIRRORED[effective_compare] if place else effective_compare
    return None


def find_varying_operand(new: LaneShape, old: LaneShape) -> int | None:
    """Return which operand of a select varies by known distances between lanes.

    The result is 0 for ``new`` and 1 for ``old``. Return None if neither operand varies by known
    distances, or if the other operand is not the same in all lanes.
    """
    for place, (own, other_shape) in enumerate(((new, old), (old, new))):
        if _goes_on(own):
            return place if isinstance(other_shape, Affine) and other_shape.uniform else None
    return None


def _goes_on(shape: LaneShape) -> bool:
    """Return whether the lanes of a value of this shape differ by known distances."""
    if isinstance(shape, Affine):
        return not shape.uniform
    return isinstance(shape, Vector) and shape.linear is not None and shape.linear.alike


def addresses(ssa: SsaFunction) -> frozenset[Value]:
    """Return the values from which the addresses of accesses are computed."""
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
    address_values: set[Value] = set()
    while pending:
        source = pending.pop()
        if not isinstance(source, Value) or source in address_values:
            continue
        address_values.add(source)
        node = ssa.definition[source]
        if isinstance(node, Phi | Merge):
            pending += sources_of(node)
        elif node.instruction.op.family in _COMPUTES:
            pending += node.sources
    ssa.analyses[addresses] = frozenset(address_values)
    return frozenset(address_values)
