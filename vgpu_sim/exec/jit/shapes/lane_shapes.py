"""The lattice of shapes: how a value may vary over the lanes of a group.

``Affine``: one scalar base for the group, an offset per vector known at compile time, and a stride
from lane to lane: lane l of vector v holds ``base + offsets[v] + stride * l``, modulo the width.
``PerVector``: one scalar per vector and a lane stride. ``Vector``: arbitrary lanes; ``lanes`` holds
their values if they are known. The base of an ``Affine`` may be known too (``constant``); its
offsets then start at zero. ``align`` is a power of two that divides the base, at most half of the
value range, so that the bits below it exclude the sign. Floats are affine only if uniform: stride
and offsets are zero.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from vgpu_sim.exec.jit.shapes.geometry import Rows
from vgpu_sim.exec.jit.shapes.linear import Linear
from vgpu_sim.records import dataclass

MAX_ALIGN = 1 << 32


@dataclass(frozen=True, slots=True)
class Affine:
    """A shape with one base, an offset per vector, and a stride between lanes (see the module).

    Offsets and stride are signed.
    """

    offsets: tuple[int, ...]
    stride: int
    constant: int | None = None
    align: int = 1

    @property
    def uniform(self) -> bool:
        """Return whether all lanes of the group have the same value."""
        return self.stride == 0 and not any(self.offsets)


@dataclass(frozen=True, slots=True)
class PerVector:
    """A shape with one scalar per vector, and a stride between lanes (see the module)."""

    stride: int = 0


@dataclass(frozen=True, slots=True)
class Vector:
    """A shape for arbitrary lanes. The fields describe what is known about these lanes (see the
    module).

    ``strided`` states that the lanes have a stride that is known only at run time. ``linear``
    expresses the lanes as sums of shared values. ``apart`` has the distances of the lanes from
    the first lane of their vector, if only the distances are known. ``without_wrap`` is the
    shape under the assumption that no 32-bit integer from which the lanes are computed wraps
    around (see ``wraps``).
    """

    lanes: Rows | None = None
    strided: bool = False
    linear: Linear | None = None
    apart: Rows | None = None
    without_wrap: "Affine | PerVector | None" = None


LaneShape = Affine | PerVector | Vector


def low_bit(value: int) -> int:
    """Return the largest power of two that divides ``value`` (at most 2^32)."""
    return min(value & -value, MAX_ALIGN) if value else MAX_ALIGN


def _align(align: int, bits: int) -> int:
    return min(align, MAX_ALIGN, 1 << bits - 1)


def to_signed(value: int, bits: int) -> int:
    """Return ``value`` modulo 2^bits as a signed integer."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


class Algebra:
    """Operations on the shapes of values. The values are those of a group of ``vectors`` vectors
    with ``width`` lanes each.

    ``bits`` is always the width of the integers concerned.
    """

    def __init__(self, width: int, vectors: int) -> None:
        self.width = width
        self.vectors = vectors
        self._zeros = (0,) * vectors

    def uniform(self, align: int = 1) -> Affine:
        """Return the shape of a uniform value that is known only at run time."""
        return Affine(self._zeros, 0, None, align)

    def constant(self, value: int, bits: int) -> Affine:
        """Return the shape of a uniform constant."""
        value &= (1 << bits) - 1
        return Affine(self._zeros, 0, value, _align(low_bit(value), bits))

    def affine(
        self, offsets: Sequence[int], stride: int, constant: int | None, align: int, bits: int
    ) -> Affine:
        """Return an affine shape in normal form."""
        if self.width == 1:
            stride = 0
        if constant is not None:
            constant += offsets[0]
            offsets = [offset - offsets[0] for offset in offsets]
            constant &= (1 << bits) - 1
            align = low_bit(constant)
        normal = tuple(to_signed(offset, bits) for offset in offsets)
        return Affine(normal, to_signed(stride, bits), constant, _align(align, bits))

    def from_lanes(self, rows: Rows, bits: int) -> LaneShape:
        """Return the simplest shape that describes lanes with the values ``rows``."""
        mask = (1 << bits) - 1
        rows = tuple(tuple(value & mask for value in row) for row in rows)
        stride = rows[0][1] - rows[0][0] if self.width > 1 else 0
        for row in rows:
            if any((row[0] + stride * lane) & mask != value for lane, value in enumerate(row)):
                return Vector(rows)
        return self.affine([row[0] for row in rows], stride, 0, 1, bits)

    def from_axis(self, rows: Rows, align: int | None) -> LaneShape:
        """Return the shape of thread indices (32 bits).

        The indices are ``rows`` plus an unknown base that is a multiple of ``align``. If
        ``align`` is None, the base is 0.
        """
        shape = self.from_lanes(rows, 32)
        if align is None:
            return shape
        if not isinstance(shape, Affine):
            return Vector()
        assert shape.constant is not None
        offsets = [offset + shape.constant for offset in shape.offsets]
        return self.affine(offsets, shape.stride, None, low_bit(align), 32)

    def lanes(self, shape: LaneShape, bits: int) -> Rows | None:
        """Return the values of all lanes as unsigned integers; None if the values are not known."""
        if isinstance(shape, Vector):
            return shape.lanes
        if isinstance(shape, PerVector) or shape.constant is None:
            return None
        mask = (1 << bits) - 1
        return tuple(
            tuple(
                (shape.constant + offset + shape.stride * lane) & mask for lane in range(self.width)
            )
            for offset in shape.offsets
        )

    def distances(self, shape: LaneShape, bits: int) -> Rows | None:
        """Return each lane's distance from the first lane of its vector, if known."""
        if not isinstance(shape, Vector):
            row = tuple(to_signed(shape.stride * lane, bits) for lane in range(self.width))
            return (row,) * self.vectors
        if shape.lanes is None:
            return shape.apart
        return tuple(tuple(to_signed(value - row[0], bits) for value in row) for row in shape.lanes)

    @staticmethod
    def _sum(a: Rows | None, b: Rows | None, sign: int) -> Rows | None:
        if a is None or b is None:
            return None
        return tuple(
            tuple(x + sign * y for x, y in zip(a_row, b_row, strict=True))
            for a_row, b_row in zip(a, b, strict=True)
        )

    def evaluate(
        self, function: Callable[..., int], shapes: Sequence[LaneShape], widths: Sequence[int]
    ) -> Rows | None:
        """Return the results of ``function``, evaluated lane by lane on the operands' values.

        Return None unless all lanes of all operands are known.
        """
        if not shapes or not all(map(_has_known_lanes, shapes)):
            return None
        numbers = [_uniform_number(shape, bits) for shape, bits in zip(shapes, widths, strict=True)]
        if None not in numbers:
            return ((function(*numbers),) * self.width,) * self.vectors
        operand_rows = [self.lanes(shape, bits) for shape, bits in zip(shapes, widths, strict=True)]
        rows = [row for row in operand_rows if row is not None]
        return tuple(
            tuple(function(*(row[part][lane] for row in rows)) for lane in range(self.width))
            for part in range(self.vectors)
        )

    def generic(self, shapes: Sequence[LaneShape]) -> LaneShape:
        """Return the shape of an arbitrary operation's result: uniform only if all operands are."""
        if all(isinstance(e, Affine) and e.uniform for e in shapes):
            return self.uniform()
        if any(isinstance(e, Vector) or e.stride for e in shapes):
            return Vector()
        return PerVector(0)

    def add(self, a: LaneShape, b: LaneShape, sign: int, bits: int) -> LaneShape:
        """Return the shape of ``a + sign * b``."""
        if isinstance(a, Vector) or isinstance(b, Vector):
            apart = self._sum(self.distances(a, bits), self.distances(b, bits), sign)
            x, y = _shape_without_wrap(a), _shape_without_wrap(b)
            without_wrap = None if x is None or y is None else self.add(x, y, sign, bits)
            assert not isinstance(without_wrap, Vector)
            return Vector(
                strided=_is_strided(a) or _is_strided(b), apart=apart, without_wrap=without_wrap
            )
        if isinstance(a, Affine) and isinstance(b, Affine):
            constant = None
            if a.constant is not None and b.constant is not None:
                constant = a.constant + sign * b.constant
            offsets = [x + sign * y for x, y in zip(a.offsets, b.offsets, strict=True)]
            stride = a.stride + sign * b.stride
            return self.affine(offsets, stride, constant, min(a.align, b.align), bits)
        return PerVector(to_signed(a.stride + sign * b.stride, bits))

    def multiply(self, a: LaneShape, b: LaneShape, bits: int) -> LaneShape:
        """Return the shape of ``a * b``. If one factor is a constant, scale the shape of the other
        factor.
        """
        for x, y in ((a, b), (b, a)):
            if isinstance(y, Affine) and y.uniform and y.constant is not None:
                return self.scale(x, to_signed(y.constant, bits), bits)
        result = self.generic([a, b])
        if isinstance(result, Vector) and not isinstance(a, Vector) and not isinstance(b, Vector):
            return Vector(strided=a.stride == 0 or b.stride == 0)
        return result

    def scale(self, a: LaneShape, factor: int, bits: int) -> LaneShape:
        """Return the shape of ``a * factor``."""
        if isinstance(a, Vector):
            apart = self.distances(a, bits)
            if apart is not None:
                apart = tuple(tuple(to_signed(far * factor, bits) for far in row) for row in apart)
            without_wrap = (
                None if a.without_wrap is None else self.scale(a.without_wrap, factor, bits)
            )
            assert not isinstance(without_wrap, Vector)
            return Vector(strided=a.strided, apart=apart, without_wrap=without_wrap)
        if isinstance(a, PerVector):
            return PerVector(to_signed(a.stride * factor, bits))
        constant = None if a.constant is None else a.constant * factor
        offsets = [offset * factor for offset in a.offsets]
        align = a.align * low_bit(factor)
        return self.affine(offsets, a.stride * factor, constant, align, bits)

    def truncate(self, a: LaneShape, bits: int) -> LaneShape:
        """Return the shape of the low ``bits`` of a value with shape ``a``."""
        if isinstance(a, Vector):
            if a.lanes is not None:
                return self.from_lanes(a.lanes, bits)
            apart = a.apart and tuple(tuple(to_signed(far, bits) for far in row) for row in a.apart)
            return replace(a, linear=None, apart=apart, without_wrap=None)
        if isinstance(a, PerVector):
            return PerVector(to_signed(a.stride, bits))
        return self.affine(a.offsets, a.stride, a.constant, a.align, bits)

    def may_wrap(self, shape: "Affine | PerVector") -> bool:
        """Return whether a lane may wrap around although the first lane does not."""
        return shape.stride != 0 and not (isinstance(shape, Affine) and self.fits(shape))

    def fits(self, a: Affine) -> bool:
        """Return whether the alignment of the base proves two facts: no lane wraps around as a
        signed integer, and none as an unsigned integer.
        """
        low, high = self.extent(a)
        return low >= 0 and high < a.align

    def extent(self, a: Affine | PerVector) -> tuple[int, int]:
        """Return the smallest and largest distance of a lane from the base.

        For a ``PerVector``, these are distances from the vector's scalar.
        """
        reach = a.stride * (self.width - 1)
        offsets = a.offsets if isinstance(a, Affine) else (0,)
        return min(offsets) + min(0, reach), max(offsets) + max(0, reach)

    def above_base(self, a: Affine) -> list[list[int]]:
        """Return each lane's distance from the group's base."""
        lanes = range(self.width)
        return [[offset + a.stride * lane for lane in lanes] for offset in a.offsets]

    def join(self, a: LaneShape, b: LaneShape) -> LaneShape:
        """Return the join of two shapes: the shape of a phi at which all lanes arrive over the same
        edge.
        """
        if a == b:
            return a
        if isinstance(a, Vector) or isinstance(b, Vector):
            return Vector(strided=_is_strided(a) or _is_strided(b))
        if a.stride != b.stride:
            return Vector()
        if isinstance(a, Affine) and isinstance(b, Affine) and a.offsets == b.offsets:
            constant = a.constant if a.constant == b.constant else None
            return replace(a, constant=constant, align=math.gcd(a.align, b.align))
        return PerVector(a.stride)


def _shape_without_wrap(shape: LaneShape) -> "Affine | PerVector | None":
    return shape.without_wrap if isinstance(shape, Vector) else shape


def _is_strided(shape: LaneShape) -> bool:
    return isinstance(shape, Vector) and shape.strided


def scalar_of(shape: LaneShape) -> int | None:
    """Return the constant that all lanes are known to hold, or None."""
    if isinstance(shape, Affine) and shape.uniform:
        return shape.constant
    return None


def _has_known_lanes(shape: LaneShape) -> bool:
    """Return whether ``Algebra.lanes`` returns the values of ``shape``."""
    if isinstance(shape, Vector):
        return shape.lanes is not None
    return isinstance(shape, Affine) and shape.constant is not None


def _uniform_number(shape: LaneShape, bits: int) -> int | None:
    """Return the value of all lanes of a uniform constant; None for other shapes."""
    if not isinstance(shape, Affine) or shape.constant is None or not shape.uniform:
        return None
    return (shape.constant + shape.offsets[0]) & (1 << bits) - 1
