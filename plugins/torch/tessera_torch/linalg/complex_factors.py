"""Factors of complex matrices, by operators on their real and imaginary parts.

The conventions of pivots, signs and info are LAPACK's. Matrices are batches of complex128, which
change in place, as those of the kernels do.
"""

from typing import Any

import torch

from tessera_torch.complexes.functions import Pair, divide, multiply
from tessera_torch.complexes.parts import join, split


def parts(work: Any) -> Pair:
    """Return contiguous copies of the parts."""
    real, imag = (torch.empty_like(part, memory_format=torch.contiguous_format).copy_(part)
                  for part in split(work))  # fmt: skip
    return real, imag


def _conjugate(pair: Pair) -> Pair:
    return pair[0], -pair[1]


def _at(pair: Pair, *index: Any) -> Pair:
    return pair[0][index], pair[1][index]


def _put(pair: Pair, value: Pair, *index: Any) -> None:
    pair[0][index], pair[1][index] = value


def _subtract(pair: Pair, value: Pair, *index: Any) -> None:
    pair[0][index] -= value[0]
    pair[1][index] -= value[1]


_ALL = slice(None)


def factor_lu(work: Any, pivots: Any, infos: Any, pivoted: bool) -> None:
    """LU with partial pivoting, as LAPACK's zgetrf: pivots count from 1."""
    a = parts(work)
    m, n = work.shape[-2:]
    rows = torch.arange(m, device=work.device)
    for k in range(min(m, n)):
        below = slice(k + 1, None)
        pivots[:, k] = k + 1
        if pivoted:
            size = a[0][:, k:, k].abs() + a[1][:, k:, k].abs()
            at = size.argmax(-1) + k
            pivots[:, k] = at + 1
            mask = (rows == at[:, None])[:, :, None]
            for part in a:
                chosen = torch.where(mask, part, 0.0).sum(1)
                part.copy_(torch.where(mask, part[:, k : k + 1], part))
                part[:, k] = chosen
        pivot = _at(a, _ALL, k, k)
        zero = (pivot[0] == 0) & (pivot[1] == 0)
        infos.copy_(torch.where(zero & (infos == 0), k + 1, infos))
        divisor = torch.where(zero, 1.0, pivot[0])[:, None], pivot[1][:, None]
        column = divide(_at(a, _ALL, below, k), divisor)
        _put(a, column, _ALL, below, k)
        product = multiply(_at(column, _ALL, _ALL, None), _at(a, _ALL, None, k, below))
        _subtract(a, product, _ALL, below, below)
    work.copy_(join(*a))


def factor_cholesky(work: Any, infos: Any) -> None:
    """The lower factor; info is the order of the first minor that is not positive."""
    a = parts(work)
    for k in range(work.shape[-1]):
        pivot = a[0][:, k, k]
        bad = ~(pivot > 0)
        infos.copy_(torch.where(bad & (infos == 0), k + 1, infos))
        good = (infos == 0)[:, None]
        root = torch.where(bad, 1.0, pivot).sqrt()[:, None]
        column = tuple(torch.where(good, part[:, k:, k] / root, part[:, k:, k]) for part in a)
        column[1][:, 0] = 0
        _put(a, (column[0], column[1]), _ALL, slice(k, None), k)
        below = _at((column[0], column[1]), _ALL, slice(1, None))
        product = multiply(_at(below, _ALL, _ALL, None), _conjugate(_at(below, _ALL, None)))
        masked_product = tuple(torch.where(good[:, :, None], part, 0.0) for part in product)
        _subtract(
            a, (masked_product[0], masked_product[1]), _ALL, slice(k + 1, None), slice(k + 1, None)
        )
    work.copy_(join(*a))


def solve_triangle(
    matrices: Any, results: Any, upper: bool, transposed: bool, unit: bool, conjugated: bool
) -> None:
    """Solve for all columns in place; ``upper`` says how the matrix is stored."""
    a, x = parts(matrices), parts(results)
    if conjugated:
        a = _conjugate(a)
    if transposed:
        a = a[0].mT, a[1].mT
    backwards = upper != transposed
    n = results.shape[-2]
    for step in range(n):
        i = n - 1 - step if backwards else step
        solved = _at(x, _ALL, i)
        if not unit:
            solved = divide(solved, _at(a, _ALL, i, slice(i, i + 1)))
            _put(x, solved, _ALL, i)
        unsolved_rows = slice(0, i) if backwards else slice(i + 1, None)
        product = multiply(_at(a, _ALL, unsolved_rows, slice(i, i + 1)), _at(solved, _ALL, None))
        _subtract(x, product, _ALL, unsolved_rows)
    results.copy_(join(*x))


def factor_qr(work: Any, factors: Any) -> None:
    """Householder's reflections, as LAPACK's zgeqrf: R above, the vectors below the diagonal."""
    a, taus = parts(work), parts(factors)
    for k in range(factors.shape[-1]):
        below = slice(k + 1, None)
        head, tail = _at(a, _ALL, k, k), _at(a, _ALL, below, k)
        column = torch.cat((a[0][:, k:, k], a[1][:, k:, k]), 1)
        size = column.abs().amax(1)
        size = torch.where(size > 0, size, 1.0)
        norm = (column / size[:, None]).square().sum(1).sqrt() * size
        plain = (head[1] == 0) & (tail[0] == 0).all(1) & (tail[1] == 0).all(1)
        beta = torch.where(plain, head[0], torch.where(head[0] >= 0, -norm, norm))
        safe = torch.where(plain, 1.0, beta)
        tau = (
            torch.where(plain, 0.0, (beta - head[0]) / safe),
            torch.where(plain, 0.0, -head[1] / safe),
        )
        divisor = torch.where(plain, 1.0, head[0] - beta), torch.where(plain, 0.0, head[1])
        vector = divide(tail, (divisor[0][:, None], divisor[1][:, None]))
        _put(a, vector, _ALL, below, k)
        _put(a, (beta, torch.zeros_like(beta)), _ALL, k, k)
        _put(taus, tau, _ALL, k)
        if k + 1 < work.shape[-1]:
            trailing_columns = _at(a, _ALL, slice(k, None), below)
            _reflect(trailing_columns, vector, _conjugate(tau))
    work.copy_(join(*a))
    factors.copy_(join(*taus))


def apply_reflections(vectors: Any, factors: Any, target: Any, backwards: bool) -> None:
    """Apply Q's reflections to a batch in place, the last first; else those of its adjoint."""
    v, taus, c = parts(vectors), parts(factors), parts(target)
    count = factors.shape[-1]
    for step in range(count):
        i = count - 1 - step if backwards else step
        tau = _at(taus, _ALL, i)
        tau = tau if backwards else _conjugate(tau)
        _reflect(_at(c, _ALL, slice(i, None)), _at(v, _ALL, slice(i + 1, None), i), tau)
    target.copy_(join(*c))


def _reflect(c: Pair, vector: Pair, tau: Pair) -> None:
    """Subtract tau v v^H c from c, where v is 1 and the vector."""
    column = _at(vector, _ALL, _ALL, None)
    below = _at(c, _ALL, slice(1, None))
    product = multiply(_conjugate(column), below)
    total = c[0][:, 0] + product[0].sum(1), c[1][:, 0] + product[1].sum(1)
    scaled = multiply(_at(tau, _ALL, None), total)
    _subtract(c, scaled, _ALL, 0)
    _subtract(c, multiply(column, _at(scaled, _ALL, None)), _ALL, slice(1, None))
