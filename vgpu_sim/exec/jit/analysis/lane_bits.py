"""Bitwise logic on lanes whose base has zeros in the bits that differ between lanes.

The rules are for ``x op y``, where x is an aligned base plus a distance below that alignment in
each lane, and the lanes of y are known: thread indices combined with bit fields, exchanged bit
by bit (XOR), or rounded down.
"""

from collections.abc import Callable

from vgpu_sim.exec.jit.numbers import fold
from vgpu_sim.exec.jit.shapes.lane_shapes import Affine, Algebra, LaneShape, low_bit
from vgpu_sim.isa import Op


def shape(algebra: Algebra, op: Op, shapes: list[LaneShape], bits: int) -> LaneShape | None:
    """Return the shape of ``x op y``, given the ``shapes`` of x and y.

    Return None if the result is not known to be a common base plus a known distance for each
    lane. The emitted scalar is ``op`` applied to the bases of x and y. The returned distances
    are relative to that scalar.
    """
    function = fold.LOGIC[op]
    for x, y in (shapes, shapes[::-1]):
        if isinstance(x, Affine) and isinstance(y, Affine):
            joined = _join(algebra, function, x, y, bits)
            if joined is not None:
                return joined
    return None


def _join(
    algebra: Algebra, function: Callable[[int, int], int], x: Affine, y: Affine, bits: int
) -> LaneShape | None:
    rows = algebra.lanes(y, bits)
    if rows is None or y.constant is None or not algebra.fits(x):
        return None
    above = -x.align & (1 << bits) - 1  # bits in which the base may have ones
    high_parts = {function(above, value & above) for row in rows for value in row}
    if high_parts != {above} or any(
        function(0, value & above) & above for row in rows for value in row
    ):
        return None
    first, below = function(0, y.constant) & ~above, ~above & (1 << bits) - 1
    distances = algebra.from_lanes(
        tuple(
            tuple(
                (function(offset + x.stride * lane, value) & below) - first
                for lane, value in enumerate(row)
            )
            for offset, row in zip(x.offsets, rows, strict=True)
        ),
        bits,
    )
    if not isinstance(distances, Affine):
        return None
    assert distances.constant is not None
    offsets = [offset + distances.constant for offset in distances.offsets]
    return algebra.affine(offsets, distances.stride, None, min(x.align, low_bit(first)), bits)
