"""Distances between all pairs of rows, histograms, repetitions, and reductions by index."""

from collections.abc import Callable
from typing import Any, Final

import torch

from tessera_torch import counts
from tessera_torch.own.composition import slope_of_norm
from tessera_torch.targets import both


def _pairs(x: Any) -> tuple[Any, Any]:
    indices = torch.triu_indices(x.shape[0], x.shape[0], 1, device=x.device)
    return indices[0], indices[1]


def _pdist(self: Any, p: float = 2) -> Any:
    counts.CALLS["_pdist_forward"] += 1
    i, j = _pairs(self)
    return torch.linalg.vector_norm(self.index_select(0, i) - self.index_select(0, j), p, -1)


def _pdist_backward(gradient: Any, self: Any, p: float, distances: Any) -> Any:
    counts.CALLS["_pdist_backward"] += 1
    i, j = _pairs(self)
    result = torch.zeros_like(self, memory_format=torch.contiguous_format)
    if p == 0 or not i.numel():
        return result
    difference = self.index_select(0, i) - self.index_select(0, j)
    slope = slope_of_norm(difference, distances[:, None], p) * gradient[:, None]
    return result.index_add_(0, i, slope).index_add_(0, j, -slope)


def _histc(self: Any, bins: int = 100, min: Any = 0, max: Any = 0) -> Any:  # noqa: A002
    counts.CALLS["histc"] += 1
    if bins <= 0:
        raise RuntimeError("bins must be > 0")
    x = self.reshape(-1)
    low, high = min, max
    if low == high and x.numel():
        low, high = x.min().item(), x.max().item()
    if low == high:
        low, high = low - 1, high + 1
    if not (abs(low) < float("inf") and abs(high) < float("inf")):
        raise RuntimeError(f"range of [{low}, {high}] is not finite")
    if low > high:
        raise RuntimeError("max must be larger than min")
    inside = (x >= low) & (x <= high)
    if x.is_floating_point():
        places = ((x - low) * bins / (high - low)).to(torch.int64)
    else:
        places = ((x.to(torch.int64) - low) * bins).div(high - low, rounding_mode="trunc")
    places = torch.where(inside, places.to(torch.int64).clamp(0, bins - 1), 0)
    result = torch.zeros(bins, dtype=self.dtype, device=self.device)
    return result.scatter_add_(0, places, inside.to(self.dtype))


def _index_reduce(
    self: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Any:
    return _index_reduce_in_place(
        self.clone(memory_format=torch.contiguous_format),
        dim, index, source, reduce, include_self=include_self,
    )  # fmt: skip


def _index_reduce_in_place(
    self: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Any:
    counts.CALLS["index_reduce"] += 1
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(
            "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got"
            f" {reduce}."
        )
    if not self.dim():
        self[None].scatter_reduce_(0, index.reshape(-1), source.reshape(-1), reduce,
                                   include_self=include_self)  # fmt: skip
        return self
    shape = [1] * self.dim()
    shape[dim] = -1
    places = index.to(torch.int64).view(shape).expand(source.shape)
    return self.scatter_reduce_(dim, places, source, reduce, include_self=include_self)


def _nonzero_static(self: Any, *, size: int, fill_value: int = -1) -> Any:
    counts.CALLS["nonzero_static"] += 1
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    coordinates = self.nonzero()[:size]
    result = torch.full((size, self.dim()), fill_value, dtype=torch.int64, device=self.device)
    result[: coordinates.shape[0]] = coordinates
    return result


def _repeat_interleave(repeats: Any, *, output_size: int | None = None) -> Any:
    """Return each index as often as its number says."""
    counts.CALLS["repeat_interleave"] += 1
    if repeats.dim() != 1:
        raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
    if repeats.dtype not in (torch.int32, torch.int64):
        raise RuntimeError("repeats has to be Long or Int tensor")
    if not repeats.numel():
        return torch.empty_like(repeats)
    ends = repeats.cumsum(0, dtype=torch.int64)
    if output_size is not None and torch.cuda.is_current_stream_capturing():
        total = output_size  # the host cannot read the repeats to check it
    else:
        if int(repeats.min().item()) < 0:
            raise RuntimeError("repeats can not be negative")
        total = int(ends[-1].item())
        if output_size not in (None, total):
            raise RuntimeError(f"allocated size {output_size} does not match required size {total}")
    own = torch.arange(total, device=repeats.device)
    return torch.searchsorted(ends, own, right=True).to(repeats.dtype)


def _all() -> dict[str, Callable[..., Any]]:
    return {
        "_pdist_forward": _pdist,
        "_pdist_backward": _pdist_backward,
        "repeat_interleave.Tensor": _repeat_interleave,
        "index_reduce_": _index_reduce_in_place,
        **both("index_reduce", "index_reduce.out", _index_reduce),
        **both("histc", "histc.out", _histc),
        **both("nonzero_static", "nonzero_static.out", _nonzero_static),
    }


KERNELS: Final = _all()
