"""The first tier: whether a kernel is first compiled under a plan that is fast to compile.

The first launch of a kernel waits for its code. Large code of the best plan takes a second or
two (interleaved vectors, passes); a plan of one vector without passes takes a tenth of that. So
a launch of a large kernel begins in the narrow code, and the best code takes over between
blocks.

Every legal plan gives the same results, and so does a launch whose blocks run under different
plans. There are two exceptions: a plan with lone lanes combined with one in which lanes see other
lanes (ACTIVEMASK), and lanes that exchange values without waiting (``exchanges``).
"""

from vgpu_sim.exec.jit.ir.ssa import SsaFunction
from vgpu_sim.exec.jit.planning import choose, code_size, widths
from vgpu_sim.exec.jit.planning.plan import Block, Plan
from vgpu_sim.exec.jit.progress import exchanges, wait_points
from vgpu_sim.exec.jit.shapes.geometry import Geometry, Padding, legal_geometries

# Below this size, the best plan's code is available about as soon as the narrow one's.
FEW_NODES = 8
# Two vectors take hardly longer to compile than one and run twice as fast; small code may have 4.
_MOST_VECTORS = 4
_MOST_NODE_VECTORS = 320
# Each attempt costs an analysis.
_TRIED = 3


def first_tier_plan(ssa: SsaFunction, block: Block, vector_bits: int) -> tuple[Plan | None, str]:
    """Return the first-tier plan of a kernel, and the reason for the choice.

    The plan is None if the best plan is used at once.

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
    waits = any(wait_points.collectives(ssa))
    together = waits or exchanges.exchanges_without_waits(ssa)
    tried = False
    for width, padding in shapes[:_TRIED]:
        for geometry in _narrow(block, width, padding, nodes, together=together):
            tried = True
            if geometry.span > 1 and wait_points.is_legal_geometry(ssa, geometry):
                plan = Plan(width, geometry.vectors, versioned=False, tier=0, padding=padding)
                why = f"{nodes} nodes: narrow code without passes runs until the best code is ready"
                return plan, why
    if waits and not tried:
        return (
            None,
            f"{nodes} nodes: lanes wait for each other, and a whole warp is too much code",
        )
    if together and not waits:
        return None, f"{nodes} nodes: lanes exchange values, and no narrow plan has whole warps"
    if wait_points.reads_active_mask(ssa):
        return None, "ACTIVEMASK would have another result in a narrow plan"
    if together:
        return None, "lane by lane, collectives are hundreds of times as slow"
    plan = Plan(1, 1, versioned=False, tier=0)
    return plan, f"{nodes} nodes: lane by lane without passes until the best code is ready"


def _narrow(
    block: Block, width: int, padding: Padding, nodes: int, *, together: bool
) -> list[Geometry]:
    """Return the geometries to try for a width, the best first.

    They have several vectors per group, but as few as possible.
    """
    candidates = (g for g in legal_geometries(block) if (g.width, g.padding) == (width, padding))
    if together:
        size_limit = code_size.MAX_WARP_NODE_VECTORS
        candidates = (g for g in candidates if g.whole_warps and g.vectors * nodes <= size_limit)
    by_vectors = sorted(candidates, key=lambda geometry: geometry.vectors)
    vector_limit = min(_MOST_VECTORS, _MOST_NODE_VECTORS // nodes)
    larger_groups = [
        g for g in by_vectors[1:] if g.vectors <= vector_limit and g.vectors.bit_count() == 1
    ]
    return [*larger_groups[-1:], *by_vectors[:1]]
