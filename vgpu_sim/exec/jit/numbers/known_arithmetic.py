"""Arithmetic and logic on known bits and ranges: sound, since a result covers all possible
operands.

The operands of an operation have the same width, and the result is modulo that width. A value
with an origin is an unknown integer, except in sums and differences.
"""

from vgpu_sim.exec.jit.numbers.fold_bitwise import field_count
from vgpu_sim.exec.jit.numbers.known_bits import Known, between, constant, refine_facts, unknown


def plus(a: Known, b: Known) -> Known:
    """Return the facts about ``a + b``. Nothing is known if both operands have an origin."""
    if a.origin is not None and b.origin is not None:
        return unknown(a.bits)
    zeros, ones = _add_known_bits(a.mask, (a.zeros, a.ones), (b.zeros, b.ones), 0)
    origin = b.origin if a.origin is None else a.origin
    return refine_facts(a.bits, a.low + b.low, a.span + b.span, zeros, ones, origin)


def minus(a: Known, b: Known) -> Known:
    """Return the facts about ``a - b``. If both operands have the same origin, the difference has
    no origin. If only ``b`` has an origin, or the origins differ, nothing is known.
    """
    if b.origin is not None and a.origin != b.origin:
        return unknown(a.bits)
    zeros, ones = _add_known_bits(a.mask, (a.zeros, a.ones), (b.ones, b.zeros), 1)
    origin = a.origin if b.origin is None else None
    return refine_facts(a.bits, a.low - b.low - b.span, a.span + b.span, zeros, ones, origin)


def _add_known_bits(
    mask: int, a: tuple[int, int], b: tuple[int, int], carry: int
) -> tuple[int, int]:
    """Return the known bits of ``a + b + carry``, given those of the operands and the carry in
    (LLVM's ``KnownBits::computeForAddCarry``).
    """
    maximum = (mask & ~a[0]) + (mask & ~b[0]) + carry
    minimum = a[1] + b[1] + carry
    carried = ~(maximum ^ a[0] ^ b[0]) | (minimum ^ a[1] ^ b[1])
    known = (a[0] | a[1]) & (b[0] | b[1]) & carried & mask
    return ~maximum & known, minimum & known


def times(a: Known, b: Known) -> Known:
    """Return the facts about ``a * b``."""
    a, b = a.number, b.number
    if b.span:
        a, b = b, a
    zeros = min(a.known_divisor * b.known_divisor, 1 << a.bits) - 1
    if b.span == 0:
        factor = b.signed[0]
        low = a.low if factor >= 0 else a.low + a.span
        return refine_facts(a.bits, low * factor, a.span * abs(factor), zeros)
    ranges = (_corners(a.unsigned, b.unsigned), _corners(a.signed, b.signed))
    low, high = min(ranges, key=lambda ends: ends[1] - ends[0])
    return refine_facts(a.bits, low, high - low, zeros)


def _corners(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    products = [x * y for x in a for y in b]
    return min(products), max(products)


def shifted_left(a: Known, count: Known) -> Known:
    """Return the facts about ``a << count``, which is 0 for counts of ``bits`` or more.

    The count is unsigned and may have any width.
    """
    a, places = a.number, count.constant
    if places is None:
        return refine_facts(a.bits, 0, a.mask, a.known_divisor - 1)
    if places >= a.bits:
        return constant(0, a.bits)
    below = (1 << places) - 1
    zeros, ones = (a.zeros << places | below) & a.mask, a.ones << places & a.mask
    return refine_facts(a.bits, a.low << places, a.span << places, zeros, ones)


def shifted_right(a: Known, count: Known, *, is_signed: bool) -> Known:
    """Return the facts about ``a >> count``, filled with zeros or the sign.

    Counts are treated as in ``shifted_left``.
    """
    a, places = a.number, count.constant
    if places is None:
        return unknown(a.bits)
    places = min(places, a.bits)
    low, high = a.signed if is_signed else a.unsigned
    zeros, ones = a.zeros >> places, a.ones >> places
    above, sign = a.mask & ~(a.mask >> places), 1 << a.bits - 1
    if not is_signed or a.zeros & sign:
        zeros |= above
    elif a.ones & sign:
        ones |= above
    return refine_facts(a.bits, low >> places, (high >> places) - (low >> places), zeros, ones)


def bitwise_and(a: Known, b: Known) -> Known:
    """Return the facts about ``a & b``."""
    a, b = a.number, b.number
    high = min(a.unsigned[1], b.unsigned[1])
    return refine_facts(a.bits, 0, high, a.zeros | b.zeros, a.ones & b.ones)


def bitwise_or(a: Known, b: Known) -> Known:
    """Return the facts about ``a | b``."""
    a, b = a.number, b.number
    return refine_facts(a.bits, 0, a.mask, a.zeros & b.zeros, a.ones | b.ones)


def bitwise_xor(a: Known, b: Known) -> Known:
    """Return the facts about ``a ^ b``."""
    a, b = a.number, b.number
    zeros = a.zeros & b.zeros | a.ones & b.ones
    ones = a.zeros & b.ones | a.ones & b.zeros
    return refine_facts(a.bits, 0, a.mask, zeros, ones)


def field(a: Known, position: Known, length: Known) -> Known:
    """Return the facts about the ``length`` bits of ``a`` from ``position`` on.

    See ``field_count`` for positions and lengths beyond the width.
    """
    first, count = position.constant, length.constant
    if first is None:
        shifted_facts = unknown(a.bits)
    else:
        shifted_facts = shifted_right(a, constant(field_count(first, a.bits), 32), is_signed=False)
    if count is None:
        return between(0, shifted_facts.unsigned[1], a.bits)
    return bitwise_and(shifted_facts, constant((1 << field_count(count, a.bits)) - 1, a.bits))
