"""Triton kernels of factorizations; matrices are contiguous, in rows, and change in place.

One program computes a matrix. Barriers divide its phases, because its threads exchange elements
through memory.
"""

import triton
import triton.language as tl


@triton.jit
def factor_lu(matrices, pivots, infos, m, n, pivoted: tl.constexpr, block: tl.constexpr):
    """LU with partial pivoting, as LAPACK's getrf: pivots count from 1."""
    batch = tl.program_id(0).to(tl.int64)
    a = matrices + batch * m * n
    lane = tl.arange(0, block)
    diagonal_length = tl.minimum(m, n)
    info = 0
    for k in range(diagonal_length):
        at = k
        if pivoted:
            best = tl.full((), -1.0, tl.float64)
            for start in range(k, m, block):
                row = start + lane
                size = tl.load(a + row * n + k, mask=row < m, other=0.0)
                size = tl.where(row < m, tl.abs(size), -1.0)
                largest = tl.max(size, 0)
                where = tl.min(tl.where(size == largest, row, m), 0)
                at = tl.where((largest > best) & (where < m), where, at)
                best = tl.maximum(best, largest)
            tl.debug_barrier()
            for start in range(0, n, block):
                column = start + lane
                inside = column < n
                upper = tl.load(a + k * n + column, mask=inside)
                lower = tl.load(a + at * n + column, mask=inside)
                tl.store(a + k * n + column, lower, mask=inside)
                tl.store(a + at * n + column, upper, mask=inside & (at != k))
            tl.debug_barrier()
        tl.store(pivots + batch * diagonal_length + k, at + 1)
        pivot = tl.load(a + k * n + k)
        info = tl.where((pivot == 0) & (info == 0), k + 1, info)
        divisor = tl.where(pivot == 0, 1.0, pivot)
        for start in range(k + 1, m, block):
            row = start + lane
            value = tl.load(a + row * n + k, mask=row < m)
            tl.store(a + row * n + k, value / divisor, mask=row < m)
        tl.debug_barrier()
        width = n - k - 1
        count = (m - k - 1) * width
        for start in range(0, count, block):
            place = start + lane
            inside = place < count
            row = k + 1 + place // tl.maximum(width, 1)
            column = k + 1 + place % tl.maximum(width, 1)
            multiplier = tl.load(a + row * n + k, mask=inside)
            above = tl.load(a + k * n + column, mask=inside)
            value = tl.load(a + row * n + column, mask=inside)
            tl.store(a + row * n + column, value - multiplier * above, mask=inside)
        tl.debug_barrier()
    tl.store(infos + batch, info)


@triton.jit
def factor_cholesky(matrices, infos, n, block: tl.constexpr):
    """The lower factor; info is the order of the first minor that is not positive."""
    batch = tl.program_id(0).to(tl.int64)
    a = matrices + batch * n * n
    lane = tl.arange(0, block)
    info = 0
    for k in range(n):
        pivot = tl.load(a + k * n + k)
        info = tl.where((info == 0) & ~(pivot > 0), k + 1, info)
        if info == 0:
            root = tl.sqrt(pivot)
            tl.debug_barrier()
            for start in range(k, n, block):
                row = start + lane
                value = tl.load(a + row * n + k, mask=row < n)
                tl.store(a + row * n + k, tl.where(row == k, root, value / root), mask=row < n)
            tl.debug_barrier()
            width = n - k - 1
            count = width * width
            for start in range(0, count, block):
                place = start + lane
                row = k + 1 + place // tl.maximum(width, 1)
                column = k + 1 + place % tl.maximum(width, 1)
                inside = (place < count) & (column <= row)
                row_factor = tl.load(a + row * n + k, mask=inside)
                column_factor = tl.load(a + column * n + k, mask=inside)
                value = tl.load(a + row * n + column, mask=inside)
                tl.store(a + row * n + column, value - row_factor * column_factor, mask=inside)
            tl.debug_barrier()
    tl.store(infos + batch, info)


@triton.jit
def solve_triangle(
    matrices, results, n, k, row_step, column_step, upper, unit, block: tl.constexpr
):  # fmt: skip
    """Solve for ``k`` columns in place; the steps say whether the matrix is transposed."""
    batch = tl.program_id(0).to(tl.int64)
    a = matrices + batch * n * n
    x = results + batch * n * k
    lane = tl.arange(0, block)
    for step in range(n):
        i = tl.where(upper != 0, n - 1 - step, step)
        pivot = tl.load(a + i * (row_step + column_step))
        pivot = tl.where(unit != 0, 1.0, pivot)
        for start in range(0, k, block):
            column = start + lane
            value = tl.load(x + i * k + column, mask=column < k)
            tl.store(x + i * k + column, value / pivot, mask=column < k)
        tl.debug_barrier()
        first = tl.where(upper != 0, 0, i + 1)
        count = tl.where(upper != 0, i, n - i - 1) * k
        for start in range(0, count, block):
            place = start + lane
            inside = place < count
            row = first + place // k
            column = place % k
            factor = tl.load(a + row * row_step + i * column_step, mask=inside)
            solved = tl.load(x + i * k + column, mask=inside)
            value = tl.load(x + row * k + column, mask=inside)
            tl.store(x + row * k + column, value - factor * solved, mask=inside)
        tl.debug_barrier()


@triton.jit
def reflect(
    vectors, factors, targets, m, k, n, columns, backwards, block: tl.constexpr
):  # fmt: skip
    """Apply ``k`` reflections to matrices of m x n; vectors are below a diagonal of ``columns``."""
    batch = tl.program_id(0).to(tl.int64)
    v = vectors + batch * m * columns
    c = targets + batch * m * n
    lane = tl.arange(0, block)
    for start in range(0, n, block):
        column = start + lane
        inside = column < n
        for step in range(k):
            i = tl.where(backwards != 0, k - 1 - step, step)
            factor = tl.load(factors + batch * k + i)
            total = tl.load(c + i * n + column, mask=inside, other=0)
            for row in range(i + 1, m):
                part = tl.load(c + row * n + column, mask=inside, other=0)
                total += tl.load(v + row * columns + i) * part
            total *= factor
            head = tl.load(c + i * n + column, mask=inside, other=0)
            tl.store(c + i * n + column, head - total, mask=inside)
            for row in range(i + 1, m):
                part = tl.load(c + row * n + column, mask=inside, other=0)
                changed = part - tl.load(v + row * columns + i) * total
                tl.store(c + row * n + column, changed, mask=inside)


@triton.jit
def factor_qr(matrices, factors, m, n, block: tl.constexpr):
    """Householder's reflections, as LAPACK's geqrf: R above, the vectors below the diagonal."""
    batch = tl.program_id(0).to(tl.int64)
    a = matrices + batch * m * n
    lane = tl.arange(0, block)
    diagonal_length = tl.minimum(m, n)
    for k in range(diagonal_length):
        alpha = tl.load(a + k * n + k)
        largest = tl.zeros((), tl.float64)
        for start in range(k + 1, m, block):
            row = start + lane
            value = tl.load(a + row * n + k, mask=row < m, other=0)
            largest = tl.maximum(largest, tl.max(tl.abs(value), 0))
        size = tl.maximum(largest, tl.abs(alpha))
        size = tl.where(size > 0, size, 1.0)
        total = (alpha / size) * (alpha / size)
        for start in range(k + 1, m, block):
            row = start + lane
            value = tl.load(a + row * n + k, mask=row < m, other=0) / size
            total += tl.sum(value * value, 0)
        norm = tl.sqrt(total) * size
        plain = largest == 0
        beta = tl.where(plain, alpha, tl.where(alpha >= 0, -norm, norm))
        factor = tl.where(plain, 0.0, (beta - alpha) / tl.where(plain, 1.0, beta))
        divisor = tl.where(plain, 1.0, alpha - beta)
        tl.debug_barrier()
        for start in range(k + 1, m, block):
            row = start + lane
            value = tl.load(a + row * n + k, mask=row < m)
            tl.store(a + row * n + k, value / divisor, mask=row < m)
        tl.store(a + k * n + k, beta)
        tl.store(factors + batch * diagonal_length + k, factor)
        tl.debug_barrier()
        for start in range(k + 1, n, block):
            column = start + lane
            inside = column < n
            sums = tl.load(a + k * n + column, mask=inside, other=0)
            for row in range(k + 1, m):
                part = tl.load(a + row * n + column, mask=inside, other=0)
                sums += tl.load(a + row * n + k) * part
            sums *= factor
            head = tl.load(a + k * n + column, mask=inside, other=0)
            tl.store(a + k * n + column, head - sums, mask=inside)
            for row in range(k + 1, m):
                part = tl.load(a + row * n + column, mask=inside, other=0)
                changed = part - tl.load(a + row * n + k) * sums
                tl.store(a + row * n + column, changed, mask=inside)
        tl.debug_barrier()


@triton.jit
def swap_places(order, pivots, m, k):
    """Swap element i of a row with the one that its pivot, from 1 on, names, for each i in turn."""
    row = order + tl.program_id(0).to(tl.int64) * m
    chosen = pivots + tl.program_id(0).to(tl.int64) * k
    for i in range(k):
        partner = tl.load(chosen + i) - 1
        inside = (partner >= 0) & (partner < m)
        own = tl.load(row + i)
        moved = tl.load(row + partner, mask=inside, other=0)
        tl.debug_barrier()
        tl.store(row + i, moved, mask=inside)
        tl.debug_barrier()
        tl.store(row + partner, own, mask=inside)
        tl.debug_barrier()
