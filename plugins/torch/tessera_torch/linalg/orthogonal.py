"""QR factors by Householder's reflections."""

from typing import Any, Final

from tessera_torch import counts
from tessera_torch.linalg import batches, complex_factors
from tessera_torch.linalg.factor_kernels import factor_qr, reflect
from tessera_torch.targets import both


def factor(work: Any) -> Any:
    """Factor a batch in place; return the reflections' factors."""
    count, m, n = work.shape
    factors = batches.zeros(work, count, min(m, n), dtype=work.dtype)
    if work.is_complex():
        complex_factors.factor_qr(work, factors)
    elif m and n:
        batches.launch_each(factor_qr, work, work, factors, m, n)
    return factors


def apply(vectors: Any, factors: Any, target: Any, backwards: bool) -> Any:
    """Apply Q to a batch in place, from the last reflection on; its adjoint if not backwards."""
    m, n = target.shape[-2:]
    k = factors.shape[-1]
    if target.is_complex():
        complex_factors.apply_reflections(vectors, factors, target, backwards)
    elif n and k:
        batches.launch_each(
            reflect, target,
            vectors, factors, target, m, k, n, vectors.shape[-1], int(backwards),
        )  # fmt: skip
    return target


def form(vectors: Any, factors: Any, columns: int) -> Any:
    """Return the first columns of the reflections' product."""
    target = batches.identities(vectors, vectors.shape[-2], columns)
    return apply(vectors, factors, target, backwards=True)


def _qr(A: Any, mode: str = "reduced") -> tuple[Any, Any]:
    counts.CALLS["linalg_qr"] += 1
    batches.check("linalg_qr", A)
    if A.dim() < 2:
        raise RuntimeError("linalg.qr: The input tensor A must have at least 2 dimensions.")
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r',"
            " or 'complete'"
        )
    m, n = A.shape[-2:]
    k = min(m, n)
    columns = m if mode == "complete" else k
    work = batches.work_on(A)
    factors = factor(work)
    upper = work[:, :columns].triu()
    r = batches.give_back(upper, A, (*A.shape[:-2], columns, n))
    if mode == "r":
        return A.new_empty(0), r
    q = form(work, factors, columns)
    return batches.give_back(q, A, (*A.shape[:-2], m, columns)), r


def _geqrf(self: Any) -> tuple[Any, Any]:
    counts.CALLS["geqrf"] += 1
    batches.check("geqrf", self)
    if self.dim() < 2:
        raise RuntimeError("torch.geqrf: input must have at least 2 dimensions.")
    work = batches.work_on(self)
    factors = factor(work)
    shape = (*self.shape[:-2], factors.shape[-1])
    return batches.give_back(work, self, self.shape), batches.give_back(factors, self, shape)


def _product(input: Any, tau: Any) -> Any:
    counts.CALLS["linalg_householder_product"] += 1
    batches.check("linalg_householder_product", input, tau)
    m, n = input.shape[-2:]
    if m < n or tau.shape[-1] > n:
        raise RuntimeError(
            "torch.linalg.householder_product: input.shape[-2] must be greater than or equal to"
            " input.shape[-1], and input.shape[-1] to tau.shape[-1]"
        )
    work = batches.work_on(input)
    factors = batches.work_on(tau.unsqueeze(-2))[:, 0]
    return batches.give_back(form(work, factors, n), input, input.shape)


def _multiply(
    self: Any, input2: Any, input3: Any, left: bool = True, transpose: bool = False
) -> Any:
    counts.CALLS["ormqr"] += 1
    batches.check("ormqr", self, input2, input3)
    if input2.shape[-1] != min(input3.shape[-2 if left else -1], self.shape[-1]):
        raise RuntimeError(
            f"torch.ormqr: tau.shape[-1] must be equal to min(other.shape[{-2 if left else -1}],"
            " input.shape[-1])"
        )
    work = batches.work_on(self)
    factors = batches.work_on(input2.unsqueeze(-2))[:, 0]
    target = batches.work_on(input3 if left else input3.mH)
    if target.shape[-2] != work.shape[-2]:
        raise RuntimeError(
            "torch.ormqr: other.shape[-2] must be equal to input.shape[-2]"
            if left
            else "torch.ormqr: other.shape[-1] must be equal to input.shape[-2]"
        )
    # Q C applies the last reflection first; C Q is the adjoint of Q^H C^H.
    result = apply(work, factors, target, backwards=left != transpose)
    return batches.give_back(result if left else result.mH, input3, input3.shape)


KERNELS: Final = {
    **both("linalg_qr", "linalg_qr.out", _qr),
    **both("geqrf", "geqrf.a", _geqrf),
    **both("linalg_householder_product", "linalg_householder_product.out", _product),
    **both("ormqr", "ormqr.out", _multiply),
}
