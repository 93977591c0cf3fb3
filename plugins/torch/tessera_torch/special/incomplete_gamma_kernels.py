"""The Triton kernel of incomplete gamma functions: a series, and a continued fraction."""

import triton
import triton.language as tl
from triton.language.extra import libdevice

_MOST_TERMS = tl.constexpr(20000)  # enough while the first argument is below about 10**7
_LEAST = tl.constexpr(1e-17)  # of a term, relative to the sum
_TINY = tl.constexpr(1e-300)


@triton.jit
def incomplete_gamma(first, second, out, count, upper: tl.constexpr, block: tl.constexpr):
    """Store P(a, x), or Q(a, x) if ``upper``.

    Below a + 1 the series converges fast, above it the continued fraction (Lentz's method).
    """
    e = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    a = tl.load(first + e, mask=e < count, other=1.0)
    x = tl.load(second + e, mask=e < count, other=1.0)
    infinite = float("inf")
    plain = (a > 0) & (x > 0) & (a < infinite) & (x < infinite)
    low = plain & (x < a + 1)
    high = plain & (x >= a + 1)
    a0 = tl.where(plain, a, 1.0)
    x0 = tl.where(plain, x, 1.0)
    front = tl.exp(a0 * tl.log(x0) - x0 - libdevice.lgamma(a0))

    term = 1 / a0
    total = term
    turn = 0
    waiting = tl.max(low.to(tl.int32), 0)
    while (waiting > 0) & (turn < _MOST_TERMS):
        turn += 1
        term = term * x0 / (a0 + turn)
        total += tl.where(low, term, 0.0)
        waiting = tl.max((low & (term > total * _LEAST)).to(tl.int32), 0)
    below = front * total

    b = x0 + 1 - a0
    b = tl.where(tl.abs(b) < _TINY, _TINY, b)
    d = 1 / b
    c = d * 0 + 1 / _TINY
    fraction = d
    turn = 0
    waiting = tl.max(high.to(tl.int32), 0)
    while (waiting > 0) & (turn < _MOST_TERMS):
        turn += 1
        factor = turn * (a0 - turn)
        b += 2
        d = factor * d + b
        d = 1 / tl.where(tl.abs(d) < _TINY, _TINY, d)
        c = b + factor / c
        c = tl.where(tl.abs(c) < _TINY, _TINY, c)
        step = c * d
        fraction = tl.where(high, fraction * step, fraction)
        waiting = tl.max((high & (tl.abs(step - 1) > 1e-16)).to(tl.int32), 0)
    above = front * fraction

    nan = float("nan")
    if upper:
        value = tl.where(low, 1 - below, above)
        least = 1.0
        most = 0.0
    else:
        value = tl.where(low, below, 1 - above)
        least = 0.0
        most = 1.0
    value = tl.where(plain, value, nan)
    value = tl.where((a == 0) & (x > 0), most, value)
    is_above = (a > 0) | (a != a)  # at the ends of x PyTorch ignores a NaN in a
    value = tl.where(is_above & (x == 0), least, value)
    value = tl.where(is_above & (a != infinite) & (x == infinite), most, value)
    value = tl.where((a == infinite) & (x >= 0) & (x < infinite), least, value)
    tl.store(out + e, value, mask=e < count)
