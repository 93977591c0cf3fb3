"""The abstract domain of integers, which combines LLVM's KnownBits and ConstantRange.

A value is an origin (a pointer or nothing) plus an integer modulo 2^bits. Two facts are kept
about the integer, each of which refines the other: an interval, which may wrap around, and the
known bits. Divisors are represented as known trailing zeros.
"""

import functools
from typing import Final

from vgpu_sim.records import dataclass

_KEPT: Final = 4096

SEGMENT: Final = -1
WINDOW: Final = -2
WINDOW_HALF: Final = -3
"""Origins other than parameters, which are identified by their offsets: the module's segment, the
generic address of shared memory, and the upper half of that address as an integer.
"""


@dataclass(frozen=True, slots=True)
class Known:
    """The facts about a value. The value is ``origin`` plus an integer of ``bits`` bits.

    The integer is one of ``low``, ``low + 1``, ..., ``low + span`` modulo 2^bits. Its bits in
    the mask ``zeros`` are 0, and its bits in the mask ``ones`` are 1. ``origin`` identifies a
    pointer; it is None if the value is only the integer.

    Create a ``Known`` with ``refine_facts``. That function refines the interval by the known
    bits, and the known bits by the interval.
    """

    bits: int
    low: int
    span: int
    zeros: int
    ones: int
    origin: int | None = None

    @property
    def mask(self) -> int:
        """A bit mask with all ``bits`` bits of the integer set."""
        return (1 << self.bits) - 1

    @property
    def unsigned(self) -> tuple[int, int]:
        """The smallest and largest possible value, as unsigned integers."""
        high = self.low + self.span
        return (self.low, high) if high <= self.mask else (0, self.mask)

    @property
    def signed(self) -> tuple[int, int]:
        """The smallest and largest possible value, as signed integers."""
        half = 1 << self.bits - 1
        low = (self.low + half) & self.mask
        if low + self.span <= self.mask:
            return low - half, low + self.span - half
        return -half, half - 1

    @property
    def magnitude(self) -> int:
        """The largest absolute value that the integer may have, interpreted as signed."""
        low, high = self.signed
        return max(-low, high)

    @property
    def known_divisor(self) -> int:
        """The largest power of two, up to 2^bits, that is known to divide the integer."""
        return ~self.zeros & (self.zeros + 1)

    @property
    def constant(self) -> int | None:
        """The value of the integer if only one is possible, else None."""
        return self.low if self.span == 0 and self.origin is None else None

    @property
    def possible(self) -> int:
        """A bit mask of the bits that may be set in the integer."""
        return self.mask & ~self.zeros if self.origin is None else self.mask

    @property
    def number(self) -> "Known":
        """The facts about the value as a plain integer. If the value has an origin, nothing is
        known.
        """
        return self if self.origin is None else unknown(self.bits)

    def contains(self, number: int) -> bool:
        """Return whether the integer may have the bit pattern ``number``."""
        inside = (number - self.low) & self.mask <= self.span
        return inside and not number & self.zeros and not ~number & self.ones


@functools.cache
def unknown(bits: int) -> Known:
    """Return the facts that hold for any value."""
    return Known(bits, 0, (1 << bits) - 1, 0, 0)


@functools.lru_cache(_KEPT)
def constant(value: int, bits: int) -> Known:
    """Return the facts about a constant, truncated to ``bits``."""
    value &= (1 << bits) - 1
    return Known(bits, value, 0, (1 << bits) - 1 & ~value, value)


def between(low: int, high: int, bits: int, origin: int | None = None) -> Known:
    """Return the facts about an integer that is at least ``low`` and at most ``high``. Both bounds
    may be negative.
    """
    return refine_facts(bits, low, high - low, origin=origin)


@functools.lru_cache(_KEPT)
def multiple_of(power: int, bits: int, origin: int | None = None) -> Known:
    """Return the facts about any multiple of ``power``, a power of two."""
    mask = (1 << bits) - 1
    return refine_facts(bits, 0, mask, power - 1 & mask, origin=origin)


def refine_facts(
    bits: int, low: int, span: int, zeros: int = 0, ones: int = 0, origin: int | None = None
) -> Known:
    """Return the facts that follow from an interval and from known bits. The interval refines the
    known bits, and the known bits refine the interval.
    """
    mask = (1 << bits) - 1
    if zeros & ones:
        return unknown(bits)  # contradictory facts: unreachable code
    if span >= mask:
        if not zeros and not ones and origin is None:
            return unknown(bits)
        low, span = 0, mask
    low &= mask
    minimum, maximum = ones, mask & ~zeros
    if low + span > mask:
        if maximum - minimum < span:
            low, span = minimum, maximum - minimum
    else:
        first, last = max(low, minimum), min(low + span, maximum)
        if first <= last:
            low, span = first, last - first
    if low + span <= mask:
        above = mask & ~((1 << (low ^ low + span).bit_length()) - 1)
        zeros |= above & ~low
        ones |= above & low
        if zeros & ones:
            return unknown(bits)
    return Known(bits, low, span, zeros, ones, origin)


def either(a: Known, b: Known) -> Known:
    """Return the facts that hold both for the value ``a`` and for the value ``b``."""
    if a == b:
        return a
    if a.origin != b.origin:
        return unknown(a.bits)
    forward = max(a.span, (b.low - a.low & a.mask) + b.span)
    backward = max(b.span, (a.low - b.low & a.mask) + a.span)
    low, span = (a.low, forward) if forward <= backward else (b.low, backward)
    return refine_facts(a.bits, low, span, a.zeros & b.zeros, a.ones & b.ones, a.origin)


def resize(a: Known, bits: int, *, is_signed: bool = False) -> Known:
    """Return the facts about ``a``, truncated, or sign- or zero-extended, to ``bits``."""
    if bits == a.bits:
        return a
    if bits < a.bits:
        a, mask = a.number, (1 << bits) - 1
        return refine_facts(bits, a.low, a.span, a.zeros & mask, a.ones & mask)
    a = a.number
    low, high = a.signed if is_signed else a.unsigned
    above = (1 << bits) - (1 << a.bits)
    sign = 1 << a.bits - 1
    zeros, ones = a.zeros, a.ones
    if not is_signed or zeros & sign:
        zeros |= above
    elif ones & sign:
        ones |= above
    return refine_facts(bits, low, high - low, zeros, ones)
