"""Cholesky's factors, and what follows from them."""

from typing import Any, Final

import torch

from tessera_torch import counts
from tessera_torch.linalg import batches, complex_factors
from tessera_torch.linalg.factor_kernels import factor_cholesky
from tessera_torch.linalg.triangles import solve_in_place
from tessera_torch.targets import both


def _factor_ex(self: Any, *, upper: bool = False, check_errors: bool = False) -> tuple[Any, Any]:
    counts.CALLS["linalg_cholesky_ex"] += 1
    batches.check("linalg_cholesky_ex", self)
    batches.check_square("linalg.cholesky", self)
    n = self.shape[-1]
    work = batches.work_on(self.mH if upper else self)  # the kernel reads the lower triangle
    infos = batches.zeros(work, work.shape[0], dtype=torch.int32)
    if work.is_complex():
        complex_factors.factor_cholesky(work, infos)
    elif n:
        batches.launch_each(factor_cholesky, work, work, infos, n)
    lower = work.tril()
    result = batches.give_back(lower.mH if upper else lower, self, self.shape)
    infos = infos.reshape(self.shape[:-2])
    if check_errors:
        torch._linalg_check_errors(infos, "linalg.cholesky_ex", is_matrix=self.dim() == 2)
    return result, infos


def _solve(factors: Any, right: Any, upper: bool) -> Any:
    solve_in_place(factors, right, upper, transposed=upper, conjugated=upper)
    return solve_in_place(factors, right, upper, transposed=not upper, conjugated=not upper)


def _solve_helper(self: Any, A: Any, upper: bool) -> Any:
    counts.CALLS["_cholesky_solve_helper"] += 1
    batches.check("_cholesky_solve_helper", self, A)
    result = _solve(batches.work_on(A), batches.work_on(self), upper)
    return batches.give_back(result, self, self.shape)


def _inverse(self: Any, upper: bool = False) -> Any:
    counts.CALLS["cholesky_inverse"] += 1
    batches.check("cholesky_inverse", self)
    batches.check_square("cholesky_inverse", self)
    work = batches.work_on(self)
    n = self.shape[-1]
    return batches.give_back(_solve(work, batches.identities(work, n, n), upper), self, self.shape)


KERNELS: Final = {
    **both("linalg_cholesky_ex", "linalg_cholesky_ex.L", _factor_ex),
    **both("cholesky_inverse", "cholesky_inverse.out", _inverse),
    "_cholesky_solve_helper": _solve_helper,
}
