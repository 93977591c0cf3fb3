"""The vector widths that a block allows, and the share of active lanes of each."""

from typing import Final

from vgpu_sim.exec.jit.ir.ssa import SsaFunction
from vgpu_sim.exec.jit.planning.plan import Block
from vgpu_sim.exec.jit.progress import wait_points
from vgpu_sim.exec.jit.shapes import geometry as geometries
from vgpu_sim.exec.jit.shapes.geometry import Padding

# The value of a lane in padded geometries: rows with masked ends, a line with one masked end, a
# line on which thread indices are computed, so that accesses by them gather.
_MASKED: Final = 0.6
_ENDING: Final = 0.95
_COMPUTED: Final = 0.25


def shapes(ssa: SsaFunction, block: Block, vector_bits: int) -> list[tuple[int, Padding]]:
    """Return the legal vector widths, each with its padding. The width and padding with the most
    active lanes come first.
    """
    padded_widths = _shapes(block, min(geometries.MAX_WIDTH, vector_bits // 32))
    if wait_points.has_local_memory(ssa):
        return [(width, padding) for width, padding in padded_widths if padding == Padding.NONE]
    return padded_widths


def _shapes(block: Block, widest: int) -> list[tuple[int, Padding]]:
    busy: dict[tuple[int, Padding], float] = {}
    width = widest
    while width > 1:
        if block[0] % width == 0:
            busy[width, Padding.NONE] = width
        for padding in (Padding.ROWS, Padding.LINE):
            geometry = geometries.Geometry(block, width, 1, padding)
            if geometry.is_legal:
                known = all(axis is not None for axis in geometry.axes())
                worth = _MASKED if padding == Padding.ROWS else _ENDING if known else _COMPUTED
                busy[width, padding] = worth * width * geometry.threads / geometry.slots
        width //= 2
    return [*sorted(busy, key=lambda shape: (-busy[shape], shape)), (1, Padding.NONE)]


def geometries_within_size(
    block: Block, width: int, padding: Padding, nodes: int, size_limit: int
) -> list[geometries.Geometry]:
    """Return the geometries with this width and padding whose code size is at most ``size_limit``,
    the smallest group first.

    ``nodes`` is the code size of one vector.
    """
    legal = geometries.legal_geometries(block)
    candidates = (g for g in legal if g.width == width and g.padding == padding)
    return sorted(
        (g for g in candidates if g.vectors * nodes <= size_limit), key=lambda g: g.vectors
    )
