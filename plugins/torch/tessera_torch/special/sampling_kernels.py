"""Triton kernels that sample distributions by rejection, in double precision.

Element e draws from its own thread of Philox, so a graph can draw without a look at the numbers.
"""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from tessera_torch.own.random_kernels import draw, unit_double, unpack

_SMALL = tl.constexpr(10.0)  # the mean below which single events are drawn


@triton.jit
def _draw_two(seed, counter, e):
    """Return two doubles in (0, 1]."""
    r0, r1, r2, r3 = draw(seed, counter, e)
    return unit_double(r0, r1), unit_double(r2, r3)


@triton.jit
def _log_factorial(k):
    return libdevice.lgamma(k + 1)


@triton.jit
def sample_poisson(
    rates, out, count, seed, offset, inside, captured: tl.constexpr, block: tl.constexpr
):
    """Store a sample for each rate: the rounded rate itself if it is infinite or NaN.

    Below 10, the arrivals of a process in a time; above, Hoermann's PTRS (1993).
    """
    seed, offset = unpack(seed, offset, inside, captured)
    e = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    rate = tl.load(rates + e, mask=e < count, other=0.0)
    plain = (rate > 0) & (rate < float("inf"))
    value = tl.where(plain, 0.0, rate)
    rate = tl.where(plain, rate, 1.0)
    small = rate < _SMALL
    end = tl.exp(-tl.minimum(rate, _SMALL))
    product = rate * 0 + 1
    b = 0.931 + 2.53 * tl.sqrt(tl.maximum(rate, _SMALL))
    a = -0.059 + 0.02483 * b
    inverse = 1.1239 + 1.1328 / (b - 3.4)
    squeeze = 0.9277 - 3.6224 / (b - 2)
    log_rate = tl.log(rate)
    waiting = plain
    counter = e * 0 + offset // 4
    while tl.max(waiting.to(tl.int32), 0) > 0:
        u, v = _draw_two(seed, counter, e)
        counter += 1
        first = product * u
        product = first * v
        arrived = tl.where(first <= end, 0.0, tl.where(product <= end, 1.0, 2.0))
        x = u - 0.5
        distance = 0.5 - tl.abs(x)
        k = tl.floor((2 * a / distance + b) * x + rate + 0.43)
        outside = (k < 0) | ((distance < 0.013) & (v > distance))
        k = tl.where(outside, 0.0, k)
        height = tl.log(v * inverse / (a / (distance * distance) + b))
        is_accepted = ~outside & (height <= k * log_rate - rate - _log_factorial(k))
        is_accepted = is_accepted | ((distance >= 0.07) & (v <= squeeze))
        grown = tl.where(small, value + arrived, tl.where(is_accepted, k, value))
        value = tl.where(waiting, grown, value)
        waiting = waiting & tl.where(small, product > end, ~is_accepted)
    tl.store(out + e, value, mask=e < count)


@triton.jit
def sample_binomial(
    counts, chances, out, count, seed, offset, inside, captured: tl.constexpr, block: tl.constexpr
):
    """Store the successes of trials, NaN if their number or chance is NaN or infinite.

    Below a mean of 10, distances of successes are drawn; above, Hoermann's BTRS (1993).
    """
    seed, offset = unpack(seed, offset, inside, captured)
    e = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    n = tl.load(counts + e, mask=e < count, other=0.0)
    p = tl.load(chances + e, mask=e < count, other=0.0)
    none = (n <= 0) | (p <= 0)
    certain = ~none & (p >= 1)
    plain = (n > 0) & (n < float("inf")) & (p > 0) & (p < 1)
    value = tl.where(none, 0.0, tl.where(certain, n, float("nan")))
    value = tl.where(plain, 0.0, value)
    n = tl.where(plain, n, 1.0)
    p = tl.where(plain, p, 0.5)
    flipped = p > 0.5
    q = tl.where(flipped, 1 - p, p)
    small = n * q < _SMALL
    log_none = libdevice.log1p(-q)
    place = n * 0
    spread = tl.sqrt(tl.maximum(n * q * (1 - q), 1.0))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * q
    scale = (2.83 + 5.1 / b) * spread
    squeeze = 0.92 - 4.2 / b
    mode = tl.floor((n + 1) * q)
    log_odds = tl.log(q) - libdevice.log1p(-q)
    top = _log_factorial(mode) + _log_factorial(n - mode)
    waiting = plain
    counter = e * 0 + offset // 4
    while tl.max(waiting.to(tl.int32), 0) > 0:
        u, v = _draw_two(seed, counter, e)
        counter += 1
        first = place + tl.maximum(tl.ceil(tl.log(u) / log_none), 1.0)
        place = first + tl.maximum(tl.ceil(tl.log(v) / log_none), 1.0)
        succeeded = tl.where(first > n, 0.0, tl.where(place > n, 1.0, 2.0))
        x = u - 0.5
        distance = 0.5 - tl.abs(x)
        k = tl.floor((2 * a / distance + b) * x + n * q + 0.5)
        outside = (k < 0) | (k > n) | (distance <= 0)
        k = tl.where(outside, 0.0, k)
        height = tl.log(v * scale / (a / (distance * distance) + b))
        bound = top - _log_factorial(k) - _log_factorial(n - k) + (k - mode) * log_odds
        is_accepted = ~outside & (((distance >= 0.07) & (v <= squeeze)) | (height <= bound))
        grown = tl.where(small, value + succeeded, tl.where(is_accepted, k, value))
        value = tl.where(waiting, grown, value)
        waiting = waiting & tl.where(small, place <= n, ~is_accepted)
    value = tl.where(plain & flipped, n - value, value)
    tl.store(out + e, value, mask=e < count)


@triton.jit
def sample_log_gamma(
    shapes, out, count, seed, offset, inside, captured: tl.constexpr, block: tl.constexpr
):
    """Store the logarithm of a sample for each shape: those of small shapes underflow.

    The method is that of Marsaglia and Tsang (2000). A shape of 0 has 0, a negative one NaN.
    """
    seed, offset = unpack(seed, offset, inside, captured)
    e = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    shape = tl.load(shapes + e, mask=e < count, other=0.0)
    plain = (shape > 0) & (shape < float("inf"))
    value = tl.where(shape == 0, -float("inf"), tl.where(shape > 0, shape, float("nan")))
    small = plain & (shape < 1)
    d = tl.where(plain, tl.where(small, shape + 1, shape), 1.0) - 1.0 / 3
    c = 1 / tl.sqrt(9 * d)
    waiting = plain
    counter = e * 0 + offset // 4
    while tl.max(waiting.to(tl.int32), 0) > 0:
        u, v = _draw_two(seed, counter, e)
        height, boost = _draw_two(seed, counter + 1, e)
        counter += 2
        normal = tl.sqrt(-2 * tl.log(u)) * tl.cos(v * 6.283185307179586)
        root = 1 + c * normal
        cube = root * root * root
        log_cube = tl.log(tl.where(cube > 0, cube, 1.0))
        bound = 0.5 * normal * normal + d * (1 - cube + log_cube)
        is_accepted = (cube > 0) & (tl.log(height) < bound)
        sample = tl.log(d) + log_cube + tl.where(small, tl.log(boost) / shape, 0.0)
        value = tl.where(waiting & is_accepted, sample, value)
        waiting = waiting & ~is_accepted
    tl.store(out + e, value, mask=e < count)


@triton.jit
def gamma_gradient(shapes, samples, starts, out, count, term_limit, block: tl.constexpr):
    """Store the derivative of samples x by their shapes a, at a fixed value of the distribution.

    It is that of P(a, x) by a, divided by the density; P is the sum of x^(a + k) e^-x / (a + k)!.
    ``starts`` has the digamma function of a + 1. NaN if ``term_limit`` terms are too few.
    """
    e = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    a = tl.load(shapes + e, mask=e < count, other=1.0)
    x = tl.load(samples + e, mask=e < count, other=1.0)
    own = tl.load(starts + e, mask=e < count, other=0.0)
    plain = (a > 0) & (x > 0) & (a < float("inf")) & (x < float("inf"))
    a = tl.where(plain, a, 1.0)
    x = tl.where(plain, x, 1.0)
    log_x = tl.log(x)
    factor = x / a
    total = factor * (log_x - own)
    n = 0
    waiting = plain
    while (tl.max(waiting.to(tl.int32), 0) > 0) & (n < term_limit):
        n += 1
        factor = factor * x / (a + n)
        own += 1 / (a + n)
        slope = log_x - own
        total += factor * slope
        remainder = factor * tl.maximum(tl.abs(slope), 1.0)
        waiting = plain & ((a + n <= x) | (remainder > tl.abs(total) * 1e-17))
    value = tl.where(plain & ~waiting & (factor < float("inf")), -total, float("nan"))
    tl.store(out + e, value, mask=e < count)
