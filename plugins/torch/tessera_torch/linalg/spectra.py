"""Eigenvalues of symmetric matrices, and singular values, by Jacobi's rotations."""

from collections.abc import Sequence
from typing import Any, Final

import torch

from tessera_torch import counts
from tessera_torch.complexes.parts import REAL_OF, join, split
from tessera_torch.linalg import batches, complex_factors, orthogonal
from tessera_torch.linalg.rotation_kernels import (
    orthogonalize,
    orthogonalize_complex,
    rotate_columns,
    rotate_rows,
)
from tessera_torch.own.launching import launch
from tessera_torch.targets import both

_SWEEPS: Final = 60
_BLOCK: Final = 64  # two numbers for each thread of a warp
_EPS: Final = torch.finfo(torch.float64).eps


def _scale(*parts: Any) -> Any:
    """Divide matrices by their largest elements, whose squares could overflow; return these.

    Those of complex matrices are given as real and imaginary parts.
    """
    size = parts[0].abs()
    for part in parts[1:]:
        size = torch.maximum(size, part.abs())
    largest = size.amax((-2, -1), keepdim=True) if size.numel() else size.sum((-2, -1), True)
    largest = torch.where(largest > 0, largest, 1.0)
    for part in parts:
        part.div_(largest)
    return largest[:, :, 0]


def _check_values(name: str, work: Any, infos: Any, is_matrix: bool) -> None:
    """Raise LinAlgError as LAPACK's callers do: for numbers that are not finite, or no end."""
    bad = (infos != 0) | ~work.isfinite().all(-1).all(-1)
    if not bool(bad.any().item()):
        return
    first = int(bad.nonzero()[0].item())
    where = "" if is_matrix else f"(Batch element {first}): "
    raise torch.linalg.LinAlgError(
        f"{name}: {where}The algorithm failed to converge because the input matrix is"
        " ill-conditioned or has too many repeated eigenvalues, or is not finite."
    )


def _sweep(work: Any, n: int, kernels: Sequence[tuple[Any, Sequence[Any]]], *sizes: int) -> Any:
    """Rotate pairs of ``n`` rows until none needs it; return which matrices never got there.

    The first kernel counts the rotations of each matrix.
    """
    count = work.shape[0]
    rotations = batches.zeros(work, count, dtype=torch.int32)
    players = n + n % 2
    grid = (players // 2, count)
    for _ in range(_SWEEPS):
        if not count or players < 2:
            break
        rotations.zero_()
        for step in range(players - 1):
            for i, (kernel, tensors) in enumerate(kernels):
                counted = () if i else (rotations,)
                launch(
                    kernel, grid, work.device,
                    *tensors, *counted, n, *sizes, players, step, _BLOCK, warps=1,
                )  # fmt: skip
        if not int(rotations.max().item()):
            break
    return rotations


def _eigh(A: Any, UPLO: str = "L", compute_v: bool = True) -> tuple[Any, Any]:
    counts.CALLS["_linalg_eigh"] += 1
    batches.check("_linalg_eigh", A)
    batches.check_square("linalg.eigh", A)
    n = A.shape[-1]
    work = batches.work_on(A)
    half = work.triu() if UPLO.upper() == "U" else work.tril()
    strict_triangle = half.triu(1) if UPLO.upper() == "U" else half.tril(-1)
    work = half + strict_triangle.mH
    infos = batches.zeros(work, work.shape[0], dtype=torch.int32)
    _check_values("linalg.eigh", work, infos, A.dim() == 2)
    if work.is_complex():
        return _eigh_complex(A, work, compute_v)
    largest = _scale(work)
    vectors = batches.identities(work, n, n)
    if n:
        turns = batches.empty(work, work.shape[0], n + 1)
        infos = _sweep(
            work, n, [(rotate_rows, (work, vectors, turns)), (rotate_columns, (work, turns))]
        )
        _check_values("linalg.eigh", work, infos, A.dim() == 2)
    values, order = work.diagonal(dim1=-2, dim2=-1).sort(-1)
    result = batches.give_back(values * largest, A, A.shape[:-1])
    if not compute_v:
        return result, A.new_empty(0)
    arranged = vectors.gather(1, order[:, :, None].expand(vectors.shape)).mT
    return result, batches.give_back(arranged, A, A.shape)


def _eigh_complex(A: Any, work: Any, compute_v: bool) -> tuple[Any, Any]:
    """Return eigenvalues and vectors by those of a sum with an identity, which has no negative."""
    n = A.shape[-1]
    real, imag = complex_factors.parts(work)
    imag.diagonal(dim1=-2, dim2=-1).zero_()  # as LAPACK, which does not read it
    largest = _scale(real, imag)
    shift = (real.square() + imag.square()).sum((-2, -1)).sqrt()
    real.diagonal(dim1=-2, dim2=-1).add_(shift[:, None])
    _, values, right = decompose(join(real, imag), "linalg.eigh")
    values = (values - shift[:, None]) * largest
    result = values.flip(-1).to(_real(A.dtype)).reshape(A.shape[:-1])
    if not compute_v:
        return result, A.new_empty(0)
    return result, batches.give_back(right.mH.flip(-1), A, (*A.shape[:-2], n, n))


def _real(dtype: Any) -> Any:
    return REAL_OF.get(dtype, dtype)


def decompose(tensor: Any, name: str) -> tuple[Any, Any, Any]:
    """Return U, S and V^H of batches in double precision: as many columns as singular values."""
    work = batches.work_on(tensor)
    m, n = work.shape[-2:]
    wide = m < n
    rows = (work if wide else work.mT).contiguous()  # the vectors to make orthogonal
    k, length = rows.shape[-2:]
    infos = batches.zeros(work, work.shape[0], dtype=torch.int32)
    _check_values(name, rows, infos, tensor.dim() == 2)
    largest = _scale(*(split(rows) if rows.is_complex() else (rows,)))
    vectors = batches.identities(work, k, k)
    if k > 1 and work.is_complex():
        operands = (*complex_factors.parts(rows), *complex_factors.parts(vectors))
        infos = _sweep(rows, k, [(orthogonalize_complex, operands)], length)
        rows, vectors = join(*operands[:2]), join(*operands[2:])
    elif k > 1:
        infos = _sweep(rows, k, [(orthogonalize, (rows, vectors))], length)
    if k > 1:
        _check_values(name, rows, infos, tensor.dim() == 2)
    sizes = rows.abs().square().sum(-1).sqrt()
    values, order = sizes.sort(-1, descending=True)
    rows = rows.gather(1, order[:, :, None].expand(rows.shape))
    vectors = vectors.gather(1, order[:, :, None].expand(vectors.shape))
    long = _complete(rows, values, k)
    values = values * largest
    return (vectors.mH, values, long.mT) if wide else (long, values, vectors.conj())


def _complete(rows: Any, values: Any, columns: int) -> Any:
    """Return unit vectors of the rows as columns; where a row is 0, any orthogonal one."""
    count, k, length = rows.shape
    limit = values[:, :1] * _EPS * max(k, length) if k else values
    usable = (values > limit) & (values > 0)
    safe = torch.where(usable, values, 1.0)
    units = torch.where(usable[:, :, None], rows / safe[:, :, None], 0.0)
    if columns == k and bool(usable.all().item()):
        return units.mT
    work = units.mT.clone(memory_format=torch.contiguous_format)  # factor() changes it
    whole = orthogonal.form(work, orthogonal.factor(work), columns)
    padded_units = batches.zeros(rows, count, length, columns, dtype=rows.dtype)
    padded_units[:, :, :k] = units.mT
    unit_mask = torch.zeros((count, columns), dtype=torch.bool, device=rows.device)
    unit_mask[:, :k] = usable
    return torch.where(unit_mask[:, None, :], padded_units, whole)


def _svd(
    A: Any,
    full_matrices: bool = False,
    compute_uv: bool = True,
    *,
    driver: str | None = None,
) -> tuple[Any, Any, Any]:
    counts.CALLS["_linalg_svd"] += 1
    batches.check("_linalg_svd", A)
    if A.dim() < 2:
        raise RuntimeError("linalg.svd: The input tensor A must have at least 2 dimensions.")
    m, n = A.shape[-2:]
    k = min(m, n)
    shape = A.shape[:-2]
    left_vectors, values, right_vectors = decompose(A, "linalg.svd")
    result = values.to(_real(A.dtype)).reshape(*shape, k)
    if not compute_uv:
        return A.new_empty(0), result, A.new_empty(0)
    if full_matrices and m > k:
        left_vectors = _extend(left_vectors, m)
    if full_matrices and n > k:
        right_vectors = _extend(
            right_vectors.mT, n
        ).mT  # also for complex numbers: rows are orthogonal
    return (
        batches.give_back(left_vectors, A, (*shape, m, left_vectors.shape[-1])),
        result,
        batches.give_back(right_vectors, A, (*shape, right_vectors.shape[-2], n)),
    )


def _extend(columns: Any, size: int) -> Any:
    """Return orthogonal columns and others that make them a basis."""
    shape = (columns.shape[0], columns.shape[2])
    unit_values = torch.ones(shape, dtype=torch.float64, device=columns.device)
    return _complete(columns.mT.contiguous(), unit_values, size)


def _polar(A: Any) -> tuple[Any, Any]:
    """Return the unitary factor and the positive semidefinite one, from singular values."""
    counts.CALLS["linalg_polar"] += 1
    left_vectors, values, right_vectors = torch.linalg.svd(A, full_matrices=False)
    root = right_vectors.mH * values.unsqueeze(-2).to(right_vectors.dtype)
    return left_vectors @ right_vectors, root @ right_vectors


def _root(self: Any) -> Any:
    """Return the root of a Hermitian matrix; negative eigenvalues count as 0."""
    counts.CALLS["linalg_matrix_sqrth"] += 1
    values, vectors = torch.linalg.eigh(self)
    roots = values.clamp(min=0).sqrt().unsqueeze(-2).to(vectors.dtype)
    return (vectors * roots) @ vectors.mH


KERNELS: Final = {
    **both("linalg_polar", "linalg_polar.out", _polar),
    "linalg_matrix_sqrth": _root,
    **both("_linalg_eigh", "_linalg_eigh.eigenvalues", _eigh),
    **both("_linalg_svd", "_linalg_svd.U", _svd),
}
