"""Properties of a kernel's code, used by the rules of ``choose``: how it waits, loads and
computes.
"""

from collections.abc import Iterable
from typing import Final

from vgpu_sim.exec.jit.analysis.value_shapes import Analysis
from vgpu_sim.exec.jit.ir.ssa import Merge, Operation, SsaFunction, used_values
from vgpu_sim.exec.jit.progress import wait_points
from vgpu_sim.exec.jit.shapes.lane_shapes import Vector
from vgpu_sim.isa import Family, Op, Space, reads_memory

BRIEF: Final = (
    48  # nodes between wait points up to which a context switch costs more than spilled vectors
)
_ARITHMETIC_PER_GATHER: Final = 8
_NODES_PER_LOAD: Final = 20


def has_matrix_products(ssa: SsaFunction) -> bool:
    """Return whether the kernel has matrix products, which the lanes of a warp compute together."""
    return any(node.instruction.op is Op.MMA for _, node in wait_points.collectives(ssa))


def is_short_between_waits(ssa: SsaFunction) -> bool:
    """Return whether the code between wait points is very short.

    Context switches at the wait points then cost more than spills of registers.
    """
    blocks = {block for block, _ in wait_points.find(ssa)}
    around = [body for body in ssa.graph.loops.values() if body & blocks]
    parts = around or [frozenset(ssa.blocks)]
    return all(sum(len(ssa.blocks[b].nodes) for b in part) <= BRIEF for part in parts)


def updates_in_loops(ssa: SsaFunction) -> bool:
    """Return whether a loop has atomic updates that run lane by lane. Such a loop gains nothing
    from more vectors.

    Integer updates with unused results do not count: in shared memory they become vector loads
    and stores, and in global memory most sums do, too (``combined_sums``).
    """
    used = used_values(ssa)
    return any(
        isinstance(node, Operation)
        and node.instruction.op in (Op.ATOM, Op.RED)
        and not (
            node.instruction.space in (Space.SHARED, Space.GLOBAL)
            and not node.instruction.type.is_float
            and used.isdisjoint(node.results)
        )
        for block in set().union(*ssa.graph.loops.values())
        for node in ssa.blocks[block].nodes
    )


def innermost(analysis: Analysis) -> set[int]:
    """Return the headers of all innermost loops."""
    loops = analysis.ssa.graph.loops
    return {h for h, body in loops.items() if not any(o in body for o in loops if o != h)}


def loads(ssa: SsaFunction) -> int:
    """Return the number of instructions of a kernel that read memory."""
    return sum(_reads_memory(node) for b in ssa.blocks.values() for node in b.nodes)


def mostly_computes(ssa: SsaFunction) -> bool:
    """Return whether the kernel's latency is due to arithmetic, not to memory.

    A few vectors per group then suffice to hide the latency.
    """
    nodes = sum(isinstance(n, Operation) for b in ssa.blocks.values() for n in b.nodes)
    return nodes > _NODES_PER_LOAD * loads(ssa)


def has_strided_gather(analysis: Analysis, loops: Iterable[int]) -> bool:
    """Return whether one of ``loops`` has a load whose lanes have a stride known only at run time.

    The vectors of such a kernel are never interleaved.
    """
    for header in loops:
        for block in analysis.ssa.graph.loops[header]:
            for node in analysis.ssa.blocks[block].nodes:
                if isinstance(node, Operation) and _reads_memory(node):
                    shape = analysis.shape(node.sources[0], block, 64)
                    if isinstance(shape, Vector) and shape.strided:
                        return True
    return False


def gathers_in_divergent_loops(analysis: Analysis) -> bool:
    """Return whether some divergent innermost loop has more gathers than other loads, and little
    arithmetic per gather.
    """
    graph = analysis.ssa.graph
    for header in innermost(analysis) & analysis.divergence.loops:
        gathers = loads = arithmetic = 0
        for block in graph.loops[header]:
            for node in analysis.ssa.blocks[block].nodes:
                if not isinstance(node, Operation):
                    continue
                if _reads_memory(node):
                    loads += 1
                    shape = analysis.shape(node.sources[0], block, 64)
                    gathers += isinstance(shape, Vector)
                arithmetic += node.instruction.op.family is Family.FLOAT
        if gathers * 2 > loads and arithmetic < _ARITHMETIC_PER_GATHER * gathers:
            return True
    return False


def _reads_memory(node: Operation | Merge) -> bool:
    return isinstance(node, Operation) and reads_memory(node.instruction)
