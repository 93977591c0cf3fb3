"""Eigenvalues and eigenvectors of any square matrices, by Schur forms."""

from typing import Any, Final

import torch

from tessera_torch import counts
from tessera_torch.complexes.parts import COMPLEX_OF, join
from tessera_torch.linalg import batches
from tessera_torch.linalg.eigen_kernels import back_substitute, schur
from tessera_torch.own.launching import launch
from tessera_torch.targets import both, out_form

_BLOCK: Final = 32  # a warp, so that rows of small matrices keep all threads busy
_EPS: Final = torch.finfo(torch.float64).eps
_TINY: Final = 1e-150  # whose square is not 0


def _solve(name: str, A: Any, with_vectors: bool) -> tuple[Any, Any]:
    """Return eigenvalues, and the vectors as columns, in double precision; or None for these."""
    batches.check(name, A)
    batches.check_square("linalg.eig", A)
    n = A.shape[-1]
    work = batches.work_on(A)
    if not bool(work.isfinite().all().item()):
        raise RuntimeError("torch.linalg.eig: input tensor should not contain infs or NaNs.")
    is_complex = work.is_complex()
    size = torch.maximum(work.real.abs(), work.imag.abs()) if is_complex else work.abs()
    largest = size.amax((-2, -1), keepdim=True) if size.numel() else size.sum((-2, -1), True)
    largest = torch.where(largest > 0, largest, 1.0)
    real = ((work.real if is_complex else work) / largest).contiguous()
    imag = ((work.imag if is_complex else torch.zeros_like(work)) / largest).contiguous()
    bases = [batches.identities(real, n, n), torch.zeros_like(real)]
    failures = batches.zeros(real, real.shape[0], dtype=torch.int32)
    if real.numel():
        launch(
            schur, (real.shape[0],), real.device,
            real, imag, *bases, failures, n, _BLOCK, warps=1,
        )  # fmt: skip
    if bool(failures.any().item()):
        raise torch.linalg.LinAlgError("linalg.eig: The algorithm failed to converge.")
    values = [part.diagonal(dim1=-2, dim2=-1).clone() for part in (real, imag)]
    if not is_complex:  # rounding leaves imaginary parts of real eigenvalues
        bound = 64 * _EPS * n * (real.abs().sum(-1).amax(-1, keepdim=True) if n else 0)
        values[1] = torch.where(values[1].abs() <= bound, 0.0, values[1])
    scale = largest[:, :, 0]
    eigenvalues = join(values[0] * scale, values[1] * scale)
    return eigenvalues, _vectors(real, imag, bases) if with_vectors else None


def _vectors(real: Any, imag: Any, bases: list[Any]) -> Any:
    """Return the eigenvectors of length 1 of matrices whose Schur forms and bases are given."""
    n = real.shape[-1]
    if not real.numel():
        return join(real, imag)
    tolerance = (real.abs() + imag.abs()).sum(-1).amax(-1) * _EPS
    rows = [torch.zeros_like(real), torch.zeros_like(real)]
    grid = (n, real.shape[0])
    launch(
        back_substitute, grid, real.device,
        real, imag, *rows, tolerance.clamp(min=_TINY), n, _BLOCK, warps=1,
    )  # fmt: skip
    # Large elements could overflow in the products.
    largest = torch.maximum(rows[0].abs(), rows[1].abs()).amax(-1, keepdim=True)
    xr, xi = ((part / largest).mT for part in rows)
    zr, zi = bases
    vr, vi = zr @ xr - zi @ xi, zr @ xi + zi @ xr
    squares = vr * vr + vi * vi
    # The largest element of each vector is made real, as LAPACK does.
    place = squares.argmax(-2, keepdim=True)
    length = squares.sum(-2, keepdim=True).sqrt()
    size = squares.gather(-2, place).sqrt()
    ur, ui = vr.gather(-2, place) / size, vi.gather(-2, place) / size
    return join((vr * ur + vi * ui) / length, (vi * ur - vr * ui) / length)


def _eig(A: Any) -> tuple[Any, Any]:
    counts.CALLS["linalg_eig"] += 1
    values, vectors = _solve("linalg_eig", A, True)
    dtype = COMPLEX_OF.get(A.dtype, A.dtype)
    return values.to(dtype).reshape(A.shape[:-1]), vectors.to(dtype).reshape(A.shape)


def _eigvals(A: Any) -> Any:
    counts.CALLS["linalg_eigvals"] += 1
    values = _solve("linalg_eigvals", A, False)[0]
    return values.to(COMPLEX_OF.get(A.dtype, A.dtype)).reshape(A.shape[:-1])


KERNELS: Final = {
    **both("linalg_eig", "linalg_eig.out", _eig),
    "_linalg_eigvals": _eigvals,
    "linalg_eigvals.out": out_form("linalg_eigvals.out", _eigvals),
}
