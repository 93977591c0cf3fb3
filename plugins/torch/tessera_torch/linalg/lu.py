"""LU factors with partial pivoting, and what follows from them."""

from typing import Any, Final

import torch

from tessera_torch import counts
from tessera_torch.complexes.parts import REAL_OF
from tessera_torch.linalg import batches, complex_factors
from tessera_torch.linalg.factor_kernels import factor_lu, swap_places
from tessera_torch.linalg.triangles import solve_in_place
from tessera_torch.own.launching import launch
from tessera_torch.targets import both

_BOUNDS: Final = ("greater or equal to 1", "smaller or equal to LU.size(-2)")


def factor(work: Any, pivoted: bool = True) -> tuple[Any, Any]:
    """Factor a batch in place; return the pivots, from 1 on, and LAPACK's info."""
    count, m, n = work.shape
    pivots = batches.empty(work, count, min(m, n), dtype=torch.int32)
    infos = batches.zeros(work, count, dtype=torch.int32)
    if work.is_complex():
        complex_factors.factor_lu(work, pivots, infos, pivoted)
    elif m and n:
        batches.launch_each(factor_lu, work, work, pivots, infos, m, n, pivoted)
    return pivots, infos


def permutation(pivots: Any, m: int) -> Any:
    """Return the order of rows that swaps lead to: (batch, m)."""
    count, k = pivots.shape
    order = torch.arange(m, device=pivots.device).repeat(count, 1)
    if count and k:
        launch(swap_places, (count,), pivots.device, order, pivots.contiguous(), m, k, warps=1)
    return order


def _least_and_most(pivots: Any, m: int) -> tuple[bool, bool]:
    """Return whether all pivots are at least 1, and whether all are at most m.

    While a CUDA graph is captured, the host cannot read them, and they are not checked.
    """
    if not pivots.numel() or torch.cuda.is_current_stream_capturing():
        return True, True
    smallest, largest = (int(extreme) for extreme in pivots.cpu().aminmax())
    return smallest >= 1, largest <= m


def _arrange(work: Any, order: Any) -> Any:
    return work.gather(1, order[:, :, None].expand(work.shape))


def _factor_for_determinant(tensor: Any) -> tuple[Any, Any]:
    """Return the factors and pivots of the transposed matrices if these are contiguous and real.

    PyTorch factors them so, and the determinants' gradients read the factors as such.
    """
    is_transposed = tensor.is_contiguous() and not tensor.is_complex()
    work = batches.work_on(tensor.mT if is_transposed else tensor)
    return work, factor(work)[0]


def solve(factors: Any, pivots: Any, right: Any, transposed: bool = False) -> Any:
    """Return the solutions of a batch of systems, given by factors."""
    order = permutation(pivots, factors.shape[-1])
    if not transposed:
        result = _arrange(right, order)
        solve_in_place(factors, result, upper=False, unit=True)
        return solve_in_place(factors, result, upper=True)
    solve_in_place(factors, right, upper=True, transposed=True)
    solve_in_place(factors, right, upper=False, transposed=True, unit=True)
    return _arrange(right, order.argsort(-1))


def _report(name: str, infos: Any, a: Any, check_errors: bool) -> Any:
    infos = infos.reshape(a.shape[:-2])
    if check_errors:
        torch._linalg_check_errors(infos, name, is_matrix=a.dim() == 2)
    return infos


def _factor_ex(A: Any, *, pivot: bool = True, check_errors: bool = False) -> Any:
    counts.CALLS["linalg_lu_factor_ex"] += 1
    batches.check("linalg_lu_factor_ex", A)
    if A.dim() < 2:
        raise RuntimeError(
            f"torch.lu_factor: Expected tensor with 2 or more dimensions. Got size:"
            f" {list(A.shape)} instead"
        )
    work = batches.work_on(A)
    pivots, infos = factor(work, pivot)
    infos = _report("torch.linalg.lu_factor_ex", infos, A, check_errors)
    pivots = pivots.reshape(*A.shape[:-2], pivots.shape[-1])
    return batches.give_back(work, A, A.shape), pivots, infos


def _unpack(
    LU_data: Any,
    LU_pivots: Any,
    unpack_data: bool = True,
    unpack_pivots: bool = True,
) -> tuple[Any, Any, Any]:
    counts.CALLS["lu_unpack"] += 1
    m, n = LU_data.shape[-2:]
    k = min(m, n)
    none = torch.empty(0, dtype=LU_data.dtype, device=LU_data.device)
    lower = upper = matrix = none
    if unpack_data:
        lower = LU_data[..., :k].tril(-1)
        lower.diagonal(dim1=-2, dim2=-1).fill_(1)
        upper = LU_data[..., :k, :].triu()
    if unpack_pivots:
        if LU_pivots.dtype != torch.int32:
            raise RuntimeError(
                "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32"
                " dtype.\nNote: this function is intended to be used with the output produced by"
                " torch.linalg.lu_factor"
            )
        shape = LU_pivots.shape[:-1]
        expected_shape = [*LU_data.shape[:-2], k]
        if list(LU_pivots.shape) != expected_shape:
            actual_shape = list(LU_pivots.shape)
            raise ValueError(
                f"Expected LU_pivots to have shape {expected_shape} but got {actual_shape} instead."
            )
        swaps = LU_pivots.reshape(shape.numel(), k)
        if _least_and_most(swaps, m) != (True, True):
            raise RuntimeError(
                "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive."
                "Did you properly pass the result of lu_factor?"
            )
        order = permutation(swaps, m)
        dtype = REAL_OF.get(LU_data.dtype, LU_data.dtype)
        matrix = torch.zeros((order.shape[0], m, m), dtype=dtype, device=LU_data.device)
        matrix.scatter_(1, order[:, None, :], 1)
        matrix = matrix.to(LU_data.dtype).reshape(*shape, m, m)
    return matrix, lower, upper


def _lu(A: Any, *, pivot: bool = True) -> tuple[Any, Any, Any]:
    counts.CALLS["linalg_lu"] += 1
    factors, pivots, _ = _factor_ex(A, pivot=pivot)
    matrix, lower, upper = _unpack(factors, pivots, unpack_pivots=pivot)
    return matrix, lower, upper


def _lu_solve(
    LU: Any,
    pivots: Any,
    B: Any,
    *,
    left: bool = True,
    adjoint: bool = False,
) -> Any:
    counts.CALLS["linalg_lu_solve"] += 1
    batches.check("linalg_lu_solve", LU, B)
    shape = torch.broadcast_shapes(LU.shape[:-2], B.shape[:-2])
    factors = batches.work_on(LU, shape)
    swaps = pivots.expand(*shape, pivots.shape[-1]).reshape(factors.shape[0], pivots.shape[-1])
    for is_met, bound in zip(_least_and_most(swaps, LU.shape[-1]), _BOUNDS, strict=True):
        if not is_met:
            raise RuntimeError(
                f"Pivots given to lu_solve must all be {bound}. Did you properly pass the result of"
                " lu_factor?"
            )
    right = B if left else B.mT
    is_conjugated = adjoint and B.is_complex()
    work = batches.work_on(right.conj() if is_conjugated else right, shape)
    result = solve(factors, swaps, work, transposed=adjoint == left)
    result = result.conj() if is_conjugated else result
    answer = batches.give_back(result, B, (*shape, *right.shape[-2:]))
    return answer if left else answer.mT.contiguous()


def _solve_ex(A: Any, B: Any, *, left: bool = True, check_errors: bool = False) -> Any:
    counts.CALLS["_linalg_solve_ex"] += 1
    batches.check("_linalg_solve_ex", A, B)
    batches.check_square("linalg.solve", A)
    is_vector = B.dim() == 1 or (A.dim() - 1 == B.dim() and B.shape == A.shape[:-1])
    right = B.unsqueeze(-1) if is_vector else B
    right = right if left else right.mT
    if right.shape[-2] != A.shape[-1]:
        raise RuntimeError(
            f"linalg.solve: Incompatible shapes of A and B for the equation"
            f" {'AX = B' if left else 'XA = B'} ({A.shape[-2]}x{A.shape[-1]} and"
            f" {right.shape[-2]}x{right.shape[-1]})"
        )
    shape = torch.broadcast_shapes(A.shape[:-2], right.shape[:-2])
    factors = batches.work_on(A)
    pivots, infos = factor(factors)
    pivots = pivots.reshape(*A.shape[:-2], A.shape[-1])
    work = batches.work_on(right, shape)
    whole = factors.reshape(A.shape).expand(*shape, *A.shape[-2:])
    whole = whole.reshape(work.shape[0], *A.shape[-2:])
    swaps = pivots.expand(*shape, A.shape[-1]).reshape(work.shape[0], A.shape[-1])
    result = solve(whole.contiguous(), swaps, work, transposed=not left)
    result = batches.give_back(result, B, (*shape, *right.shape[-2:]))
    result = result if left else result.mT.contiguous()
    result = result.squeeze(-1) if is_vector else result
    infos = _report("torch.linalg.solve_ex", infos, A, check_errors)
    return result, batches.give_back(factors, A, A.shape), pivots, infos


def _inverse_ex(A: Any, *, check_errors: bool = False) -> tuple[Any, Any]:
    counts.CALLS["linalg_inv_ex"] += 1
    batches.check("linalg_inv_ex", A)
    batches.check_square("linalg.inv", A)
    factors = batches.work_on(A)
    pivots, infos = factor(factors)
    n = A.shape[-1]
    result = solve(factors, pivots, batches.identities(factors, n, n))
    infos = _report("linalg.inv_ex", infos, A, check_errors)
    return batches.give_back(result, A, A.shape), infos


def _odd(pivots: Any) -> Any:
    """Return whether the swaps of each matrix are odd in number."""
    own = torch.arange(1, pivots.shape[-1] + 1, dtype=torch.int32, device=pivots.device)
    return (pivots != own).sum(-1) % 2


def _determinant(A: Any) -> tuple[Any, Any, Any]:
    counts.CALLS["_linalg_det"] += 1
    batches.check("_linalg_det", A)
    batches.check_square("linalg.det", A)
    work, pivots = _factor_for_determinant(A)
    result = work.diagonal(dim1=-2, dim2=-1).prod(-1) * (1 - 2 * _odd(pivots))
    shape = A.shape[:-2]
    pivots = pivots.reshape(*shape, A.shape[-1])
    return batches.give_back(result, A, shape), batches.give_back(work, A, A.shape), pivots


def _log_determinant(A: Any) -> tuple[Any, Any, Any, Any]:
    counts.CALLS["_linalg_slogdet"] += 1
    batches.check("_linalg_slogdet", A)
    batches.check_square("linalg.slogdet", A)
    work, pivots = _factor_for_determinant(A)
    diagonal = work.diagonal(dim1=-2, dim2=-1)
    sign = diagonal.sgn().prod(-1) * (1 - 2 * _odd(pivots))
    size = diagonal.abs().log().sum(-1)
    real = size.to(A.abs().dtype if A.is_complex() else A.dtype)
    shape = A.shape[:-2]
    pivots = pivots.reshape(*shape, A.shape[-1])
    return (
        batches.give_back(sign, A, shape), real.reshape(shape),
        batches.give_back(work, A, A.shape), pivots,
    )  # fmt: skip


KERNELS: Final = {
    **both("linalg_lu_factor_ex", "linalg_lu_factor_ex.out", _factor_ex),
    **both("lu_unpack", "lu_unpack.out", _unpack),
    **both("linalg_lu", "linalg_lu.out", _lu),
    **both("linalg_lu_solve", "linalg_lu_solve.out", _lu_solve),
    **both("_linalg_solve_ex", "_linalg_solve_ex.result", _solve_ex),
    **both("linalg_inv_ex", "linalg_inv_ex.inverse", _inverse_ex),
    **both("_linalg_det", "_linalg_det.result", _determinant),
    **both("_linalg_slogdet", "_linalg_slogdet.sign", _log_determinant),
}
