"""Decides which lane groups may wait as one in a loop that polls memory.

The lanes of a group execute a loop until the last of them has left it. If those that have left,
or are on another path, could do what the others wait for, the group must be a single lane.
"""

from collections.abc import Iterable

from vgpu_sim.exec.cfg import Cfg
from vgpu_sim.exec.jit.analysis.value_shapes import Analysis
from vgpu_sim.exec.jit.ir.divergence import blocks_until_join
from vgpu_sim.exec.jit.ir.ssa import Node, Operation, Phi, SsaFunction, Value
from vgpu_sim.exec.jit.progress.polling_loops import equality, polling_headers
from vgpu_sim.exec.jit.shapes.lane_shapes import Affine
from vgpu_sim.isa import EFFECTS, Compare, Instruction, Space
from vgpu_sim.records import dataclass


def can_wait_as_one(analysis: Analysis) -> bool:
    """Return whether the lanes of a group can wait together in the loops that poll. They can if no
    lane waits in such a loop for a lane of its own group that is elsewhere in the code.

    If the function has wait points, each group must be within one warp. Then no lane passes a
    wait point before the other lanes of its warp have arrived.
    """
    ssa = analysis.ssa
    waits = polling_headers(ssa)
    if not waits:
        return True
    divergences = _divergences(analysis, _lone_blocks(analysis))
    return not any(_may_be_awaited(ssa, _elsewhere(ssa.graph, h, divergences)) for h in waits)


@dataclass(frozen=True, slots=True)
class _Divergence:
    """The edges on which lanes diverge, and the blocks that they execute until they reconverge.

    ``body`` is the loop that they leave in different iterations, empty for a branch.
    """

    ways: tuple[tuple[int, int], ...]
    blocks: frozenset[int]
    body: frozenset[int] = frozenset()


def _divergences(analysis: Analysis, alone: set[int]) -> list[_Divergence]:
    """Return all divergences, except in blocks of ``alone``, which a single lane executes."""
    graph, divergence, order = analysis.ssa.graph, analysis.divergence, analysis.order
    divergences = []
    for branch in divergence.branches - alone:
        ways = tuple((branch, target) for target in graph.blocks[branch].successors)
        around = [outer_header for outer_header, body in graph.loops.items() if branch in body]
        divergences.append(
            _Divergence(ways, frozenset(blocks_until_join(graph, order, ways, around)))
        )
    for header in divergence.loops - alone:
        body = graph.loops[header]
        ways = tuple(_ways_out(graph, body))
        around = [outer_header for outer_header, outer in graph.loops.items() if body < outer]
        divergences.append(
            _Divergence(ways, frozenset(blocks_until_join(graph, order, ways, around)), body)
        )
    return divergences


def _elsewhere(graph: Cfg, header: int, divergences: Iterable[_Divergence]) -> set[int]:
    """Return the blocks at which lanes outside the loop of ``header`` would continue."""
    continuations: set[int] = set()
    for divergence in divergences:
        if header in divergence.body:
            continuations.update(target for _, target in divergence.ways)
        elif header in divergence.blocks:
            continuations.update(
                target
                for source, target in divergence.ways
                if graph.dominates(target, source) or not graph.dominates(target, header)
            )
    return continuations - {graph.exit}


def _ways_out(graph: Cfg, body: frozenset[int]) -> list[tuple[int, int]]:
    return [
        (block, target)
        for block in sorted(body)
        for target in graph.blocks[block].successors
        if target not in body
    ]


def _may_be_awaited(ssa: SsaFunction, blocks: set[int]) -> bool:
    """Return whether lanes that continue at ``blocks`` may write shared state before they wait."""
    pending, visited = list(blocks), set(blocks)
    while pending:
        block = pending.pop()
        for node in ssa.blocks[block].nodes:
            if isinstance(node, Operation):
                if _writes_for_others(node.instruction):
                    return True
                if EFFECTS[node.instruction.op].stops and node.guard is None:
                    break
        else:
            following = {t for t in ssa.blocks[block].successors if t in ssa.blocks} - visited
            visited |= following
            pending += following
    return False


def _writes_for_others(instruction: Instruction) -> bool:
    return EFFECTS[instruction.op].writes and instruction.space is not Space.LOCAL


def _lone_blocks(analysis: Analysis) -> set[int]:
    """Return the blocks that at most one lane of a group executes.

    Such a block follows a test like ``thread == number``.
    """
    graph = analysis.ssa.graph
    lone_blocks: set[int] = set()
    for block in analysis.ssa.blocks.values():
        condition = block.condition
        if condition is None or not isinstance(condition.value, Value):
            continue
        node = analysis.ssa.definition[condition.value]
        relation = _chosen_lane(analysis, node, block.index)
        if relation is None:
            continue
        target = block.successors[int((relation is Compare.NE) != condition.negated)]
        if target == graph.exit:
            continue
        predecessors = set(graph.blocks[target].predecessors) - {block.index}
        if all(graph.dominates(target, predecessor) for predecessor in predecessors):
            lone_blocks |= {
                dominated for dominated in analysis.order if graph.dominates(target, dominated)
            }
    return lone_blocks


def _chosen_lane(analysis: Analysis, node: Phi | Node, block: int) -> Compare | None:
    """Return EQ or NE for a comparison that distinguishes at most one lane of a group, else
    None.
    """
    relation = equality(node)
    if relation is None:
        return None
    sources, compare, bits = relation
    shapes = [analysis.shape(source, block, bits) for source in sources]
    for mine, bound_shape in (shapes, shapes[::-1]):
        if isinstance(bound_shape, Affine) and bound_shape.uniform and isinstance(mine, Affine):
            lanes = {
                (offset + mine.stride * lane) % (1 << bits)
                for offset in mine.offsets
                for lane in range(analysis.geometry.width)
            }
            if len(lanes) == analysis.geometry.span:
                return compare
    return None
