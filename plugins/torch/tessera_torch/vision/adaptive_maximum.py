"""The largest elements of windows whose sizes differ, and their gradients."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from tessera_torch import counts
from tessera_torch.targets import both


def adaptive_windows(inner: int, outer: int, device: Any) -> tuple[Any, Any]:
    """Return the places of each window's elements, and which of these are inside."""
    bounds = [(i * inner // outer, -(-(i + 1) * inner // outer)) for i in range(outer)]
    longest = max((end - begin for begin, end in bounds), default=1)
    own = torch.arange(outer, device=device)  # on the device: a CUDA graph can capture it
    begins = own * inner // max(outer, 1)
    ends = ((own + 1) * inner + outer - 1) // max(outer, 1)
    places = begins[:, None] + torch.arange(longest, device=device)
    return places.clamp(max=max(inner - 1, 0)), places < ends[:, None]


def _pool(self: Any, output_size: Sequence[int]) -> tuple[Any, Any]:
    rank = len(output_size)
    sizes = self.shape[-rank:]
    batch = self.shape[:-rank]
    window = torch.zeros((1,) * (2 * rank), dtype=torch.int64, device=self.device)
    inside = torch.ones((1,) * (2 * rank), dtype=torch.bool, device=self.device)
    for i, (inner, outer) in enumerate(zip(sizes, output_size, strict=True)):
        places, own = adaptive_windows(inner, outer, self.device)
        shape = [1] * (2 * rank)
        shape[i], shape[rank + i] = places.shape
        window = window * inner + places.view(shape)
        inside = inside & own.view(shape)
    window, inside = (
        tensor.expand(torch.broadcast_shapes(window.shape, inside.shape)).reshape(*output_size, -1)
        for tensor in (window, inside)
    )
    elements = self.flatten(-rank).index_select(-1, window.flatten())
    elements = elements.view(*batch, *window.shape)
    lowest = -float("inf") if self.is_floating_point() else torch.iinfo(self.dtype).min
    largest, at = torch.where(inside, elements, lowest).max(-1)
    flat_positions = window.expand(elements.shape).gather(-1, at.unsqueeze(-1)).squeeze(-1)
    return largest, flat_positions


def _pool_of_rank(rank: int) -> Callable[..., tuple[Any, Any]]:
    name = f"adaptive_max_pool{rank}d"

    def compute(self: Any, output_size: Sequence[int]) -> tuple[Any, Any]:
        counts.CALLS[name] += 1
        if self.dim() not in (rank + 1, rank + 2):
            raise RuntimeError(
                f"{name}(): Expected {rank + 1}D or {rank + 2}D tensor, but got: {list(self.shape)}"
            )
        for i in range(1, self.dim()):
            if not self.shape[i]:
                raise RuntimeError(
                    f"{name}(): Expected input to have non-zero size for non-batch dimensions, but"
                    f" input has sizes {list(self.shape)} with dimension {i} being empty"
                )
        if len(output_size) != rank:
            raise RuntimeError(f"{name}(): internal error: output_size.size() must be {rank}")
        return _pool(self, output_size)

    return compute


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    **both("adaptive_max_pool2d", "adaptive_max_pool2d.out", _pool_of_rank(2)),
    **both("adaptive_max_pool3d", "adaptive_max_pool3d.out", _pool_of_rank(3)),
}
