"""Average pooling with overlapping windows of many elements, for which Inductor has no kernel.

Windows are a sum along each dimension.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final

import torch

from tessera_torch import counts
from tessera_torch.own.copying import upload
from tessera_torch.own.guard import Guarded
from tessera_torch.signature import Signature
from tessera_torch.targets import out_form
from tessera_torch.vision.adaptive_maximum import adaptive_windows

_MOST: Final = 25  # elements of a window that Inductor unrolls


def _spread(numbers: Any, rank: int) -> list[int]:
    """Return a number for each dimension."""
    listed = [numbers] if isinstance(numbers, int) else list(numbers)
    return listed * rank if len(listed) == 1 else listed


def _widen(tensor: Any) -> Any:
    return tensor.to(torch.float64 if tensor.dtype == torch.float64 else torch.float32)


class _Windows:
    """The windows along one dimension of ``inner`` elements."""

    def __init__(self, inner: int, size: int, step: int, pad: int, ceil: bool) -> None:
        self.inner, self.size, self.step, self.pad = inner, size, step, pad
        self.count = (inner + 2 * pad - size + (step - 1 if ceil else 0)) // step + 1
        if ceil and (self.count - 1) * step >= inner + pad:
            self.count -= 1

    def lengths(self, counts_padding: bool) -> list[int]:
        """Return how many elements each window averages."""
        starts = [i * self.step - self.pad for i in range(self.count)]
        ends = [min(start + self.size, self.inner + self.pad) for start in starts]
        if not counts_padding:
            starts = [max(start, 0) for start in starts]
            ends = [min(end, self.inner) for end in ends]
        return [end - start for start, end in zip(starts, ends, strict=True)]

    def sum(self, x: Any, dim: int) -> Any:
        """Return the sum of each window."""
        trailing_pad = (self.count - 1) * self.step + self.size - self.inner - self.pad
        padded = _pad(x, dim, self.pad, max(trailing_pad, 0))
        return padded.unfold(dim, self.size, self.step).narrow(dim, 0, self.count).sum(-1)

    def spread(self, gradient: Any, dim: int) -> Any:
        """Return for each element the sum of the windows that contain it."""
        distant = _pad(gradient.unsqueeze(dim + 1), dim + 1, 0, self.step - 1)
        reached = self.count * self.step + self.size - 1
        trailing_pad = max(self.pad + self.inner - reached, 0)
        padded = _pad(
            distant.flatten(dim, dim + 1), dim, self.size - 1, self.size - 1 + trailing_pad
        )
        return padded.unfold(dim, self.size, 1).sum(-1).narrow(dim, self.pad, self.inner)


def _pad(x: Any, dim: int, leading_pad: int, trailing_pad: int) -> Any:
    pads = [0, 0] * (x.dim() - 1 - dim) + [leading_pad, trailing_pad]
    return torch.constant_pad_nd(x, pads) if leading_pad or trailing_pad else x


def _windows(
    x: Any, rank: int, size: Any, step: Any, pad: Any, ceil: bool
) -> list[tuple[int, _Windows]]:
    sizes = _spread(size, rank)
    steps = _spread(step, rank) if step else sizes
    each = zip(x.shape[-rank:], sizes, steps, _spread(pad, rank), strict=True)
    first = x.dim() - rank
    return [(first + i, _Windows(*numbers, ceil)) for i, numbers in enumerate(each)]


def _divide(x: Any, windows: Any, counts_padding: bool, divisor: int | None) -> Any:
    if divisor:
        return x / divisor
    product = torch.ones([1] * x.dim(), dtype=torch.float64)
    for dim, axis_windows in windows:
        lengths = torch.tensor(axis_windows.lengths(counts_padding), dtype=torch.float64)
        product = product * lengths.view([-1 if i == dim else 1 for i in range(x.dim())])
    return x / upload(product, x.device, x.dtype)


def _forward(rank: int) -> Callable[..., Any]:
    def compute(
        x: Any, size: Any, step: Any = (), pad: Any = 0, ceil: bool = False,
        counts_padding: bool = True, divisor: int | None = None,
    ) -> Any:  # fmt: skip
        counts.CALLS[f"avg_pool{rank}d"] += 1
        windows = _windows(x, rank, size, step, pad, ceil)
        result = _widen(x)
        for dim, axis_windows in windows:
            result = axis_windows.sum(result, dim)
        return _divide(result, windows, counts_padding, divisor).to(x.dtype)

    return compute


def _backward(rank: int) -> Callable[..., Any]:
    def compute(
        gradient: Any, x: Any, size: Any, step: Any, pad: Any, ceil: bool, counts_padding: bool,
        divisor: int | None,
    ) -> Any:  # fmt: skip
        counts.CALLS[f"avg_pool{rank}d_backward"] += 1
        windows = _windows(x, rank, size, step, pad, ceil)
        result = _divide(_widen(gradient), windows, counts_padding, divisor)
        for dim, axis_windows in windows:
            result = axis_windows.spread(result, dim)
        return result.to(x.dtype)

    return compute


def _adaptive(x: Any, sizes: Sequence[int]) -> Any:
    counts.CALLS["_adaptive_avg_pool2d"] += 1
    result, divisor = _widen(x), 1
    for dim, outer in zip((x.dim() - 2, x.dim() - 1), sizes, strict=True):
        places, inside = adaptive_windows(x.shape[dim], outer, x.device)
        shape = [1] * (x.dim() - dim - 1)
        chosen = result.index_select(dim, places.flatten()).unflatten(dim, places.shape)
        result = chosen.where(inside.view(*inside.shape, *shape), 0).sum(dim + 1)
        divisor = divisor * inside.sum(1).view(-1, *shape)
    return (result / divisor).to(x.dtype)


def _is_large(x: Any, size: Any, step: Any, *rest: Any) -> bool:
    return prod(size) > _MOST and bool(step) and list(step) != list(size)


def _is_large_backward(gradient: Any, x: Any, size: Any, step: Any, *rest: Any) -> bool:
    steps = list(step) or list(size)
    return bool(prod(-(-n // max(m, 1)) for n, m in zip(size, steps, strict=False)) > _MOST)


def _is_large_adaptive(x: Any, sizes: Any) -> bool:
    pairs = list(zip(x.shape[-2:], sizes, strict=False))
    if not all(outer > 0 for _, outer in pairs) or not any(n % m for n, m in pairs):
        return False
    return bool(prod((n + 2 * m - 2) // m for n, m in pairs) > _MOST)


_OWN: Final[dict[str, tuple[Callable[..., bool], Callable[..., Any]]]] = {
    **{f"avg_pool{n}d": (_is_large, _forward(n)) for n in (2, 3)},
    **{f"avg_pool{n}d_backward": (_is_large_backward, _backward(n)) for n in (2, 3)},
    "adaptive_avg_pool2d": (_is_large_adaptive, _adaptive),
}


# Sizes, steps and padding, which may have one number for all dimensions.
_LISTED: Final = {
    **{f"avg_pool{n}d": slice(1, 4) for n in (2, 3)},
    **{f"avg_pool{n}d_backward": slice(2, 5) for n in (2, 3)},
}


def with_large_windows(name: str, overload: Any, compute: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel that sums windows which Inductor refuses along each dimension."""
    short, _, form = name.partition(".")
    if short.removeprefix("_") not in _OWN:
        return compute
    is_large, own = _OWN[short.removeprefix("_")]
    listed = _LISTED.get(short, slice(0))
    guarded = Guarded(name, out_form(name, own) if form else own)
    signature = Signature(overload)
    rank = 3 if "3d" in short else 2

    def choose(*arguments: Any, **keywords: Any) -> Any:
        lists = [
            _spread(argument, rank) if len(argument) == 1 else argument
            for argument in arguments[listed]
        ]
        arguments = (*arguments[: listed.start or 0], *lists, *arguments[listed.stop :])
        full = signature.bind(arguments, keywords)
        if is_large(*(signature.without_targets(full) if form else full)):
            return guarded(*arguments, **keywords)
        return compute(*arguments, **keywords)

    return choose
