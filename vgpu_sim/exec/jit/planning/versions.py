"""The fast version of a kernel, and all that it assumes of lanes."""

from collections.abc import Iterator

from vgpu_sim.exec.jit.analysis import assumptions, siblings
from vgpu_sim.exec.jit.analysis.assumptions import OfAccess, OfGroup, Row
from vgpu_sim.exec.jit.analysis.value_shapes import Analysis, analyse
from vgpu_sim.exec.jit.ir.ssa import Operation, SsaBlock, SsaFunction
from vgpu_sim.exec.jit.progress import stops
from vgpu_sim.exec.jit.shapes.geometry import Geometry
from vgpu_sim.exec.jit.shapes.lane_shapes import Vector
from vgpu_sim.isa import Op, Space


def meets(ssa: SsaFunction, geometry: Geometry) -> bool:
    """Return whether lanes of a group meet, so that they cannot run one after the other."""
    waits = stops.waits(ssa) or stops.lanes_wait(ssa, geometry)
    return waits or any(stops.collectives(ssa))


def fast(ssa: SsaFunction, geometry: Geometry, *, versioned: bool) -> Analysis:
    """Return the analysis of the fast version; ``versioned``: no guard at its top ends a thread.

    Where every group lacks lanes, and lanes meet, no version is for whole groups.
    """
    if geometry.always_lacks and meets(ssa, geometry):
        return Analysis(ssa, geometry, assume_guards=versioned, may_restart=False)
    return analyse(ssa, geometry, assume_guards=versioned)


def assumed(analysis: Analysis) -> Iterator[OfGroup | OfAccess]:
    """Yield all that a version assumes: of groups, and of accesses where a test can be written."""
    yield from analysis.assumptions.values()
    for block in analysis.ssa.blocks.values():
        yield from _of_accesses(analysis, block)


def _of_accesses(analysis: Analysis, block: SsaBlock) -> Iterator[OfAccess]:
    families = siblings.families(analysis.ssa, block.nodes)
    joined = set[Operation]()
    for node in block.nodes:
        if not isinstance(node, Operation) or node.instruction.op is not Op.LD:
            continue
        if node.instruction.space is not Space.GLOBAL or node.instruction.volatile:
            continue
        shape = analysis.shape(node.sources[0], block.index, 64)
        size = node.instruction.vector * node.instruction.type.bytes
        if node in families and isinstance(shape, Vector):
            joined |= set(families[node].loads)
            yield families[node]
        elif node not in joined and assumptions.is_row(shape, size, analysis.geometry.width):
            yield Row()
