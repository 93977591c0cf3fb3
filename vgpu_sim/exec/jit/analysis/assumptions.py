"""Assumptions about the lanes of a group, each with the fallback that runs if it does not hold.

PTX allows a 32-bit index to wrap around, and a select to take different operands near an edge.
In nearly all groups neither happens, so the fast version is compiled for groups in which it does
not. Each assumption has one run-time test (``values.assumption_tests``) and one fallback:

=============  ==================================================  ========
assumption     condition                                           fallback
=============  ==================================================  ========
``Extended``   integers at known distances from each other do not  LANES
               wrap around before they are extended to 64 bits
``Summed``     linear sums of shared values do not wrap around     MASKS
``Chosen``     all lanes take the same operand of a select         MASKS
``Row``        no integer in an address wraps around, so that the  APART
               lanes read contiguous elements
``Family``     the indices of several loads, at known distances    APART
               from each other, do not wrap: they become one load
=============  ==================================================  ========

A group may only start over if nothing outside it can observe what it has done so far
(``may_restart``). After that point, each access has a fallback of its own.
"""

from enum import Enum
from typing import ClassVar

from vgpu_sim.exec.jit.ir.ssa import Operation, Source, Value
from vgpu_sim.exec.jit.shapes.lane_shapes import LaneShape, PerVector, Vector
from vgpu_sim.exec.jit.shapes.linear import Linear
from vgpu_sim.isa import DataType
from vgpu_sim.records import dataclass


class Fallback(Enum):
    """Which code runs if an assumption does not hold. Each value is the label of that code."""

    MASKS = "masked"  # the group starts over in the masked version
    LANES = "restart"  # the group starts over in the exact version
    APART = "apart"  # the access runs once per lane or per load


@dataclass(frozen=True, slots=True)
class Extended:
    """The assumption that the integers in the lanes of ``source`` do not wrap around.

    The integers have type ``kind``. Those of different lanes differ by known distances.
    """

    fallback: ClassVar = Fallback.LANES
    text: ClassVar = "an index that is extended to 64 bits does not wrap around"
    source: Source
    kind: DataType


@dataclass(frozen=True, slots=True)
class Summed:
    """The assumption that a 32-bit sum does not overflow in any lane.

    ``wide`` is the same sum in 64 bits.
    """

    fallback: ClassVar = Fallback.MASKS
    text: ClassVar = "a sum that is extended to 64 bits does not wrap around"
    wide: Linear
    is_signed: bool


@dataclass(frozen=True, slots=True)
class Chosen:
    """The assumption that all lanes take the same operand of a select, the one at index ``place``.

    The condition of the select is a comparison (see ``choices``).
    """

    fallback: ClassVar = Fallback.MASKS
    text: ClassVar = "all lanes take the same operand of a choice"
    place: int


@dataclass(frozen=True, slots=True)
class Row:
    """The assumption that the lanes of a load read contiguous elements.

    It holds if no integer from which the address is computed wraps around.
    """

    fallback: ClassVar = Fallback.APART
    text: ClassVar = "lanes of a load read neighbours"


@dataclass(frozen=True, slots=True)
class Family:
    """The assumption that all loads of a family can be replaced by one load.

    ``loads`` are the family's loads, each of a single element, in the order of their addresses.
    ``index`` is the value from which the first load's address is computed; it has type ``kind``.
    The last load's index is ``index`` plus ``most``, and does not wrap around (see ``siblings``).
    """

    fallback: ClassVar = Fallback.APART
    text: ClassVar = "loads whose indices differ by known constants are one"
    loads: tuple[Operation, ...]
    index: Value
    kind: DataType
    most: int


OfGroup = Extended | Summed | Chosen
"""Assumptions about a whole group, which starts over if one does not hold."""

OfAccess = Row | Family
"""Assumptions about a single access."""


def is_row(shape: LaneShape | None, size_bytes: int, width: int) -> bool:
    """Return whether an access may be assumed to be a ``Row``.

    ``shape`` is the shape of its addresses, and ``size_bytes`` is the size of one lane's part.
    """
    if width == 1 or not isinstance(shape, Vector) or not isinstance(shape.without_wrap, PerVector):
        return False
    return shape.without_wrap.stride == size_bytes
