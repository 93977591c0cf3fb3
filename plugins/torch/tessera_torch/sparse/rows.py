"""Sparse tensors of compressed rows: conversions of their indices, and products."""

from typing import Any, Final

import torch

from tessera_torch import counts


def _compress(self: Any, size: int, *, out_int32: bool = False) -> Any:
    """Return where each row begins, for sorted rows."""
    counts.CALLS["_convert_indices_from_coo_to_csr"] += 1
    rows = torch.arange(size + 1, dtype=self.dtype, device=self.device)
    found = torch.searchsorted(self.contiguous(), rows)
    return found.to(torch.int32 if out_int32 else torch.int64)


def _expand(
    crow_indices: Any, col_indices: Any, *, out_int32: bool = False, transpose: bool = False
) -> Any:
    """Return the coordinates of all elements."""
    counts.CALLS["_convert_indices_from_csr_to_coo"] += 1
    if crow_indices.dim() != 1:
        raise NotImplementedError(
            "batches of sparse matrices have no kernel on Tessera's simulated GPU. Use to_dense() on"
            " the CPU (tensor.cpu())"
        )
    places = torch.arange(col_indices.shape[0], device=col_indices.device)
    rows = torch.searchsorted(crow_indices.to(torch.int64), places, right=True) - 1
    pair = (col_indices.to(torch.int64), rows) if transpose else (rows, col_indices.to(torch.int64))
    return torch.stack(pair).to(torch.int32 if out_int32 else torch.int64)


def _addmm_out(self: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1, out: Any) -> Any:
    counts.CALLS["addmm (sparse rows)"] += 1
    if any(one.layout != torch.strided for one in (self, mat2, out)):
        raise NotImplementedError(
            "addmm with a sparse addend or second matrix has no kernel on Tessera's simulated GPU."
            " Use to_dense(), or compute it on the CPU (tensor.cpu())"
        )
    result = torch.addmm(self, mat1.to_dense(), mat2, beta=beta, alpha=alpha)
    return out.resize_(result.shape).copy_(result)


DENSE_KERNELS: Final = {
    "_convert_indices_from_coo_to_csr": _compress,
    "_convert_indices_from_csr_to_coo": _expand,
}
KERNELS: Final = {"addmm.out": _addmm_out}
