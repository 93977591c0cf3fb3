"""Triton kernels of Jacobi's methods: eigenvalues and singular values by plane rotations.

A sweep rotates each pair of rows once, in steps whose pairs have no row in common: one launch for
each step, with a program of one warp for each pair and matrix.
"""

import triton
import triton.language as tl


@triton.jit
def _pair(step, players):
    """Return the rows of a program in a step: each of ``players`` meets each other in a sweep."""
    pair = tl.program_id(0)
    last = players - 1
    first = tl.where(pair == 0, last, (step + pair) % last)
    second = tl.where(pair == 0, step, (step - pair + last) % last)
    return tl.minimum(first, second), tl.maximum(first, second)


@triton.jit
def _turn(first, second, count, stride, cosine, sine, block: tl.constexpr):
    """Rotate two rows in place: (c x - s y, s x + c y)."""
    lane = tl.arange(0, block)
    for start in range(0, count, block):
        place = start + lane
        inside = place < count
        x = tl.load(first + place * stride, mask=inside)
        y = tl.load(second + place * stride, mask=inside)
        tl.store(first + place * stride, cosine * x - sine * y, mask=inside)
        tl.store(second + place * stride, sine * x + cosine * y, mask=inside)


@triton.jit
def _tangent(difference, twice):
    """Return the smaller root t of t^2 + 2 (difference / twice) t - 1."""
    theta = difference / twice
    sign = tl.where(theta >= 0, 1.0, -1.0)
    size = tl.abs(theta)
    root = tl.where(size > 1e150, size, tl.sqrt(1 + size * size))
    return sign / (size + root)


@triton.jit(do_not_specialize=["n", "players", "step"])
def rotate_rows(matrices, vectors, turns, rotations, n, players, step, block: tl.constexpr):
    """Choose a rotation for each pair of symmetric matrices, and apply it from the left.

    ``turns`` receives the cosine and the sine of each pair; ``vectors`` are rotated as well.
    """
    batch = tl.program_id(1).to(tl.int64)
    p, q = _pair(step, players)
    turn = turns + (batch * (players // 2) + tl.program_id(0)) * 2
    tl.store(turn, 1.0)
    tl.store(turn + 1, 0.0)
    if q < n:
        a = matrices + batch * n * n
        v = vectors + batch * n * n
        across = tl.load(a + p * n + q)
        first = tl.load(a + p * n + p)
        second = tl.load(a + q * n + q)
        limit = 1e-17 * tl.sqrt(tl.abs(first)) * tl.sqrt(tl.abs(second))
        if (tl.abs(across) > limit) & (tl.abs(across) > 1e-300):
            tangent = _tangent(second - first, 2 * across)
            cosine = 1 / tl.sqrt(1 + tangent * tangent)
            sine = tangent * cosine
            # A rotation that changes no digit would repeat for ever.
            if tl.abs(tangent * across) > 1e-17 * (tl.abs(first) + tl.abs(second)):
                tl.atomic_add(rotations + batch, 1)
            tl.store(turn, cosine)
            tl.store(turn + 1, sine)
            _turn(a + p * n, a + q * n, n, 1, cosine, sine, block)
            _turn(v + p * n, v + q * n, n, 1, cosine, sine, block)


@triton.jit(do_not_specialize=["n", "players", "step"])
def rotate_columns(matrices, turns, n, players, step, block: tl.constexpr):
    """Apply the rotations of ``rotate_rows`` from the right."""
    batch = tl.program_id(1).to(tl.int64)
    p, q = _pair(step, players)
    turn = turns + (batch * (players // 2) + tl.program_id(0)) * 2
    cosine, sine = tl.load(turn), tl.load(turn + 1)
    if (q < n) & (sine != 0):
        a = matrices + batch * n * n
        lane = tl.arange(0, block)
        for start in range(0, n, block):
            row = start + lane
            inside = row < n
            x = tl.load(a + row * n + p, mask=inside)
            y = tl.load(a + row * n + q, mask=inside)
            turned = cosine * x - sine * y
            partner = sine * x + cosine * y
            tl.store(a + row * n + p, tl.where(row == q, 0.0, turned), mask=inside)
            tl.store(a + row * n + q, tl.where(row == p, 0.0, partner), mask=inside)


@triton.jit(do_not_specialize=["n", "m", "players", "step"])
def orthogonalize(rows, vectors, rotations, n, m, players, step, block: tl.constexpr):
    """Make the rows of each pair orthogonal, of ``n`` with ``m`` numbers; ``vectors`` as well."""
    batch = tl.program_id(1).to(tl.int64)
    p, q = _pair(step, players)
    if q < n:
        w = rows + batch * n * m
        v = vectors + batch * n * n
        lane = tl.arange(0, block)
        xx = tl.zeros((block,), tl.float64)
        yy = tl.zeros((block,), tl.float64)
        xy = tl.zeros((block,), tl.float64)
        for start in range(0, m, block):
            place = start + lane
            x = tl.load(w + p * m + place, mask=place < m, other=0)
            y = tl.load(w + q * m + place, mask=place < m, other=0)
            xx += x * x
            yy += y * y
            xy += x * y
        first, second, across = tl.sum(xx, 0), tl.sum(yy, 0), tl.sum(xy, 0)
        limit = 1e-15 * tl.sqrt(m.to(tl.float64)) * tl.sqrt(first) * tl.sqrt(second)
        if (tl.abs(across) > limit) & (tl.abs(across) > 1e-300):
            tl.atomic_add(rotations + batch, 1)
            tangent = _tangent(second - first, 2 * across)
            cosine = 1 / tl.sqrt(1 + tangent * tangent)
            sine = tangent * cosine
            _turn(w + p * m, w + q * m, m, 1, cosine, sine, block)
            _turn(v + p * n, v + q * n, n, 1, cosine, sine, block)


@triton.jit
def _turn_complex(
    first, first_imag, second, second_imag, count, cosine, sine, phase, phase_imag,
    block: tl.constexpr,
):  # fmt: skip
    """Multiply the second row by a phase, and rotate both rows."""
    lane = tl.arange(0, block)
    for start in range(0, count, block):
        place = start + lane
        inside = place < count
        x = tl.load(first + place, mask=inside)
        xi = tl.load(first_imag + place, mask=inside)
        z = tl.load(second + place, mask=inside)
        zi = tl.load(second_imag + place, mask=inside)
        y = z * phase - zi * phase_imag
        yi = z * phase_imag + zi * phase
        tl.store(first + place, cosine * x - sine * y, mask=inside)
        tl.store(first_imag + place, cosine * xi - sine * yi, mask=inside)
        tl.store(second + place, sine * x + cosine * y, mask=inside)
        tl.store(second_imag + place, sine * xi + cosine * yi, mask=inside)


@triton.jit(do_not_specialize=["n", "m", "players", "step"])
def orthogonalize_complex(
    rows, rows_imag, vectors, vectors_imag, rotations, n, m, players, step, block: tl.constexpr
):
    """As ``orthogonalize``, for complex rows, of which the second gets a phase first."""
    batch = tl.program_id(1).to(tl.int64)
    p, q = _pair(step, players)
    if q < n:
        w, wi = rows + batch * n * m, rows_imag + batch * n * m
        v, vi = vectors + batch * n * n, vectors_imag + batch * n * n
        lane = tl.arange(0, block)
        xx = tl.zeros((block,), tl.float64)
        yy = tl.zeros((block,), tl.float64)
        xy = tl.zeros((block,), tl.float64)
        xyi = tl.zeros((block,), tl.float64)
        for start in range(0, m, block):
            place = start + lane
            x = tl.load(w + p * m + place, mask=place < m, other=0)
            xi = tl.load(wi + p * m + place, mask=place < m, other=0)
            y = tl.load(w + q * m + place, mask=place < m, other=0)
            yi = tl.load(wi + q * m + place, mask=place < m, other=0)
            xx += x * x + xi * xi
            yy += y * y + yi * yi
            xy += x * y + xi * yi
            xyi += x * yi - xi * y
        first, second = tl.sum(xx, 0), tl.sum(yy, 0)
        real, imag = tl.sum(xy, 0), tl.sum(xyi, 0)
        large = tl.maximum(tl.abs(real), tl.abs(imag))
        safe = tl.where(large > 0, large, 1.0)
        across = safe * tl.sqrt((real / safe) * (real / safe) + (imag / safe) * (imag / safe))
        limit = 1e-15 * tl.sqrt(m.to(tl.float64)) * tl.sqrt(first) * tl.sqrt(second)
        if (across > limit) & (across > 1e-300):
            tl.atomic_add(rotations + batch, 1)
            tangent = _tangent(second - first, 2 * across)
            cosine = 1 / tl.sqrt(1 + tangent * tangent)
            sine = tangent * cosine
            c, s = real / across, -imag / across
            _turn_complex(
                w + p * m, wi + p * m, w + q * m, wi + q * m, m, cosine, sine, c, s, block
            )
            _turn_complex(
                v + p * n, vi + p * n, v + q * n, vi + q * n, n, cosine, sine, c, s, block
            )
