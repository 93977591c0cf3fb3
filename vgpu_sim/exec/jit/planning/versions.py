"""The fast version of a kernel, and all its assumptions about lanes."""

from collections.abc import Iterator

from vgpu_sim.exec.jit.analysis import assumptions, siblings
from vgpu_sim.exec.jit.analysis.assumptions import OfAccess, OfGroup, Row
from vgpu_sim.exec.jit.analysis.value_shapes import Analysis, analyse
from vgpu_sim.exec.jit.ir.ssa import Operation, SsaBlock, SsaFunction
from vgpu_sim.exec.jit.progress import wait_points
from vgpu_sim.exec.jit.shapes.geometry import Geometry
from vgpu_sim.exec.jit.shapes.lane_shapes import Vector
from vgpu_sim.isa import Op, Space


def has_waiting_lanes(ssa: SsaFunction, geometry: Geometry) -> bool:
    """Return whether lanes of a group wait for each other, so that they cannot run one by one."""
    waits = wait_points.waits(ssa) or wait_points.lanes_wait(ssa, geometry)
    return waits or any(wait_points.collectives(ssa))


def analyse_fast_version(ssa: SsaFunction, geometry: Geometry, *, versioned: bool) -> Analysis:
    """Return the analysis of a kernel's fast version. If ``versioned`` is set, that version assumes
    that no top-level guard ends a thread.

    If every group has padding lanes, and lanes wait for each other, no version for whole groups
    exists. Groups then cannot start over in another version.
    """
    if geometry.always_lacks and has_waiting_lanes(ssa, geometry):
        return Analysis(ssa, geometry, assume_guards=versioned, may_restart=False)
    return analyse(ssa, geometry, assume_guards=versioned)


def assumptions_of(analysis: Analysis) -> Iterator[OfGroup | OfAccess]:
    """Yield the assumptions of a version: those about groups, then each assumption about an access
    that generated code can test.
    """
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
