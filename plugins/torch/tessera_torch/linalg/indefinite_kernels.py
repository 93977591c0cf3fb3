"""Triton kernels of symmetric indefinite matrices, as LAPACK's sytrf and sytrs for lower triangles.

A positive pivot is a block of one row and names from 1 on the row that was exchanged with it. Two
equal negative ones are a block of two rows, of which the second was exchanged.
"""

import triton
import triton.language as tl


@triton.jit
def factor_ldl(matrices, pivots, infos, n, block: tl.constexpr):
    """Factor by Bunch and Kaufman's pivoting; info is the first pivot that is zero."""
    batch = tl.program_id(0).to(tl.int64)
    a = matrices + batch * n * n
    lane = tl.arange(0, block)
    info = 0
    k = 0
    while k < n:
        head = tl.abs(tl.load(a + k * n + k))
        largest = tl.full((), 0.0, tl.float64)
        far = k
        for start in range(k + 1, n, block):
            row = start + lane
            size = tl.abs(tl.load(a + row * n + k, mask=row < n, other=0.0))
            size = tl.where(row < n, size, -1.0)
            block_maximum = tl.max(size, 0)
            first = tl.min(tl.where(size == block_maximum, row, n), 0)
            far = tl.where((block_maximum > largest) & (first < n), first, far)
            largest = tl.maximum(largest, block_maximum)
        far_maximum = tl.full((), 0.0, tl.float64)
        for start in range(k, n, block):
            row = start + lane
            place = tl.where(row < far, far * n + row, row * n + far)
            size = tl.abs(tl.load(a + place, mask=(row < n) & (row != far), other=0.0))
            far_maximum = tl.maximum(far_maximum, tl.max(size, 0))
        limit = 0.6403882032022076  # (1 + sqrt(17)) / 8
        none = (head == 0) & (largest == 0) | (head != head)
        stays = none | (head >= limit * largest)
        ratio = largest / tl.where(far_maximum > 0, far_maximum, 1.0)
        stays = stays | (head >= limit * largest * ratio)
        two = tl.where(stays, 0, 1)
        center = tl.abs(tl.load(a + far * n + far))
        two = tl.where(center >= limit * far_maximum, 0, two)
        at = tl.where(stays, k, far)
        info = tl.where(none & (info == 0), k + 1, info)
        last = k + two
        tl.debug_barrier()
        for start in range(last, n, block):
            row = start + lane
            inside = (row < n) & (row != at) & (at != last)
            partner_place = tl.where(row < at, at * n + row, row * n + at)
            partner_place = tl.where(row == last, at * n + at, partner_place)
            last_element = tl.load(a + row * n + last, mask=inside)
            pivot_element = tl.load(a + partner_place, mask=inside)
            tl.store(a + row * n + last, pivot_element, mask=inside)
            tl.store(a + partner_place, last_element, mask=inside)
        if two != 0:
            last_element = tl.load(a + last * n + k)
            pivot_element = tl.load(a + at * n + k)
            tl.debug_barrier()
            tl.store(a + last * n + k, pivot_element)
            tl.store(a + at * n + k, last_element)
        tl.debug_barrier()
        pivot = tl.where(two != 0, -(at + 1), at + 1)
        tl.store(pivots + batch * n + k, pivot)
        tl.store(pivots + batch * n + last, pivot)
        corner = tl.load(a + k * n + k)
        side = tl.where(two != 0, tl.load(a + last * n + k), 1.0)
        second = tl.load(a + last * n + last) / side
        upper = corner / side
        scale = tl.where(two != 0, 1.0 / ((second * upper - 1.0) * side), 0.0)
        single = tl.where(two != 0, 0.0, 1.0 / tl.where(none, 1.0, corner))
        begin = last + 1
        width = n - begin
        count = tl.where(none, 0, width * width)
        for start in range(0, count, block):
            place = start + lane
            row = begin + place // tl.maximum(width, 1)
            column = begin + place % tl.maximum(width, 1)
            inside = (place < count) & (column <= row)
            x = tl.load(a + column * n + k, mask=inside, other=0)
            y = tl.load(a + column * n + last, mask=inside, other=0)
            u = tl.where(two != 0, scale * (second * x - y), single * x)
            v = tl.where(two != 0, scale * (upper * y - x), 0.0)
            above = tl.load(a + row * n + k, mask=inside, other=0)
            beside = tl.load(a + row * n + last, mask=inside, other=0)
            value = tl.load(a + row * n + column, mask=inside)
            tl.store(a + row * n + column, value - above * u - beside * v, mask=inside)
        tl.debug_barrier()
        if ~none:
            for start in range(begin, n, block):
                row = start + lane
                inside = row < n
                x = tl.load(a + row * n + k, mask=inside, other=0)
                y = tl.load(a + row * n + last, mask=inside, other=0)
                u = tl.where(two != 0, scale * (second * x - y), single * x)
                tl.store(a + row * n + k, u, mask=inside)
                tl.store(a + row * n + last, scale * (upper * y - x), mask=inside & (two != 0))
        tl.debug_barrier()
        k = begin
    tl.store(infos + batch, info)


@triton.jit
def solve_ldl(factors, pivots, results, n, m, block: tl.constexpr):
    """Solve for ``m`` columns in place: a thread computes whole columns."""
    batch = tl.program_id(0).to(tl.int64)
    a = factors + batch * n * n
    p = pivots + batch * n
    b = results + batch * n * m
    lane = tl.arange(0, block)
    for start in range(0, m, block):
        x = b + start + lane
        inside = start + lane < m
        k = 0
        while k < n:
            pivot = tl.load(p + k)
            two = tl.where((pivot < 0) & (k + 1 < n), 1, 0)
            last = k + two
            at = tl.abs(pivot) - 1
            last_element = tl.load(x + last * m, mask=inside)
            pivot_element = tl.load(x + at * m, mask=inside)
            tl.store(x + at * m, last_element, mask=inside)
            tl.store(x + last * m, pivot_element, mask=inside)
            upper = tl.load(x + k * m, mask=inside)
            lower = tl.load(x + last * m, mask=inside)
            for row in range(last + 1, n):
                value = tl.load(x + row * m, mask=inside) - tl.load(a + row * n + k) * upper
                second_term = tl.load(a + row * n + last) * lower
                tl.store(x + row * m, tl.where(two != 0, value - second_term, value), mask=inside)
            corner = tl.load(a + k * n + k)
            side = tl.where(two != 0, tl.load(a + last * n + k), 1.0)
            second = tl.load(a + last * n + last) / side
            first = corner / side
            divisor = tl.where(two != 0, (first * second - 1.0) * side, 1.0)
            of_two = (second * upper - lower) / divisor
            tl.store(x + k * m, tl.where(two != 0, of_two, upper / corner), mask=inside)
            tl.store(x + last * m, (first * lower - upper) / divisor, mask=inside & (two != 0))
            k = last + 1
        k = n - 1
        while k >= 0:
            pivot = tl.load(p + k)
            two = tl.where((pivot < 0) & (k > 0), 1, 0)
            top = k - two
            lower = tl.load(x + k * m, mask=inside)
            upper = tl.load(x + top * m, mask=inside)
            for row in range(k + 1, n):
                value = tl.load(x + row * m, mask=inside)
                lower -= tl.load(a + row * n + k) * value
                upper -= tl.load(a + row * n + top) * value
            tl.store(x + top * m, upper, mask=inside)
            tl.store(x + k * m, lower, mask=inside)
            at = tl.abs(pivot) - 1
            swapped_element = tl.load(x + at * m, mask=inside)
            tl.store(x + at * m, lower, mask=inside)
            tl.store(x + k * m, swapped_element, mask=inside)
            k = top - 1
