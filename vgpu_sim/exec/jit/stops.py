"""Where the threads of a block wait for each other, and which lane groups can wait as one.

A group stops as a whole: the code of its lanes is one run. So no lane of it that has not ended may
be on another way when the others stop; where the analysis cannot show that, the group is one lane.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence

from vgpu_sim.exec.cfg import Cfg
from vgpu_sim.exec.jit.analysis import Analysis
from vgpu_sim.exec.jit.geometry import Geometry
from vgpu_sim.exec.jit.lane_shapes import Affine
from vgpu_sim.exec.jit.ssa import Operation, SsaFunction
from vgpu_sim.hal.limits import WARP_THREADS
from vgpu_sim.isa import EFFECTS, Literal, Op
from vgpu_sim.isa.families.sync import BARRIERS


def stops(ssa: SsaFunction) -> Iterator[tuple[int, Operation]]:
    """Yield every stop with its block."""
    for block in ssa.blocks.values():
        for node in block.nodes:
            if isinstance(node, Operation) and EFFECTS[node.instruction.op].stops:
                yield block.index, node


def counted(ssa: SsaFunction) -> bool:
    """Return whether stops have to be counted: they are not all one barrier for all threads.

    Else the turns that groups take say by themselves that all have come to it.
    """
    barriers = set()
    for _, node in stops(ssa):
        number, count = node.sources
        if node.instruction.op is not Op.BAR_SYNC or count != Literal(0):
            return True
        if not isinstance(number, Literal) or number.bits >= BARRIERS:
            return True
        barriers.add(number)
    return len(barriers) > 1


def legal(ssa: SsaFunction, geometry: Geometry) -> bool:
    """Return whether groups can stop as one.

    All lanes of a group that have not ended are always at a stop together, and where stops are
    counted they name the same barrier and lie within one warp.
    """
    found = list(stops(ssa))
    if not found or geometry.span == 1:
        return True
    if counted(ssa) and WARP_THREADS % geometry.span:
        return False
    analysis = Analysis(ssa, geometry, assume_guards=False)
    partial = _partial_blocks(analysis)
    for block, node in found:
        if block in partial:
            return False
        if node.guard is not None and not analysis.uniform(node.guard, block):
            return False
        shapes = [analysis.shape(source, block, 32) for source in node.sources]
        if not all(isinstance(shape, Affine) and shape.uniform for shape in shapes):
            return False
    return True


def _partial_blocks(analysis: Analysis) -> set[int]:
    """Return the blocks that may run while some lanes of the group are elsewhere."""
    graph, divergence = analysis.ssa.graph, analysis.divergence
    partial: set[int] = set()
    for branch in divergence.branches:
        around = [header for header, body in graph.loops.items() if branch in body]
        ways = [(branch, target) for target in graph.blocks[branch].successors]
        partial |= _apart(graph, analysis.order, ways, around)
    for header in divergence.loops:
        body = graph.loops[header]
        around = [other for other, outer in graph.loops.items() if body < outer]
        ways = [
            (block, target)
            for block in sorted(body)
            for target in graph.blocks[block].successors
            if target not in body
        ]
        partial |= body | _apart(graph, analysis.order, ways, around)
    return partial


def _apart(
    graph: Cfg, order: Sequence[int], ways: Iterable[tuple[int, int]], around: Sequence[int]
) -> set[int]:
    """Return the blocks on ``ways`` until all of them have met, in the order of emission.

    A way that ends its threads is none. Ways out of a loop ``around`` are not followed: lanes leave
    it together, or it is a divergent loop with ways of its own.
    """
    position = {block: place for place, block in enumerate(order)}
    pending: list[int] = []
    found: set[int] = set()
    turned: set[int] = set()  # headers of loops around, to which some lanes have gone back

    def follow(source: int, target: int) -> None:
        leaves = any(source in graph.loops[h] and target not in graph.loops[h] for h in around)
        if target == graph.exit or leaves:
            return
        if position[target] <= position[source]:
            turned.update({target} & set(around))
        elif position[target] not in pending:
            heapq.heappush(pending, position[target])

    for source, target in ways:
        follow(source, target)
    while pending and (len(pending) > 1 or turned):
        block = order[heapq.heappop(pending)]
        found.add(block)
        for target in graph.blocks[block].successors:
            follow(block, target)
    return found
