"""The Triton kernel of incomplete gamma functions: a series, a continued fraction, and for large
first arguments Temme's asymptotic expansion.
"""

import triton
import triton.language as tl
from triton.language.extra import libdevice

_LARGE = tl.constexpr(1e5)  # first argument from which the expansion is the more exact one
_MOST_TERMS = tl.constexpr(20000)  # enough below _LARGE
_LEAST = tl.constexpr(1e-17)  # of a term, relative to the sum
_TINY = tl.constexpr(1e-300)


@triton.jit
def incomplete_gamma(first, second, out, count, upper: tl.constexpr, block: tl.constexpr):
    """Store P(a, x), or Q(a, x) if ``upper``.

    Below a + 1 the series converges fast, above it the continued fraction (Lentz's method). The
    expansion is NIST's DLMF 8.12, with two coefficients.
    """
    e = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    a = tl.load(first + e, mask=e < count, other=1.0)
    x = tl.load(second + e, mask=e < count, other=1.0)
    infinite = float("inf")
    plain = (a > 0) & (x > 0) & (a < infinite) & (x < infinite)
    large = plain & (a > _LARGE)
    low = plain & (a <= _LARGE) & (x < a + 1)
    high = plain & (a <= _LARGE) & (x >= a + 1)
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

    share = tl.where(large, (x0 - a0) / a0, 1.0)
    square = tl.maximum(2 * (share - libdevice.log1p(share)), 0.0)
    root = tl.where(share < 0, -tl.sqrt(square), tl.sqrt(square))
    near = tl.abs(share) < 0.02
    first_of = 1 / tl.where(near, 1.0, share) - 1 / tl.where(near, 1.0, root)
    polynomial = ((root / 2835 + 1 / 864) * root - 2 / 135) * root + 1 / 12
    first_of = tl.where(near, polynomial * root - 1 / 3, first_of)
    second_of = -1 / 540 - tl.minimum(tl.maximum(root, -1.0), 1.0) / 288
    correction = (
        tl.exp(-a0 * square / 2) * (first_of + second_of / a0) / tl.sqrt(6.283185307179586 * a0)
    )
    scaled = root * tl.sqrt(a0 / 2)

    nan = float("nan")
    if upper:
        expanded = libdevice.erfc(scaled) / 2 + correction
        value = tl.where(low, 1 - below, tl.where(large, expanded, above))
        lower_limit = 1.0
        upper_limit = 0.0
    else:
        expanded = libdevice.erfc(-scaled) / 2 - correction
        value = tl.where(low, below, tl.where(large, expanded, 1 - above))
        lower_limit = 0.0
        upper_limit = 1.0
    value = tl.where(plain, value, nan)
    value = tl.where((a == 0) & (x > 0), upper_limit, value)
    is_above = (a > 0) | (a != a)  # at the ends of x PyTorch ignores a NaN in a
    value = tl.where(is_above & (x == 0), lower_limit, value)
    value = tl.where(is_above & (a != infinite) & (x == infinite), upper_limit, value)
    value = tl.where((a == infinite) & (x >= 0) & (x < infinite), lower_limit, value)
    tl.store(out + e, value, mask=e < count)
