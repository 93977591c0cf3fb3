"""Matrices as the kernels take them: one contiguous batch in double precision."""

from collections.abc import Sequence
from typing import Any, Final

import torch

from tessera_torch.own.launching import launch
from tessera_torch.refusal import Unsupported

BLOCK: Final = 128
_TYPES: Final = (torch.float32, torch.float64, torch.complex64, torch.complex128)


def check(name: str, *tensors: Any) -> None:
    """Raise Unsupported for types that the kernels do not compute."""
    for tensor in tensors:
        if tensor.dtype not in _TYPES:
            reason = "factorizations are computed for float32, float64, complex64 and complex128"
            raise Unsupported(name, tensors, reason)


def check_square(name: str, tensor: Any) -> None:
    """Raise RuntimeError as PyTorch does, if these are no square matrices."""
    if tensor.dim() < 2:
        raise RuntimeError(f"{name}: The input tensor A must have at least 2 dimensions.")
    if tensor.shape[-1] != tensor.shape[-2]:
        raise RuntimeError(
            f"{name}: A must be batches of square matrices, but they are {tensor.shape[-2]} by"
            f" {tensor.shape[-1]} matrices"
        )


def work_on(tensor: Any, batch: Sequence[int] | None = None) -> Any:
    """Return a new contiguous batch of the matrices in double precision: (batch, m, n).

    With ``batch``, the matrices are broadcast to batches of this shape.
    """
    if batch is not None:
        tensor = tensor.expand(*batch, *tensor.shape[-2:])
    m, n = tensor.shape[-2:]
    dtype = torch.complex128 if tensor.is_complex() else torch.float64
    out = torch.empty((*tensor.shape[:-2], m, n), dtype=dtype, device=tensor.device)
    out.copy_(tensor)
    return out.view(_count(tensor.shape[:-2]), m, n)


def _count(shape: Sequence[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def give_back(work: Any, like: Any, shape: Sequence[int]) -> Any:
    """Return a batch in the type of ``like`` and in a shape."""
    return work.to(like.dtype).reshape(tuple(shape))


def empty(work: Any, *shape: int, dtype: Any = torch.float64) -> Any:
    """Return a new tensor on the device of a batch."""
    return torch.empty(shape, dtype=dtype, device=work.device)


def zeros(work: Any, *shape: int, dtype: Any = torch.float64) -> Any:
    """Return a new tensor of zeros on the device of a batch."""
    return torch.zeros(shape, dtype=dtype, device=work.device)


def identities(work: Any, m: int, n: int, dtype: Any = None) -> Any:
    """Return identities of m x n, as many as a batch has matrices, and of its type."""
    out = zeros(work, work.shape[0], m, n, dtype=dtype or work.dtype)
    out.diagonal(dim1=-2, dim2=-1).fill_(1)
    return out


def launch_each(kernel: Any, work: Any, *arguments: Any) -> None:
    """Launch a kernel with a block of threads for each matrix of a batch."""
    if work.shape[0]:
        launch(kernel, (work.shape[0],), work.device, *arguments, BLOCK)
