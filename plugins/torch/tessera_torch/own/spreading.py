"""Gradients of operators that read an element at one or several places: sums of what came of it."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from tessera_torch import counts
from tessera_torch.own.copying import upload
from tessera_torch.targets import both


def _pool(name: str, rank: int, indices_at: int) -> Callable[..., Any]:
    """Return the gradient of a pool whose results came from elements at known places."""

    def compute(*arguments: Any) -> Any:
        counts.CALLS[name] += 1
        gradient, self, indices = arguments[0], arguments[1], arguments[indices_at]
        lead = self.shape[: self.dim() - rank]
        flat = torch.zeros(
            (*lead, self.shape[-rank:].numel()), dtype=gradient.dtype, device=self.device
        )
        if gradient.numel():
            places = indices.reshape(*lead, -1)
            flat.scatter_add_(-1, places, gradient.reshape(*lead, -1))
        return flat.view(self.shape)

    return compute


def _gather_along(gradient: Any, places: Sequence[Any], sizes: Sequence[int]) -> Any:
    """Return the gradient of a tensor whose elements were read, along each last dimension."""
    result = gradient
    first = gradient.dim() - len(sizes)
    for i, (read, size) in enumerate(zip(places, sizes, strict=True)):
        dim = first + i
        shape = [*result.shape[:dim], size, *result.shape[dim + 1 :]]
        summed = torch.zeros(shape, dtype=result.dtype, device=result.device)
        result = summed.index_add(dim, upload(read, result.device), result)
    return result


def _in_single(compute: Callable[..., Any], gradient: Any) -> Any:
    """Compute sums of narrow numbers in float32."""
    narrow = gradient.dtype in (torch.float16, torch.bfloat16)
    result = compute(gradient.to(torch.float32) if narrow else gradient)
    return result.to(gradient.dtype)


def _nearest(name: str, forward: str) -> Callable[..., Any]:
    """Return the gradient of an enlargement; PyTorch's own operator says what it read."""
    read = getattr(torch.ops.aten, forward).default

    def compute(gradient: Any, output: Any, input: Any, *scales: Any) -> Any:  # noqa: A002
        counts.CALLS[name] += 1
        sizes = list(input[2:])
        scale_list = list(scales) or [None] * len(sizes)
        places = [
            read(torch.arange(size, dtype=torch.float64).view(1, 1, size), [output_size], scale)
            .view(-1)
            .to(torch.int64)
            for size, output_size, scale in zip(sizes, output, scale_list, strict=True)
        ]
        return _in_single(lambda one: _gather_along(one, places, sizes), gradient)

    return compute


def _replication(name: str, rank: int) -> Callable[..., Any]:
    def compute(gradient: Any, self: Any, padding: Sequence[int]) -> Any:
        counts.CALLS[name] += 1
        sizes = list(self.shape[-rank:])
        places = [
            (torch.arange(gradient.shape[i - rank]) - padding[2 * (rank - 1 - i)]).clamp(
                0, size - 1
            )
            for i, size in enumerate(sizes)
        ]
        return _in_single(lambda one: _gather_along(one, places, sizes), gradient)

    return compute


def _all() -> dict[str, Callable[..., Any]]:
    kernels_by_name: dict[str, Callable[..., Any]] = {}
    for rank in (2, 3):
        for kind, indices_at in (("adaptive", 2), ("fractional", 4)):
            name = f"{kind}_max_pool{rank}d_backward"
            kernels_by_name |= both(name, f"{name}.grad_input", _pool(name, rank, indices_at))
    name = "max_pool3d_with_indices_backward"
    kernels_by_name |= both(name, f"{name}.grad_input", _pool(name, 3, 7))
    for rank in (1, 2, 3):
        for kind in ("upsample_nearest", "_upsample_nearest_exact"):
            name = f"{kind}{rank}d_backward"
            kernels_by_name |= both(name, f"{name}.grad_input", _nearest(name, f"{kind}1d"))
        name = f"replication_pad{rank}d_backward"
        kernels_by_name |= both(name, f"{name}.grad_input", _replication(name, rank))
    return kernels_by_name


KERNELS: Final = _all()
