"""Triton kernels of the QR algorithm: Schur forms of complex matrices, and their eigenvectors.

A program of one warp computes a matrix. Complex numbers are two tensors of real ones. Rotations,
shifts and deflation are those of G. H. Golub and C. F. Van Loan, "Matrix Computations", chapter 7.
"""

import triton
import triton.language as tl


@triton.jit
def _rotation(ar, ai, br, bi):
    """Return c and s, so that -conj(s) a + c b is 0."""
    size = tl.sqrt(ar * ar + ai * ai)
    length = tl.sqrt(ar * ar + ai * ai + br * br + bi * bi)
    is_zero = size == 0
    safe = tl.where(is_zero, 1.0, size)
    whole = tl.where(length == 0, 1.0, length)
    c = tl.where(is_zero, tl.where(length == 0, 1.0, 0.0), size / whole)
    ur, ui = ar / safe, ai / safe
    sr = tl.where(is_zero, tl.where(length == 0, 0.0, 1.0), (ur * br + ui * bi) / whole)
    si = tl.where(is_zero, 0.0, (ui * br - ur * bi) / whole)
    return c, sr, si


@triton.jit
def _turn(xr, xi, yr, yi, first, last, stride, c, sr, si, block: tl.constexpr):
    """Replace x by c x + s y, and y by c y - conj(s) x, in places from ``first`` to ``last``."""
    lane = tl.arange(0, block)
    for start in range(first, last, block):
        place = (start + lane) * stride
        inside = start + lane < last
        ar = tl.load(xr + place, mask=inside)
        ai = tl.load(xi + place, mask=inside)
        br = tl.load(yr + place, mask=inside)
        bi = tl.load(yi + place, mask=inside)
        tl.store(xr + place, c * ar + sr * br - si * bi, mask=inside)
        tl.store(xi + place, c * ai + sr * bi + si * br, mask=inside)
        tl.store(yr + place, c * br - sr * ar - si * ai, mask=inside)
        tl.store(yi + place, c * bi - sr * ai + si * ar, mask=inside)
    tl.debug_barrier()


@triton.jit
def _similar(hr, hi, zr, zi, n, p, q, first_column, bottom, c, sr, si, block: tl.constexpr):
    """Rotate rows and columns ``p`` and ``q``: from ``first_column``, and to row ``bottom``."""
    _turn(hr + p * n, hi + p * n, hr + q * n, hi + q * n, first_column, n, 1, c, sr, si, block)
    _turn(hr + p, hi + p, hr + q, hi + q, 0, bottom, n, c, sr, -si, block)
    _turn(zr + p, zi + p, zr + q, zi + q, 0, n, n, c, sr, -si, block)


@triton.jit
def _root(xr, xi):
    """Return the principal square root."""
    size = tl.sqrt(xr * xr + xi * xi)
    real = tl.sqrt(0.5 * (size + tl.abs(xr)))
    minor_part = tl.where(real == 0, 0.0, 0.5 * tl.abs(xi) / tl.where(real == 0, 1.0, real))
    sign = tl.where(xi < 0, -1.0, 1.0)
    return tl.where(xr >= 0, real, minor_part), sign * tl.where(xr >= 0, minor_part, real)


@triton.jit
def _size(hr, hi, place):
    """Return the sum of the absolute parts of an element."""
    return tl.abs(tl.load(hr + place)) + tl.abs(tl.load(hi + place))


@triton.jit
def _shift(hr, hi, n, last):
    """Return the eigenvalue of the last 2 x 2 block that is closer to its last element."""
    at = last * n + last
    dr, di = tl.load(hr + at), tl.load(hi + at)
    ar, ai = tl.load(hr + at - n - 1), tl.load(hi + at - n - 1)
    br, bi = tl.load(hr + at - n), tl.load(hi + at - n)
    cr, ci = tl.load(hr + at - 1), tl.load(hi + at - 1)
    er, ei = 0.5 * (ar - dr), 0.5 * (ai - di)
    rr, ri = _root(er * er - ei * ei + br * cr - bi * ci, 2 * er * ei + br * ci + bi * cr)
    is_against = er * rr + ei * ri < 0  # the larger of e + r and e - r divides b c
    rr, ri = tl.where(is_against, -rr, rr), tl.where(is_against, -ri, ri)
    sr, si = er + rr, ei + ri
    square = sr * sr + si * si
    safe = tl.where(square == 0, 1.0, square)
    pr, pi = br * cr - bi * ci, br * ci + bi * cr
    qr, qi = (pr * sr + pi * si) / safe, (pi * sr - pr * si) / safe
    is_zero = square == 0
    return dr - tl.where(is_zero, 0.0, qr), di - tl.where(is_zero, 0.0, qi)


@triton.jit
def _reduce(hr, hi, zr, zi, n, block: tl.constexpr):
    """Make a matrix zero below its first subdiagonal."""
    for k in range(n - 2):
        for i in range(k + 2, n):
            at, below = (k + 1) * n + k, i * n + k
            br, bi = tl.load(hr + below), tl.load(hi + below)
            if (br != 0) | (bi != 0):
                c, sr, si = _rotation(tl.load(hr + at), tl.load(hi + at), br, bi)
                tl.debug_barrier()
                _similar(hr, hi, zr, zi, n, k + 1, i, k, n, c, sr, si, block)
                tl.store(hr + below, 0.0)
                tl.store(hi + below, 0.0)
                tl.debug_barrier()


@triton.jit
def _chase(hr, hi, zr, zi, n, low, last, tr, ti, block: tl.constexpr):
    """Make a step of the QR algorithm with a shift, from row ``low`` to row ``last``."""
    for k in range(low, last):
        previous_column = tl.maximum(k - 1, low)
        at, below = k * n + previous_column, (k + 1) * n + previous_column
        ar, ai = tl.load(hr + at), tl.load(hi + at)
        br, bi = tl.load(hr + below), tl.load(hi + below)
        ar = tl.where(k == low, ar - tr, ar)
        ai = tl.where(k == low, ai - ti, ai)
        c, sr, si = _rotation(ar, ai, br, bi)
        tl.debug_barrier()
        bottom = tl.minimum(k + 3, last + 1)
        _similar(hr, hi, zr, zi, n, k, k + 1, previous_column, bottom, c, sr, si, block)
        if k > low:
            tl.store(hr + below, 0.0)
            tl.store(hi + below, 0.0)
            tl.debug_barrier()


@triton.jit(do_not_specialize=["n"])
def schur(real, imag, bases_real, bases_imag, failures, n, block: tl.constexpr):
    """Make matrices upper triangular by unitary similarities, which the bases collect.

    A matrix that needs more than 30 steps for each eigenvalue is marked in ``failures``.
    """
    batch = tl.program_id(0).to(tl.int64)
    hr, hi = real + batch * n * n, imag + batch * n * n
    zr, zi = bases_real + batch * n * n, bases_imag + batch * n * n
    _reduce(hr, hi, zr, zi, n, block)
    last = n - 1
    steps = 0
    while last > 0:
        low = last
        is_joined = 1
        while (low > 0) & (is_joined == 1):
            at = low * n + low
            around = _size(hr, hi, at) + _size(hr, hi, at - n - 1)
            if _size(hr, hi, at - 1) <= 2.3e-16 * around:
                is_joined = 0
            else:
                low -= 1
        tl.debug_barrier()
        if low > 0:
            tl.store(hr + low * n + low - 1, 0.0)
            tl.store(hi + low * n + low - 1, 0.0)
            tl.debug_barrier()
        if low == last:
            last -= 1
            steps = 0
        elif steps >= 30 + n:
            tl.store(failures + batch, 1)
            last = 0
        else:
            tr, ti = _shift(hr, hi, n, last)
            if steps % 10 == 9:  # the shifts may go round in a circle
                tr += _size(hr, hi, last * n + last - 1)
            steps += 1
            _chase(hr, hi, zr, zi, n, low, last, tr, ti, block)


@triton.jit(do_not_specialize=["n"])
def back_substitute(real, imag, rows_real, rows_imag, tolerances, n, block: tl.constexpr):
    """Write eigenvector k of triangular matrices into row k, which is zero; element k is 1."""
    batch = tl.program_id(1).to(tl.int64)
    k = tl.program_id(0)
    hr, hi = real + batch * n * n, imag + batch * n * n
    xr, xi = rows_real + (batch * n + k) * n, rows_imag + (batch * n + k) * n
    lane = tl.arange(0, block)
    own = k * n + k
    vr, vi = tl.load(hr + own), tl.load(hi + own)
    small = tl.load(tolerances + batch)
    tl.store(xr + k, 1.0)
    tl.debug_barrier()
    for step in range(k):
        i = k - 1 - step
        sums_r = tl.zeros((block,), tl.float64)
        sums_i = tl.zeros((block,), tl.float64)
        for start in range(i + 1, k + 1, block):
            place = start + lane
            inside = place <= k
            ar = tl.load(hr + i * n + place, mask=inside, other=0)
            ai = tl.load(hi + i * n + place, mask=inside, other=0)
            br = tl.load(xr + place, mask=inside, other=0)
            bi = tl.load(xi + place, mask=inside, other=0)
            sums_r += ar * br - ai * bi
            sums_i += ar * bi + ai * br
        sr, si = tl.sum(sums_r, 0), tl.sum(sums_i, 0)
        dr, di = vr - tl.load(hr + i * n + i), vi - tl.load(hi + i * n + i)
        is_small = tl.abs(dr) + tl.abs(di) < small  # equal eigenvalues
        dr, di = tl.where(is_small, small, dr), tl.where(is_small, 0.0, di)
        square = dr * dr + di * di
        tl.store(xr + i, (sr * dr + si * di) / square)
        tl.store(xi + i, (si * dr - sr * di) / square)
        tl.debug_barrier()
