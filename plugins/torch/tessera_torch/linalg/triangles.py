"""Systems with triangular matrices."""

from typing import Any, Final

import torch

from tessera_torch import counts
from tessera_torch.linalg import batches, complex_factors
from tessera_torch.linalg.factor_kernels import solve_triangle
from tessera_torch.targets import both, out_form


def solve_in_place(
    matrices: Any,
    results: Any,
    upper: bool,
    transposed: bool = False,
    unit: bool = False,
    conjugated: bool = False,
) -> Any:
    """Solve batches of systems whose right sides are ``results``, and return these."""
    n, k = results.shape[-2:]
    if results.is_complex():
        complex_factors.solve_triangle(matrices, results, upper, transposed, unit, conjugated)
    elif n and k:
        steps = (1, n) if transposed else (n, 1)
        batches.launch_each(
            solve_triangle, results,
            matrices, results, n, k, *steps, int(upper != transposed), int(unit),
        )  # fmt: skip
    return results


def solve(a: Any, b: Any, upper: bool, transposed: bool = False, unit: bool = False) -> Any:
    """Return the solution for matrices whose batches broadcast, in their own type."""
    shape = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    matrices = batches.work_on(a, shape)
    right_sides = batches.work_on(b, shape)
    solve_in_place(matrices, right_sides, upper, transposed, unit)
    return batches.give_back(right_sides, b, (*shape, *b.shape[-2:]))


def _solve_triangular(
    self: Any,
    B: Any,
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
) -> Any:
    counts.CALLS["linalg_solve_triangular"] += 1
    batches.check("linalg_solve_triangular", self, B)
    batches.check_square("linalg.solve_triangular", self)
    _check_sizes("linalg.solve_triangular", self, B, left)
    if left:
        return solve(self, B, upper, unit=unitriangular)
    # X A = B is the transposed system of A^T X^T = B^T.
    return solve(self, B.mT, upper, transposed=True, unit=unitriangular).mT.contiguous()


def _check_sizes(name: str, a: Any, b: Any, left: bool) -> None:
    if b.dim() < 2:
        raise RuntimeError(f"{name}: The input tensor B must have at least 2 dimensions.")
    if a.shape[-1] != b.shape[-2 if left else -1]:
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation"
            f" {'AX = B' if left else 'XA = B'} ({a.shape[-2]}x{a.shape[-1]} and"
            f" {b.shape[-2]}x{b.shape[-1]})"
        )
    if a.dtype != b.dtype:
        raise RuntimeError(
            f"{name}: Expected A and B to have the same dtype, but found A of type {a.dtype} and B"
            f" of type {b.dtype} instead"
        )


def _triangular_solve(
    self: Any,
    A: Any,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> tuple[Any, Any]:
    counts.CALLS["triangular_solve"] += 1
    batches.check("triangular_solve", self, A)
    batches.check_square("triangular_solve", A)
    _check_sizes("triangular_solve", A, self, True)
    solution = solve(A, self, upper, transpose, unitriangular)
    return solution, A.expand(*solution.shape[:-2], *A.shape[-2:]).clone()


KERNELS: Final = {
    **both("linalg_solve_triangular", "linalg_solve_triangular.out", _solve_triangular),
    "triangular_solve": _triangular_solve,
    "triangular_solve.X": out_form("triangular_solve.X", _triangular_solve),
}
