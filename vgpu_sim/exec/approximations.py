"""The algorithms of the approximate instructions, written once for both backends.

Each is a few operations, every one rounded to nearest and none fused unless stated, so that
numpy's arrays and LLVM's vectors yield the same bits. Powers of two, the most frequent in
kernels (softmax, attention), are computed in binary32, the others in binary64: their arguments
are binary32 numbers, widened, and the caller rounds results to binary32. binary64 has 29 bits to
spare, so that all errors before that last rounding are small: the polynomials are minimax fits
(Remez) with a relative error below 2^-30.
"""

from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

# The coefficients of (2^f - 1) / f for |f| <= 1/2, in powers of f; in binary32 the relative error
# of 2^f is below 2^-28.
_POWER: Final = (
    float.fromhex("0x1.62e430p-1"),
    float.fromhex("0x1.ebfbdcp-3"),
    float.fromhex("0x1.c6aee8p-5"),
    float.fromhex("0x1.3b2d4cp-7"),
    float.fromhex("0x1.5f3e54p-10"),
    float.fromhex("0x1.41fbbcp-13"),
)
# the same in binary64
_EXPONENTIAL: Final = (
    float.fromhex("0x1.62e42fefd3297p-1"),
    float.fromhex("0x1.ebfbe0452f86ap-3"),
    float.fromhex("0x1.c6b08cb17698bp-5"),
    float.fromhex("0x1.3b2a1c36b6851p-7"),
    float.fromhex("0x1.5d88bd9c9559ap-10"),
    float.fromhex("0x1.443f61db7d519p-13"),
    float.fromhex("0x1.ffcbf934d1873p-17"),
)
# The coefficients of log2((1 + s) / (1 - s)) / s, in powers of s^2, for
# |s| <= (sqrt 2 - 1) / (sqrt 2 + 1).
_LOGARITHM: Final = (
    float.fromhex("0x1.71547652bede4p+1"),
    float.fromhex("0x1.ec709d12e09efp-1"),
    float.fromhex("0x1.27777fdaec34cp-1"),
    float.fromhex("0x1.a58d8f890fdc3p-2"),
    float.fromhex("0x1.5ce7d124e607fp-2"),
)
# The coefficients of sin(pi/2 r) / r and (cos(pi/2 r) - 1) / r^2, in powers of r^2, for |r| <= 1/2.
_SINE: Final = (
    float.fromhex("0x1.921fb5443af60p+0"),
    float.fromhex("-0x1.4abbce564cd6dp-1"),
    float.fromhex("0x1.466bba8bfb0cfp-4"),
    float.fromhex("-0x1.32ca854c537b8p-8"),
    float.fromhex("0x1.4bc2555dd3b46p-13"),
)
_COSINE: Final = (
    float.fromhex("-0x1.3bd3cc98a08d6p+0"),
    float.fromhex("0x1.03c1e9f81dc6ap-2"),
    float.fromhex("-0x1.55cb98f579469p-6"),
    float.fromhex("0x1.db650eb2beacfp-11"),
)
_TWO_OVER_PI: Final = float.fromhex("0x1.45f306dc9c883p-1")
_TWO_LOG2_E: Final = float.fromhex("0x1.71547652b82fep+1")

_SPACER: Final = 1.5 * 2.0**52  # adding it rounds a number to an integer, which the low bits hold
_EXPONENT: Final = 52
_SINGLE_SPACER: Final = 1.5 * 2.0**23  # the same for binary32
_SINGLE_EXPONENT: Final = 23
_SINGLE_ONE: Final = 0x3F80_0000
_ROOT_HALF: Final = 0x3FE6_A09E_667F_3BCD
_MANTISSA: Final = (1 << _EXPONENT) - 1
_LARGEST_POWER: Final = 200.0  # binary32 overflows at 2^128, and underflows to 0 below 2^-150
_TINY_SQUARE: Final = 2.0**-28  # if x^2 is below it, sin x is x

N = TypeVar("N")
B = TypeVar("B")
F = TypeVar("F")


class Doubles(Protocol[N, B, F]):
    """Operations on binary64 numbers (N), 64-bit patterns (B) and flags (F), one for each lane.

    ``round_to_integral`` rounds to the nearest integral number, ties to even; ``less`` is false for
    NaN; ``convert_signed`` converts a two's complement integer to the number of that value.
    """

    def constant(self, value: float) -> N: ...
    def add(self, a: N, b: N) -> N: ...
    def subtract(self, a: N, b: N) -> N: ...
    def multiply(self, a: N, b: N) -> N: ...
    def divide(self, a: N, b: N) -> N: ...
    def round_to_integral(self, a: N) -> N: ...
    def copy_sign(self, magnitude: N, sign: N) -> N: ...
    def less(self, a: N, b: N) -> F: ...
    def is_nan(self, a: N) -> F: ...
    def select(self, flag: F, yes: N, no: N) -> N: ...
    def pattern(self, a: N) -> B: ...
    def from_pattern(self, bits: B) -> N: ...
    def convert_signed(self, bits: B) -> N: ...
    def sum(self, a: B, b: B) -> B: ...
    def offset(self, a: B, b: int) -> B: ...
    def mask(self, a: B, b: int) -> B: ...
    def shift_left(self, a: B, count: int) -> B: ...
    def shift_right(self, a: B, count: int) -> B: ...
    def bit(self, a: B, place: int) -> F: ...


class Singles(Protocol[N, B, F]):
    """Operations on binary32 numbers (N), 32-bit patterns (B) and flags (F), one for each lane.

    ``fuse`` is a * b + c, rounded once; the other operations are as in ``Doubles``.
    """

    def constant(self, value: float) -> N: ...
    def add(self, a: N, b: N) -> N: ...
    def subtract(self, a: N, b: N) -> N: ...
    def multiply(self, a: N, b: N) -> N: ...
    def fuse(self, a: N, b: N, c: N) -> N: ...
    def less(self, a: N, b: N) -> F: ...
    def is_nan(self, a: N) -> F: ...
    def select(self, flag: F, yes: N, no: N) -> N: ...
    def pattern(self, a: N) -> B: ...
    def from_pattern(self, bits: B) -> N: ...
    def sum(self, a: B, b: B) -> B: ...
    def difference(self, a: B, b: B) -> B: ...
    def offset(self, a: B, b: int) -> B: ...
    def shift_left(self, a: B, count: int) -> B: ...
    def shift_right(self, a: B, count: int) -> B: ...


def exponential(on: Singles[N, B, F], x: N) -> N:
    """Return 2^x in binary32, computed as (1 + (2^f - 1)) * 2^n. Here n is the integer nearest to
    x, and f = x - n.

    The multiplication by 2^n takes two steps, and the first step is exact. Therefore a subnormal
    result is rounded only once.
    """
    highest, lowest = on.constant(_LARGEST_POWER), on.constant(-_LARGEST_POWER)
    near = on.select(on.less(x, highest), x, highest)
    near = on.select(on.less(lowest, near), near, lowest)
    spacer = on.constant(_SINGLE_SPACER)
    spaced = on.add(near, spacer)
    f = on.subtract(near, on.subtract(spaced, spacer))
    *coefficients, last = _POWER
    value = on.constant(last)
    for coefficient in reversed(coefficients):
        value = on.fuse(value, f, on.constant(coefficient))
    value = on.fuse(value, f, on.constant(1.0))
    power = on.pattern(spaced)  # n in its low bits, below bits that are shifted out
    half = on.shift_right(power, 1)
    first = on.from_pattern(on.sum(on.pattern(value), on.shift_left(half, _SINGLE_EXPONENT)))
    second_power = on.shift_left(on.difference(power, half), _SINGLE_EXPONENT)
    second = on.from_pattern(on.offset(second_power, _SINGLE_ONE))
    return _unless_nan(on, x, on.multiply(first, second))


def logarithm(on: Doubles[N, B, F], x: N) -> N:
    """Return log2 x.

    x is split into 2^e m, with m between sqrt 1/2 and sqrt 2. The result is e plus a series in
    s = (m - 1) / (m + 1).
    """
    above = on.offset(on.pattern(x), -_ROOT_HALF)
    exponent = on.convert_signed(on.shift_right(above, _EXPONENT))
    m = on.from_pattern(on.offset(on.mask(above, _MANTISSA), _ROOT_HALF))
    unit = on.constant(1.0)
    s = on.divide(on.subtract(m, unit), on.add(m, unit))
    series = on.multiply(s, _polynomial(on, _LOGARITHM, on.multiply(s, s)))
    zero, infinity = on.constant(0.0), on.constant(float("inf"))
    value = on.select(on.less(x, infinity), on.add(exponent, series), infinity)
    value = on.select(on.less(zero, x), value, on.constant(float("-inf")))
    value = on.select(on.less(x, zero), on.constant(float("nan")), value)
    return _unless_nan(on, x, value)


def sine(on: Doubles[N, B, F], x: N) -> N:
    """Return sin x."""
    tiny = on.less(on.multiply(x, x), on.constant(_TINY_SQUARE))
    return on.select(tiny, x, _sine_after_turns(on, x, 0))


def cosine(on: Doubles[N, B, F], x: N) -> N:
    """Return cos x."""
    return _sine_after_turns(on, x, 1)


def hyperbolic_tangent(on: Doubles[N, B, F], x: N) -> N:
    """Return tanh x, computed as (e - 1) / (e + 1) with e = exp 2x.

    e - 1 is computed directly, so that it keeps its digits near zero.
    """
    fraction, power = _split(on, on.multiply(x, on.constant(_TWO_LOG2_E)))
    unit = on.constant(1.0)
    whole = _scale(on, unit, power)
    part = on.multiply(fraction, _polynomial(on, _EXPONENTIAL, fraction))
    less_one = on.add(on.multiply(whole, part), on.subtract(whole, unit))
    value = on.divide(less_one, on.add(less_one, on.constant(2.0)))
    return _unless_nan(on, x, on.copy_sign(value, x))


def _sine_after_turns(on: Doubles[N, B, F], x: N, quarters: int) -> N:
    """Return the sine of x plus ``quarters`` right angles.

    x is reduced to a multiple of pi/2 and a rest of r right angles, |r| <= 1/2. The product with
    2/pi has a relative error of 2^-53, which determines the error for large x. Infinity becomes
    NaN when it is subtracted from itself.
    """
    turns = on.multiply(x, on.constant(_TWO_OVER_PI))
    nearest = on.round_to_integral(turns)
    r = on.subtract(turns, nearest)
    rounds = on.round_to_integral(on.multiply(nearest, on.constant(0.25)))
    quadrant = on.subtract(nearest, on.multiply(rounds, on.constant(4.0)))
    bits = on.offset(on.pattern(on.add(quadrant, on.constant(_SPACER))), quarters)
    square = on.multiply(r, r)
    odd = on.multiply(r, _polynomial(on, _SINE, square))
    even = on.add(on.constant(1.0), on.multiply(square, _polynomial(on, _COSINE, square)))
    value = on.select(on.bit(bits, 0), even, odd)
    value = on.select(on.bit(bits, 1), on.subtract(on.constant(0.0), value), value)
    return _unless_nan(on, r, value)


def _split(on: Doubles[N, B, F], x: N) -> tuple[N, B]:
    """Return x minus the nearest integer, and that integer in the low bits of a pattern."""
    highest, lowest = on.constant(_LARGEST_POWER), on.constant(-_LARGEST_POWER)
    x = on.select(on.less(x, highest), x, highest)
    x = on.select(on.less(lowest, x), x, lowest)
    spacer = on.constant(_SPACER)
    spaced = on.add(x, spacer)
    return on.subtract(x, on.subtract(spaced, spacer)), on.pattern(spaced)


def _scale(on: Doubles[N, B, F], a: N, power: B) -> N:
    """Return a * 2^power for a between 1/2 and 2."""
    return on.from_pattern(on.sum(on.pattern(a), on.shift_left(power, _EXPONENT)))


def _polynomial(on: Doubles[N, B, F], coefficients: Sequence[float], x: N) -> N:
    *lower_coefficients, last = coefficients
    value = on.constant(last)
    for coefficient in reversed(lower_coefficients):
        value = on.add(on.multiply(value, x), on.constant(coefficient))
    return value


def _unless_nan(on: Doubles[N, B, F] | Singles[N, B, F], x: N, value: N) -> N:
    return on.select(on.is_nan(x), x, value)
