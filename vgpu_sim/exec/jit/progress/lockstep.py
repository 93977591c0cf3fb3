"""Which lane groups can wait as one in a loop that polls memory.

The lanes of a group run a loop until the last of them has left it. Where those that have left, or
are on another way, could do what the others wait for, the group is one lane.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from vgpu_sim.exec.cfg import Cfg
from vgpu_sim.exec.jit.analysis.value_shapes import Analysis
from vgpu_sim.exec.jit.ir.divergence import apart
from vgpu_sim.exec.jit.ir.ssa import Node, Operation, Phi, SsaFunction, Value
from vgpu_sim.exec.jit.progress.polling_loops import equality, polling
from vgpu_sim.exec.jit.shapes.lane_shapes import Affine
from vgpu_sim.isa import EFFECTS, Compare, Instruction, Space


def wait_as_one(analysis: Analysis) -> bool:
    """Return whether nobody waits in a loop for lanes of its own group that stand elsewhere.

    Where there are stops, groups must lie within one warp: then no lane passes one that others of
    its warp have not come to.
    """
    ssa = analysis.ssa
    waits = polling(ssa)
    if not waits:
        return True
    partings = _partings(analysis, _lone_blocks(analysis))
    return not any(_may_be_awaited(ssa, _elsewhere(ssa.graph, h, partings)) for h in waits)


@dataclass(frozen=True, slots=True)
class _Parting:
    """Ways (edges) on which lanes go apart, and the blocks where they are until they have met.

    ``body`` is the loop that they leave in different turns, empty for a branch.
    """

    ways: tuple[tuple[int, int], ...]
    blocks: frozenset[int]
    body: frozenset[int] = frozenset()


def _partings(analysis: Analysis, alone: set[int]) -> list[_Parting]:
    """Return all partings; a lane that is ``alone`` in a block leaves nobody behind."""
    graph, divergence, order = analysis.ssa.graph, analysis.divergence, analysis.order
    found = []
    for branch in divergence.branches - alone:
        ways = tuple((branch, target) for target in graph.blocks[branch].successors)
        around = [other for other, body in graph.loops.items() if branch in body]
        found.append(_Parting(ways, frozenset(apart(graph, order, ways, around))))
    for header in divergence.loops - alone:
        body = graph.loops[header]
        ways = tuple(_ways_out(graph, body))
        around = [other for other, outer in graph.loops.items() if body < outer]
        found.append(_Parting(ways, frozenset(apart(graph, order, ways, around)), body))
    return found


def _elsewhere(graph: Cfg, header: int, partings: Iterable[_Parting]) -> set[int]:
    """Return the blocks where lanes may go on, if they could, while others are in a loop."""
    found: set[int] = set()
    for parting in partings:
        if header in parting.body:
            found.update(target for _, target in parting.ways)
        elif header in parting.blocks:
            found.update(
                target
                for source, target in parting.ways
                if graph.dominates(target, source) or not graph.dominates(target, header)
            )
    return found - {graph.exit}


def _ways_out(graph: Cfg, body: frozenset[int]) -> list[tuple[int, int]]:
    return [
        (block, target)
        for block in sorted(body)
        for target in graph.blocks[block].successors
        if target not in body
    ]


def _may_be_awaited(ssa: SsaFunction, blocks: set[int]) -> bool:
    """Return whether lanes that go on at ``blocks`` do what others can see before they stop."""
    pending, seen = list(blocks), set(blocks)
    while pending:
        block = pending.pop()
        for node in ssa.blocks[block].nodes:
            if isinstance(node, Operation):
                if _writes_for_others(node.instruction):
                    return True
                if EFFECTS[node.instruction.op].stops and node.guard is None:
                    break
        else:
            following = {t for t in ssa.blocks[block].successors if t in ssa.blocks} - seen
            seen |= following
            pending += following
    return False


def _writes_for_others(instruction: Instruction) -> bool:
    return EFFECTS[instruction.op].writes and instruction.space is not Space.LOCAL


def _lone_blocks(analysis: Analysis) -> set[int]:
    """Return the blocks that at most one lane of a group comes to: behind ``thread == number``."""
    graph = analysis.ssa.graph
    found: set[int] = set()
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
        before = set(graph.blocks[target].predecessors) - {block.index}
        if all(graph.dominates(target, other) for other in before):
            found |= {other for other in analysis.order if graph.dominates(target, other)}
    return found


def _chosen_lane(analysis: Analysis, node: Phi | Node, block: int) -> Compare | None:
    """Return EQ or NE where a comparison tells one lane of a group, or none, from the others."""
    relation = equality(node)
    if relation is None:
        return None
    sources, compare, bits = relation
    shapes = [analysis.shape(source, block, bits) for source in sources]
    for mine, other in (shapes, shapes[::-1]):
        if isinstance(other, Affine) and other.uniform and isinstance(mine, Affine):
            lanes = {
                (offset + mine.stride * lane) % (1 << bits)
                for offset in mine.offsets
                for lane in range(analysis.geometry.width)
            }
            if len(lanes) == analysis.geometry.span:
                return compare
    return None
