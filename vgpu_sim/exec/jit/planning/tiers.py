"""Whether a kernel is first compiled by a plan that is made fast and runs slowly.

The first launch of a kernel waits for its code. The best plan's code takes a second or two where it
is much (strips that are interleaved, passes), a plan of one strip without passes a tenth of it. So
where there is much the launch begins in the narrow code, and better code takes over between blocks.

Any legal plan gives the same results, so does a launch of which some blocks ran by one and others
by another. What must not be is a plan of lanes that are alone where others have company
(ACTIVEMASK).
"""

from vgpu_sim.exec.jit.ir.ssa import SsaFunction
from vgpu_sim.exec.jit.planning import choose, code_size, widths
from vgpu_sim.exec.jit.planning.plan import Block, Plan
from vgpu_sim.exec.jit.progress import stops
from vgpu_sim.exec.jit.shapes.geometry import Geometry, Padding, legal_geometries

# Below it the best plan's code is there about as soon as the narrow one's.
FEW_NODES = 8
# Two strips are hardly more to compile than one and twice as fast; of little code there may be 4.
_MOST_STRIPS = 4
_MOST_NODE_STRIPS = 320
# Each that is tried costs an analysis.
_TRIED = 3


def first(ssa: SsaFunction, block: Block, vector_bits: int) -> tuple[Plan | None, str]:
    """Return the plan to begin with, None where it is the best one at once; and why.

    Raises:
        PlanError: see ``choose``.
    """
    nodes = code_size.nodes_of(ssa)
    if nodes < FEW_NODES:
        return None, f"{nodes} nodes: the best plan's code takes no longer"
    if len(ssa.blocks) > choose.MAX_MASKED_BLOCKS:
        return None, f"{len(ssa.blocks)} basic blocks: the best plan is already lane by lane"
    if code_size.is_too_large(ssa, nodes):
        return None, f"{nodes} nodes: the best plan is already a narrow one without passes"
    shapes = widths.shapes(ssa, block, vector_bits)
    together = any(stops.collectives(ssa))
    tried = False
    for width, padding in shapes[:_TRIED]:
        for geometry in _narrow(block, width, padding, nodes, together=together):
            tried = True
            if geometry.span > 1 and stops.legal(ssa, geometry):
                plan = Plan(width, geometry.strips, versioned=False, tier=0, padding=padding)
                why = f"{nodes} nodes: narrow code without passes runs until the best is there"
                return plan, why
    if together and not tried:
        return None, f"{nodes} nodes: lanes meet, and a group of whole warps is too much code"
    if stops.shows_company(ssa):
        return None, "lanes see who is with them, and not in a narrow plan"
    if together:
        return None, "lane by lane, where lanes meet, is hundreds of times as slow"
    plan = Plan(1, 1, versioned=False, tier=0)
    return plan, f"{nodes} nodes: lane by lane without passes until the best code is there"


def _narrow(
    block: Block, width: int, padding: Padding, nodes: int, *, together: bool
) -> list[Geometry]:
    """Return what to try of a width, the best first: some strips, and as few as can be."""
    found = (g for g in legal_geometries(block) if (g.width, g.padding) == (width, padding))
    if together:
        most = code_size.MAX_WARP_NODE_STRIPS
        found = (g for g in found if g.whole_warps and g.strips * nodes <= most)
    by_strips = sorted(found, key=lambda geometry: geometry.strips)
    most = min(_MOST_STRIPS, _MOST_NODE_STRIPS // nodes)
    some = [g for g in by_strips[1:] if g.strips <= most and g.strips.bit_count() == 1]
    return [*some[-1:], *by_strips[:1]]
