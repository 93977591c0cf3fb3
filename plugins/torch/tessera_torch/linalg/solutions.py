"""Least squares, and the exponential of matrices."""

import math
from typing import Any, Final

import torch

from tessera_torch import counts
from tessera_torch.linalg import batches, orthogonal
from tessera_torch.linalg.triangles import solve_in_place
from tessera_torch.targets import out_form

_TERMS: Final = 18  # of the exponential's series for a norm up to 1/2: below 1e-22


def _least_squares(
    self: Any, b: Any, rcond: float | None = None, *, driver: str | None = None
) -> Any:
    counts.CALLS["linalg_lstsq"] += 1
    batches.check("linalg_lstsq", self, b)
    if driver not in (None, "gels"):
        raise RuntimeError("torch.linalg.lstsq: parameter `driver` should be one of (gels) on CUDA")
    m, n = self.shape[-2:]
    is_vector = self.dim() - 1 == b.dim() and self.shape[:-1] == b.shape
    right = b.unsqueeze(-1) if is_vector else b
    shape = torch.broadcast_shapes(self.shape[:-2], right.shape[:-2])
    a = batches.work_on(self.expand(*shape, m, n))
    work = batches.work_on(right.expand(*shape, *right.shape[-2:]))
    if m >= n:
        factors = orthogonal.factor(a)
        turned = orthogonal.apply(a, factors, work, backwards=False)
        solution = solve_in_place(a[:, :n].contiguous(), turned[:, :n].contiguous(), upper=True)
        rest = turned[:, n:]
    else:
        tall = a.mT.contiguous()
        factors = orthogonal.factor(tall)
        short = solve_in_place(tall[:, :m].contiguous(), work, upper=True, transposed=True)
        solution = batches.zeros(a, a.shape[0], n, work.shape[-1])
        solution[:, :m] = short
        solution = orthogonal.apply(tall, factors, solution, backwards=True)
        rest = turned = work[:, :0]
    result = batches.give_back(solution, b, (*shape, n, right.shape[-1]))
    residuals = self.new_empty(0)
    if m > n:
        sums = rest.square().sum(-2)
        residuals = batches.give_back(sums, b, (*shape, right.shape[-1]))
    none = self.new_empty(0)
    rank = torch.empty(0, dtype=torch.int64, device=self.device)
    return result.squeeze(-1) if is_vector else result, residuals, rank, none


def _exponential(self: Any) -> Any:
    counts.CALLS["linalg_matrix_exp"] += 1
    if self.is_complex():
        wide = torch.complex128
    else:
        batches.check("linalg_matrix_exp", self)
        wide = torch.float64
    batches.check_square("linalg.matrix_exp", self)
    if not self.numel():
        return self.clone()
    n = self.shape[-1]
    a = self.to(wide).reshape(-1, n, n)
    norm = float(a.abs().sum(-2).amax().item())
    if not math.isfinite(norm):
        return torch.full_like(self, math.nan)
    squarings = max(0, math.ceil(math.log2(norm)) + 1) if norm else 0
    a = a / 2**squarings
    identity = torch.zeros_like(a)
    identity.diagonal(dim1=-2, dim2=-1).fill_(1)
    result = identity + a / _TERMS
    for k in range(_TERMS - 1, 0, -1):  # Horner's scheme
        result = identity + torch.bmm(a, result) / k
    for _ in range(squarings):
        result = torch.bmm(result, result)
    return result.to(self.dtype).reshape(self.shape)


KERNELS: Final = {
    "linalg_lstsq.out": out_form("linalg_lstsq.out", _least_squares),
    "linalg_matrix_exp": _exponential,
}
