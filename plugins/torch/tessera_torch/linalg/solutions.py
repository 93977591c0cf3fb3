"""Least squares, and the exponential of matrices."""

import math
from typing import Any, Final

import torch

from tessera_torch import counts
from tessera_torch.checks.messages import title
from tessera_torch.complexes.parts import REAL_OF
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
    is_vector = _check_sizes(self, b)
    m, n = self.shape[-2:]
    right = b.unsqueeze(-1) if is_vector else b
    # PyTorch takes the first sizes of b, which are not all its batch where it has fewer of them.
    shape = torch.broadcast_shapes(self.shape[:-2], b.shape[: self.dim() - 2])
    a = batches.work_on(self, shape)
    work = batches.work_on(right, shape)
    if m >= n:
        factors = orthogonal.factor(a)
        turned = orthogonal.apply(a, factors, work, backwards=False)
        solution = solve_in_place(a[:, :n].contiguous(), turned[:, :n].contiguous(), upper=True)
        residual_rows = turned[:, n:]
    else:
        tall = a.mH.contiguous()
        factors = orthogonal.factor(tall)
        short = solve_in_place(
            tall[:, :m].contiguous(), work, upper=True, transposed=True, conjugated=True
        )
        solution = batches.zeros(a, a.shape[0], n, work.shape[-1], dtype=a.dtype)
        solution[:, :m] = short
        solution = orthogonal.apply(tall, factors, solution, backwards=True)
        residual_rows = turned = work[:, :0]
    result = batches.give_back(solution, b, (*shape, n, right.shape[-1]))
    residuals = self.new_empty(0, dtype=REAL_OF.get(self.dtype, self.dtype))
    if m > n:
        sums = residual_rows.abs().square().sum(-2)
        residuals = sums.to(REAL_OF.get(b.dtype, b.dtype)).reshape(*shape, right.shape[-1])
    none = self.new_empty(0, dtype=REAL_OF.get(self.dtype, self.dtype))
    rank = torch.empty(0, dtype=torch.int64, device=self.device)
    return result.squeeze(-1) if is_vector else result, residuals, rank, none


def _check_sizes(a: Any, b: Any) -> bool:
    """Return whether the right sides are vectors. Raises RuntimeError as PyTorch does.

    PyTorch has no shape function of lstsq.
    """
    name = "torch.linalg.lstsq"
    if a.dim() < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if b.dim() < 1:
        raise RuntimeError(f"{name}: other must have at least 1 dimension.")
    if a.dtype != b.dtype:
        raise RuntimeError(
            f"{name}: Expected input and other to have the same dtype, but got input's dtype"
            f" {title(a.dtype)} and other's dtype {title(b.dtype)}"
        )
    if a.dim() - b.dim() not in (0, 1):
        raise RuntimeError(
            f"{name}: input.dim() must be greater or equal to other.dim() and"
            " (input.dim() - other.dim()) <= 1"
        )
    is_vector = bool(b.dim() == 1 or (a.dim() != b.dim() and b.shape == a.shape[:-1]))
    if a.shape[-2] != b.shape[-1 if is_vector else -2]:
        raise RuntimeError(
            f"{name}: input.size(-2) should match other.size({-1 if is_vector else -2})"
        )
    for i, (size_a, size_b) in enumerate(zip(a.shape[:-2], b.shape, strict=False)):
        if size_a != size_b and 1 not in (size_a, size_b):
            raise RuntimeError(
                f"The size of tensor a ({size_a}) must match the size of tensor b ({size_b}) at"
                f" non-singleton dimension {i}"
            )
    return is_vector


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
    norms = a.abs().sum(-2).amax(-1).cpu()
    finite = norms.isfinite()
    # A norm is below 2^exponent, so that these many squarings begin at a norm below 1/2.
    exponents = torch.frexp(torch.where(finite, norms, 0.0)).exponent
    squarings = (exponents + 1).clamp(min=0)
    factors = torch.where(finite, 2.0 ** -squarings.to(torch.float64), math.nan)
    a = a * factors[:, None, None].to(a.device)
    identity = torch.zeros_like(a)
    identity.diagonal(dim1=-2, dim2=-1).fill_(1)
    result = identity + a / _TERMS
    for k in range(_TERMS - 1, 0, -1):  # Horner's scheme
        result = identity + torch.bmm(a, result) / k
    for step in range(int(squarings.max().item())):
        is_pending = (squarings > step)[:, None, None].to(a.device)
        result = torch.where(is_pending, torch.bmm(result, result), result)
    result = torch.where(finite[:, None, None].to(a.device), result, math.nan)
    return result.to(self.dtype).reshape(self.shape)


KERNELS: Final = {
    "linalg_lstsq.out": out_form("linalg_lstsq.out", _least_squares),
    "linalg_matrix_exp": _exponential,
}
