"""The lattice of shapes that a value can have over the lanes of a group.

``Affine``: one scalar base for the group, an offset per strip known at compile time, and a stride
from lane to lane: lane l of strip c holds ``base + offsets[c] + stride * l``, modulo the width.
``PerStrip``: one scalar per strip and a lane stride. ``Vector``: anything; ``lanes`` holds the
values where they are known nevertheless. The base of an ``Affine`` may be known too
(``constant``); its offsets then start at zero. ``align`` is a power of two that divides the base,
at most half of all numbers there are: what lies below it does not change the sign.
Floats are affine only as uniform values: stride zero, offsets zero.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from vgpu_sim.exec.jit.shapes.geometry import Rows
from vgpu_sim.exec.jit.shapes.linear import Linear

MAX_ALIGN = 1 << 32


@dataclass(frozen=True, slots=True)
class Affine:
    """See the module; offsets and stride are signed."""

    offsets: tuple[int, ...]
    stride: int
    constant: int | None = None
    align: int = 1

    @property
    def uniform(self) -> bool:
        """Return the same value in all lanes of the group."""
        return self.stride == 0 and not any(self.offsets)


@dataclass(frozen=True, slots=True)
class PerStrip:
    """See the module."""

    stride: int = 0


@dataclass(frozen=True, slots=True)
class Vector:
    """See the module; ``strided`` marks a lane stride that is known only at run time, ``linear``
    says how lanes are made of what they share.

    ``apart`` is how far lanes are from the first one of their strip, where that alone is known,
    ``hoped`` what they are if no number of 32 bits that they are made of wraps around (``wraps``).
    """

    lanes: Rows | None = None
    strided: bool = False
    linear: Linear | None = None
    apart: Rows | None = None
    hoped: "Affine | PerStrip | None" = None


LaneShape = Affine | PerStrip | Vector


def low_bit(value: int) -> int:
    """Return the largest power of two that divides ``value`` (at most 2^32)."""
    return min(value & -value, MAX_ALIGN) if value else MAX_ALIGN


def _align(align: int, bits: int) -> int:
    return min(align, MAX_ALIGN, 1 << bits - 1)


def signed(value: int, bits: int) -> int:
    """``value`` modulo 2^bits as a signed number."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


class Algebra:
    """Operations on shapes of groups of ``strips`` strips of ``width`` lanes.

    ``bits`` is always the width of the numbers concerned.
    """

    def __init__(self, width: int, strips: int) -> None:
        self.width = width
        self.strips = strips
        self._zeros = (0,) * strips

    def uniform(self, align: int = 1) -> Affine:
        """Return a scalar known at run time."""
        return Affine(self._zeros, 0, None, align)

    def constant(self, value: int, bits: int) -> Affine:
        """Return a scalar known now."""
        value &= (1 << bits) - 1
        return Affine(self._zeros, 0, value, _align(low_bit(value), bits))

    def affine(
        self, offsets: Sequence[int], stride: int, constant: int | None, align: int, bits: int
    ) -> Affine:
        """Return an affine value in normal form."""
        if self.width == 1:
            stride = 0
        if constant is not None:
            constant += offsets[0]
            offsets = [offset - offsets[0] for offset in offsets]
            constant &= (1 << bits) - 1
            align = low_bit(constant)
        normal = tuple(signed(offset, bits) for offset in offsets)
        return Affine(normal, signed(stride, bits), constant, _align(align, bits))

    def from_lanes(self, rows: Rows, bits: int) -> LaneShape:
        """Return the simplest shape that has these values."""
        mask = (1 << bits) - 1
        rows = tuple(tuple(value & mask for value in row) for row in rows)
        stride = rows[0][1] - rows[0][0] if self.width > 1 else 0
        for row in rows:
            if any((row[0] + stride * lane) & mask != value for lane, value in enumerate(row)):
                return Vector(rows)
        return self.affine([row[0] for row in rows], stride, 0, 1, bits)

    def from_axis(self, rows: Rows, align: int | None) -> LaneShape:
        """Thread indices (32 bits): known up to a base that is a multiple of ``align``."""
        shape = self.from_lanes(rows, 32)
        if align is None:
            return shape
        if not isinstance(shape, Affine):
            return Vector()
        assert shape.constant is not None
        offsets = [offset + shape.constant for offset in shape.offsets]
        return self.affine(offsets, shape.stride, None, low_bit(align), 32)

    def lanes(self, shape: LaneShape, bits: int) -> Rows | None:
        """Return all lanes' values (as unsigned numbers), if they are known."""
        if isinstance(shape, Vector):
            return shape.lanes
        if isinstance(shape, PerStrip) or shape.constant is None:
            return None
        mask = (1 << bits) - 1
        return tuple(
            tuple(
                (shape.constant + offset + shape.stride * lane) & mask for lane in range(self.width)
            )
            for offset in shape.offsets
        )

    def distances(self, shape: LaneShape, bits: int) -> Rows | None:
        """Return how far each lane is from the first one of its strip, if that is known."""
        if not isinstance(shape, Vector):
            row = tuple(signed(shape.stride * lane, bits) for lane in range(self.width))
            return (row,) * self.strips
        if shape.lanes is None:
            return shape.apart
        return tuple(tuple(signed(value - row[0], bits) for value in row) for row in shape.lanes)

    @staticmethod
    def _summed(a: Rows | None, b: Rows | None, sign: int) -> Rows | None:
        if a is None or b is None:
            return None
        return tuple(
            tuple(x + sign * y for x, y in zip(one, other, strict=True))
            for one, other in zip(a, b, strict=True)
        )

    def evaluate(
        self, function: Callable[..., int], shapes: Sequence[LaneShape], widths: Sequence[int]
    ) -> Rows | None:
        """Apply ``function`` lane by lane where all lanes of all operands are known."""
        rows = []
        for shape, bits in zip(shapes, widths, strict=True):
            known = self.lanes(shape, bits)
            if known is None:
                return None
            rows.append(known)
        if not rows:
            return None
        if all(isinstance(e, Affine) and e.uniform for e in shapes):
            value = function(*(row[0][0] for row in rows))
            return ((value,) * self.width,) * self.strips
        return tuple(
            tuple(function(*(row[strip][lane] for row in rows)) for lane in range(self.width))
            for strip in range(self.strips)
        )

    def generic(self, shapes: Sequence[LaneShape]) -> LaneShape:
        """Return the result of an operation without algebra: only equal lanes give equal lanes."""
        if all(isinstance(e, Affine) and e.uniform for e in shapes):
            return self.uniform()
        if any(isinstance(e, Vector) or e.stride for e in shapes):
            return Vector()
        return PerStrip(0)

    def add(self, a: LaneShape, b: LaneShape, sign: int, bits: int) -> LaneShape:
        """``a + sign * b``."""
        if isinstance(a, Vector) or isinstance(b, Vector):
            apart = self._summed(self.distances(a, bits), self.distances(b, bits), sign)
            x, y = _hoped(a), _hoped(b)
            hoped = None if x is None or y is None else self.add(x, y, sign, bits)
            assert not isinstance(hoped, Vector)
            return Vector(strided=_strided(a) or _strided(b), apart=apart, hoped=hoped)
        if isinstance(a, Affine) and isinstance(b, Affine):
            constant = None
            if a.constant is not None and b.constant is not None:
                constant = a.constant + sign * b.constant
            offsets = [x + sign * y for x, y in zip(a.offsets, b.offsets, strict=True)]
            stride = a.stride + sign * b.stride
            return self.affine(offsets, stride, constant, min(a.align, b.align), bits)
        return PerStrip(signed(a.stride + sign * b.stride, bits))

    def multiply(self, a: LaneShape, b: LaneShape, bits: int) -> LaneShape:
        """``a * b``; keeps the shape when a factor is a known scalar."""
        for x, y in ((a, b), (b, a)):
            if isinstance(y, Affine) and y.uniform and y.constant is not None:
                return self.scale(x, signed(y.constant, bits), bits)
        result = self.generic([a, b])
        if isinstance(result, Vector) and not isinstance(a, Vector) and not isinstance(b, Vector):
            return Vector(strided=a.stride == 0 or b.stride == 0)
        return result

    def scale(self, a: LaneShape, factor: int, bits: int) -> LaneShape:
        """``a * factor``."""
        if isinstance(a, Vector):
            apart = self.distances(a, bits)
            if apart is not None:
                apart = tuple(tuple(signed(far * factor, bits) for far in row) for row in apart)
            hoped = None if a.hoped is None else self.scale(a.hoped, factor, bits)
            assert not isinstance(hoped, Vector)
            return Vector(strided=a.strided, apart=apart, hoped=hoped)
        if isinstance(a, PerStrip):
            return PerStrip(signed(a.stride * factor, bits))
        constant = None if a.constant is None else a.constant * factor
        offsets = [offset * factor for offset in a.offsets]
        align = a.align * low_bit(factor)
        return self.affine(offsets, a.stride * factor, constant, align, bits)

    def truncate(self, a: LaneShape, bits: int) -> LaneShape:
        """Return the low ``bits`` of ``a``."""
        if isinstance(a, Vector):
            if a.lanes is not None:
                return self.from_lanes(a.lanes, bits)
            apart = a.apart and tuple(tuple(signed(far, bits) for far in row) for row in a.apart)
            return replace(a, linear=None, apart=apart, hoped=None)
        if isinstance(a, PerStrip):
            return PerStrip(signed(a.stride, bits))
        return self.affine(a.offsets, a.stride, a.constant, a.align, bits)

    def may_wrap(self, shape: "Affine | PerStrip") -> bool:
        """Return whether a lane may wrap around while the first one does not."""
        return shape.stride != 0 and not (isinstance(shape, Affine) and self.fits(shape))

    def fits(self, a: Affine) -> bool:
        """Return whether alignment proves that no lane wraps around, signed or unsigned."""
        low, high = self.extent(a)
        return low >= 0 and high < a.align

    def extent(self, a: Affine | PerStrip) -> tuple[int, int]:
        """Least and greatest distance of a lane from the base (from its strip's scalar)."""
        reach = a.stride * (self.width - 1)
        offsets = a.offsets if isinstance(a, Affine) else (0,)
        return min(offsets) + min(0, reach), max(offsets) + max(0, reach)

    def above_base(self, a: Affine) -> list[list[int]]:
        """Return how far each lane is from the base."""
        lanes = range(self.width)
        return [[offset + a.stride * lane for lane in lanes] for offset in a.offsets]

    def join(self, a: LaneShape, b: LaneShape) -> LaneShape:
        """Return the least shape above both: what a phi that never mixes lanes holds."""
        if a == b:
            return a
        if isinstance(a, Vector) or isinstance(b, Vector):
            return Vector(strided=_strided(a) or _strided(b))
        if a.stride != b.stride:
            return Vector()
        if isinstance(a, Affine) and isinstance(b, Affine) and a.offsets == b.offsets:
            constant = a.constant if a.constant == b.constant else None
            return replace(a, constant=constant, align=math.gcd(a.align, b.align))
        return PerStrip(a.stride)


def _hoped(shape: LaneShape) -> "Affine | PerStrip | None":
    return shape.hoped if isinstance(shape, Vector) else shape


def _strided(shape: LaneShape) -> bool:
    return isinstance(shape, Vector) and shape.strided


def scalar_of(shape: LaneShape) -> int | None:
    """Return the number that all lanes are known to have."""
    if isinstance(shape, Affine) and shape.uniform:
        return shape.constant
    return None
