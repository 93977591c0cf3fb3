"""What code assumes of lanes, and what runs where that does not hold.

By the rules of PTX an index of 32 bits may wrap around, and a choice may fall differently at an
edge; in nearly all groups neither happens. So code is written for groups in which it does not. Each
such assumption has one test (``values.assumption_tests``), and one fallback:

=============  ==================================================  ========
assumption     what is assumed                                     fallback
=============  ==================================================  ========
``Extended``   numbers known distances apart end below the last    LANES
               one of their type before they are made 64 bits wide
``Summed``     sums of what lanes share do                         MASKS
``Chosen``     all lanes take one operand of a choice              MASKS
``Row``        nothing that an address is made of wraps around:    APART
               lanes read neighbours
``Family``     the indices of loads, known distances apart, do     APART
               not wrap around: they are one load
=============  ==================================================  ========

A group that starts over must have had no effect that another group can see (``may_restart``);
behind that, accesses fall back by themselves.
"""

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from vgpu_sim.exec.jit.ir.ssa import Operation, Source, Value
from vgpu_sim.exec.jit.shapes.lane_shapes import LaneShape, PerStrip, Vector
from vgpu_sim.exec.jit.shapes.linear import Linear
from vgpu_sim.isa import DataType


class Fallback(Enum):
    """What runs where an assumption does not hold. The value is the label that a test leads to."""

    MASKS = "masked"  # the group starts over, in the version that makes no choices
    LANES = "restart"  # the group starts over, in the exact version
    APART = "apart"  # lanes or loads one by one, at the access


@dataclass(frozen=True, slots=True)
class Extended:
    """``source``, whose lanes are known distances apart, wraps around in no lane."""

    fallback: ClassVar = Fallback.LANES
    text: ClassVar = "an index that is extended to 64 bits does not wrap around"
    source: Source
    kind: DataType


@dataclass(frozen=True, slots=True)
class Summed:
    """No lane's sum leaves 32 bits; ``wide`` is the sum in 64 bits."""

    fallback: ClassVar = Fallback.MASKS
    text: ClassVar = "a sum that is extended to 64 bits does not wrap around"
    wide: Linear
    is_signed: bool


@dataclass(frozen=True, slots=True)
class Chosen:
    """All lanes take operand ``place`` of a choice by a comparison (``choices``)."""

    fallback: ClassVar = Fallback.MASKS
    text: ClassVar = "all lanes take the same operand of a choice"
    place: int


@dataclass(frozen=True, slots=True)
class Row:
    """Lanes read neighbours, as they do if no number that their address is made of wraps around."""

    fallback: ClassVar = Fallback.APART
    text: ClassVar = "lanes of a load read neighbours"


@dataclass(frozen=True, slots=True)
class Family:
    """Loads by their addresses, of one element each, and the first one's index, of ``kind``; the
    last one's, ``most`` further, does not wrap around (``siblings``)."""

    fallback: ClassVar = Fallback.APART
    text: ClassVar = "loads whose indices are known distances apart are one"
    loads: tuple[Operation, ...]
    index: Value
    kind: DataType
    most: int


OfGroup = Extended | Summed | Chosen
"""What is assumed of a whole group, which starts over where it does not hold."""

OfAccess = Row | Family
"""What is assumed of an access alone."""


def is_row(shape: LaneShape | None, size_bytes: int, width: int) -> bool:
    """Return whether lanes that access so many bytes each may be assumed to be a ``Row``."""
    if width == 1 or not isinstance(shape, Vector) or not isinstance(shape.hoped, PerStrip):
        return False
    return shape.hoped.stride == size_bytes
