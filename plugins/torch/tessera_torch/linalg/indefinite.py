"""Factors of symmetric indefinite matrices, and solutions by them."""

from typing import Any, Final

import torch

from tessera_torch import counts
from tessera_torch.linalg import batches
from tessera_torch.linalg.indefinite_kernels import factor_ldl, solve_ldl
from tessera_torch.refusal import Unsupported
from tessera_torch.targets import both


def _check(name: str, *tensors: Any) -> None:
    batches.check(name, *tensors)
    if any(tensor.is_complex() for tensor in tensors):
        raise Unsupported(name, tensors, "complex matrices are not factored so")


def _factor_ex(
    self: Any, *, hermitian: bool = False, check_errors: bool = False
) -> tuple[Any, Any, Any]:
    counts.CALLS["linalg_ldl_factor_ex"] += 1
    _check("linalg_ldl_factor_ex", self)
    batches.check_square("torch.linalg.ldl_factor_ex", self)
    n = self.shape[-1]
    work = batches.work_on(self)
    pivots = batches.empty(work, work.shape[0], n, dtype=torch.int32)
    infos = batches.zeros(work, work.shape[0], dtype=torch.int32)
    if n:
        batches.launch_each(factor_ldl, work, work, pivots, infos, n)
    factors = batches.give_back(work.tril(), self, self.shape)
    infos = infos.reshape(self.shape[:-2])
    if check_errors:
        torch._linalg_check_errors(infos, "torch.linalg.ldl_factor_ex", is_matrix=self.dim() == 2)
    return factors, pivots.reshape(self.shape[:-1]), infos


def _solve(LD: Any, pivots: Any, B: Any, *, hermitian: bool = False) -> Any:
    counts.CALLS["linalg_ldl_solve"] += 1
    _check("linalg_ldl_solve", LD, B)
    shape = torch.broadcast_shapes(LD.shape[:-2], B.shape[:-2])
    n = LD.shape[-1]
    factors = batches.work_on(LD, shape)
    work = batches.work_on(B, shape)
    rows = pivots.to(torch.int32).expand(*shape, n).reshape(factors.shape[0], n)
    if n and rows.numel() and not bool(((rows != 0) & (rows.abs() <= n)).all().item()):
        raise RuntimeError("torch.linalg.ldl_solve: pivots must be those that ldl_factor returned")
    if n and work.shape[-1]:
        batches.launch_each(solve_ldl, work, factors, rows.contiguous(), work, n, work.shape[-1])
    return batches.give_back(work, B, (*shape, *B.shape[-2:]))


KERNELS: Final = {
    **both("linalg_ldl_factor_ex", "linalg_ldl_factor_ex.out", _factor_ex),
    **both("linalg_ldl_solve", "linalg_ldl_solve.out", _solve),
}
