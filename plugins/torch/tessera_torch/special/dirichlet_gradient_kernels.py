"""The Triton kernel of the derivative of Dirichlet's samples by their parameters."""

import triton
import triton.language as tl

_MOST_TERMS = tl.constexpr(200000)
_LEAST = tl.constexpr(1e-17)  # of a term, relative to the sum


@triton.jit
def dirichlet_gradient(samples, firsts, seconds, starts, sums, out, count, block: tl.constexpr):
    """Store -(dF/da) / F' / (1 - x), where F is the distribution of Beta(a, b).

    F is the sum of x^(a + n) (1 - x)^b (a + b)_n / (a)_(n + 1) / B(a, b) over n, and 1 minus the
    same sum with 1 - x, b and a exchanged. The one of which the terms decrease faster is
    differentiated term by term. ``starts`` has the digamma function of a, ``sums`` that of a + b.
    """
    e = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = e < count
    x = tl.load(samples + e, mask=inside, other=0.5)
    a = tl.load(firsts + e, mask=inside, other=1.0)
    b = tl.load(seconds + e, mask=inside, other=1.0)
    start = tl.load(starts + e, mask=inside, other=0.0)
    behind = tl.load(sums + e, mask=inside, other=0.0)
    is_bad = (a != a) | (b != b) | (x != x)
    plain = (a > 0) & (b > 0) & (x > 0) & (x < 1) & (a + b < float("inf"))
    a = tl.where(plain, a, 1.0)
    b = tl.where(plain, b, 1.0)
    x = tl.where(plain, x, 0.5)
    low = x * (a + b) <= a
    power = tl.where(low, x, 1 - x)
    bottom = tl.where(low, a, b)
    log_x = tl.log(x)
    behind = tl.where(plain, behind, 0.0)
    own = tl.where(plain, start, 0.0) + tl.where(low, 1 / a, 0.0)
    factor = x / bottom
    total = factor * (log_x + behind - own)
    n = 0
    waiting = tl.max(plain.to(tl.int32), 0)
    while (waiting > 0) & (n < _MOST_TERMS):
        factor = factor * power * ((a + b + n) / (bottom + n + 1))
        behind += 1 / (a + b + n)
        n += 1
        own += tl.where(low, 1 / (a + n), 0.0)
        slope = log_x + behind - own
        total += factor * slope
        remainder = factor * tl.maximum(tl.abs(slope), 1.0)
        waiting = tl.max((plain & (remainder > tl.abs(total) * _LEAST)).to(tl.int32), 0)
    value = tl.where(low, -total, total)
    nan = float("nan")
    tl.store(out + e, tl.where(plain, value, tl.where(is_bad, nan, 0.0)), mask=inside)
