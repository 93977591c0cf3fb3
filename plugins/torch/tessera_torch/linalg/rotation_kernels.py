"""Triton kernels of Jacobi's methods: eigenvalues and singular values by plane rotations."""

import triton
import triton.language as tl


@triton.jit
def _turn(first, second, count, cosine, sine, block: tl.constexpr):
    """Rotate two rows in place: (c x - s y, s x + c y)."""
    lane = tl.arange(0, block)
    for start in range(0, count, block):
        place = start + lane
        inside = place < count
        x = tl.load(first + place, mask=inside)
        y = tl.load(second + place, mask=inside)
        tl.store(first + place, cosine * x - sine * y, mask=inside)
        tl.store(second + place, sine * x + cosine * y, mask=inside)


@triton.jit
def _tangent(difference, twice):
    """Return the smaller root t of t^2 + 2 (difference / twice) t - 1."""
    theta = difference / twice
    sign = tl.where(theta >= 0, 1.0, -1.0)
    size = tl.abs(theta)
    root = tl.where(size > 1e150, size, tl.sqrt(1 + size * size))
    return sign / (size + root)


@triton.jit
def diagonalize(matrices, vectors, infos, n, most_sweeps, block: tl.constexpr):
    """Make symmetric matrices diagonal; ``vectors`` are identities, and become rows of vectors."""
    batch = tl.program_id(0).to(tl.int64)
    a = matrices + batch * n * n
    v = vectors + batch * n * n
    lane = tl.arange(0, block)
    sweeps = 0
    rotations = 1
    while (rotations > 0) & (sweeps < most_sweeps):
        rotations = 0
        for p in range(n - 1):
            for q in range(p + 1, n):
                across = tl.load(a + p * n + q)
                first = tl.load(a + p * n + p)
                second = tl.load(a + q * n + q)
                limit = 1e-17 * tl.sqrt(tl.abs(first)) * tl.sqrt(tl.abs(second))
                tl.debug_barrier()
                if (tl.abs(across) > limit) & (tl.abs(across) > 1e-300):
                    tangent = _tangent(second - first, 2 * across)
                    cosine = 1 / tl.sqrt(1 + tangent * tangent)
                    sine = tangent * cosine
                    # A rotation that changes no digit would repeat for ever.
                    moves = tl.abs(tangent * across) > 1e-17 * (tl.abs(first) + tl.abs(second))
                    rotations += tl.where(moves, 1, 0)
                    _turn(a + p * n, a + q * n, n, cosine, sine, block)
                    _turn(v + p * n, v + q * n, n, cosine, sine, block)
                    tl.debug_barrier()
                    for start in range(0, n, block):
                        row = start + lane
                        inside = row < n
                        x = tl.load(a + row * n + p, mask=inside)
                        y = tl.load(a + row * n + q, mask=inside)
                        turned = cosine * x - sine * y
                        other = sine * x + cosine * y
                        tl.store(a + row * n + p, tl.where(row == q, 0.0, turned), mask=inside)
                        tl.store(a + row * n + q, tl.where(row == p, 0.0, other), mask=inside)
                    tl.debug_barrier()
        sweeps += 1
    tl.store(infos + batch, tl.where(rotations > 0, 1, 0))


@triton.jit
def orthogonalize(rows, vectors, infos, n, m, most_sweeps, block: tl.constexpr):
    """Make ``n`` rows of ``m`` numbers orthogonal by rotations, which ``vectors`` collect."""
    batch = tl.program_id(0).to(tl.int64)
    w = rows + batch * n * m
    v = vectors + batch * n * n
    lane = tl.arange(0, block)
    sweeps = 0
    rotations = 1
    while (rotations > 0) & (sweeps < most_sweeps):
        rotations = 0
        for p in range(n - 1):
            for q in range(p + 1, n):
                first = tl.zeros((), tl.float64)
                second = tl.zeros((), tl.float64)
                across = tl.zeros((), tl.float64)
                for start in range(0, m, block):
                    place = start + lane
                    x = tl.load(w + p * m + place, mask=place < m, other=0)
                    y = tl.load(w + q * m + place, mask=place < m, other=0)
                    first += tl.sum(x * x, 0)
                    second += tl.sum(y * y, 0)
                    across += tl.sum(x * y, 0)
                tl.debug_barrier()
                limit = 1e-15 * tl.sqrt(m.to(tl.float64)) * tl.sqrt(first) * tl.sqrt(second)
                if (tl.abs(across) > limit) & (tl.abs(across) > 1e-300):
                    rotations += 1
                    tangent = _tangent(second - first, 2 * across)
                    cosine = 1 / tl.sqrt(1 + tangent * tangent)
                    sine = tangent * cosine
                    _turn(w + p * m, w + q * m, m, cosine, sine, block)
                    _turn(v + p * n, v + q * n, n, cosine, sine, block)
                    tl.debug_barrier()
        sweeps += 1
    tl.store(infos + batch, tl.where(rotations > 0, 1, 0))
