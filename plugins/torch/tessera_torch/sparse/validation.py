"""Checks of the parts of sparse tensors, by PyTorch's own operators on copies of the indices."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from tessera_torch import counts


def _validate_coordinates(
    indices: Any,
    values: Any,
    size: Sequence[int],
    is_coalesced: bool | None = None,
    check_pinning: bool | None = None,
) -> None:
    counts.CALLS["_validate_sparse_coo_tensor_args"] += 1
    if indices.device != values.device:
        raise RuntimeError(
            f"device of indices ({indices.device}) must match device of values ({values.device})"
        )
    shape = torch.empty((), dtype=values.dtype).expand(values.shape)  # the elements are not read
    torch._validate_sparse_coo_tensor_args(indices.cpu(), shape, size, is_coalesced, False)


def _validate_compressed(
    is_crow: bool, compressed_idx: Any, plain_idx: Any, cdim: int, dim: int, nnz: int
) -> None:
    counts.CALLS["_validate_compressed_sparse_indices"] += 1
    torch._validate_compressed_sparse_indices(
        is_crow, compressed_idx.cpu(), plain_idx.cpu(), cdim, dim, nnz
    )


DENSE_KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "_validate_sparse_coo_tensor_args": _validate_coordinates,
    "_validate_compressed_sparse_indices": _validate_compressed,
}
"""Of these all tensors are dense, so they are registered for CUDA."""
