"""Which widths of strips a block allows, and how many of their lanes are busy."""

from typing import Final

from vgpu_sim.exec.jit.ir.ssa import SsaFunction
from vgpu_sim.exec.jit.planning.plan import Block
from vgpu_sim.exec.jit.progress import stops
from vgpu_sim.exec.jit.shapes import geometry as geometries
from vgpu_sim.exec.jit.shapes.geometry import Padding

# What a lane of padded geometries is worth: rows whose ends are masked, a line with one such end,
# a line on which thread indices are computed, so that what they address is gathered.
_MASKED: Final = 0.6
_ENDING: Final = 0.95
_COMPUTED: Final = 0.25


def shapes(ssa: SsaFunction, block: Block, vector_bits: int) -> list[tuple[int, Padding]]:
    """Return widths, and what to pad for them, from the one that keeps most lanes busy on."""
    found = _shapes(block, min(geometries.MAX_WIDTH, vector_bits // 32))
    if stops.has_local_memory(ssa):
        return [(width, padding) for width, padding in found if padding == Padding.NONE]
    return found


def _shapes(block: Block, widest: int) -> list[tuple[int, Padding]]:
    busy: dict[tuple[int, Padding], float] = {}
    width = widest
    while width > 1:
        if block[0] % width == 0:
            busy[width, Padding.NONE] = width
        for padding in (Padding.ROWS, Padding.LINE):
            geometry = geometries.Geometry(block, width, 1, padding)
            if geometry.legal:
                known = all(axis is not None for axis in geometry.axes())
                worth = _MASKED if padding == Padding.ROWS else _ENDING if known else _COMPUTED
                busy[width, padding] = worth * width * geometry.threads / geometry.slots
        width //= 2
    return [*sorted(busy, key=lambda shape: (-busy[shape], shape)), (1, Padding.NONE)]


def small_enough(
    block: Block, width: int, padding: Padding, nodes: int, most: int
) -> list[geometries.Geometry]:
    """Return the geometries of a width whose code is not too large, the narrowest group first."""
    legal = geometries.legal_geometries(block)
    found = (g for g in legal if g.width == width and g.padding == padding)
    return sorted((g for g in found if g.strips * nodes <= most), key=lambda g: g.strips)
