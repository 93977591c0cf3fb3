"""Images and volumes read at the places of a grid: ``grid_sample`` and its gradients."""

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, Final

import torch

from tessera_torch import counts

_LINEAR, _NEAREST, _CUBIC = 0, 1, 2
_CLAMPED, _REFLECTED = 1, 2
_CURVE: Final = -0.75  # of the cubic convolution, as PyTorch has it


def _place(x: Any, size: int, align: bool) -> tuple[Any, float]:
    """Return coordinates from -1 to 1 as places of elements, and the derivative."""
    if align:
        return (x + 1) / 2 * (size - 1), (size - 1) / 2
    return ((x + 1) * size - 1) / 2, size / 2


def _clamp(x: Any, size: int) -> tuple[Any, Any]:
    inside = (x > 0) & (x < size - 1)
    return x.clamp(0, size - 1), inside.to(x.dtype)


def _reflect(x: Any, size: int, align: bool) -> tuple[Any, Any]:
    low, high = (0.0, size - 1.0) if align else (-0.5, size - 0.5)
    if low == high:
        return torch.zeros_like(x), torch.zeros_like(x)
    span = high - low
    sign = torch.where(x < low, -1.0, 1.0).to(x.dtype)
    distance = (x - low).abs()
    remainder = torch.fmod(distance, span)
    turns = torch.floor(distance / span)
    even = torch.fmod(turns, 2.0) == 0
    return torch.where(even, remainder + low, span - remainder + low), torch.where(
        even, sign, -sign
    )


def _pad(x: Any, size: int, padding: int, align: bool) -> tuple[Any, Any]:
    """Return places within the image where the padding says so, and the derivative."""
    if padding == _CLAMPED:
        return _clamp(x, size)
    if padding == _REFLECTED:
        reflected, sign = _reflect(x, size, align)
        clamped, inside = _clamp(reflected, size)
        return clamped, sign * inside
    return x, torch.ones_like(x)


def _cubic(t: Any) -> tuple[list[Any], list[Any]]:
    """Return the weights of the four elements around a place, and their derivatives."""
    weights, slopes = [], []
    for distance, sign, is_near in (
        (t + 1, 1, False),
        (t, 1, True),
        (1 - t, -1, True),
        (2 - t, -1, False),
    ):
        if is_near:
            weights.append(((_CURVE + 2) * distance - (_CURVE + 3)) * distance * distance + 1)
            slope = (3 * (_CURVE + 2) * distance - 2 * (_CURVE + 3)) * distance
        else:
            near = (_CURVE * distance - 5 * _CURVE) * distance + 8 * _CURVE
            weights.append(near * distance - 4 * _CURVE)
            slope = (3 * _CURVE * distance - 10 * _CURVE) * distance + 8 * _CURVE
        slopes.append(sign * slope)
    return weights, slopes


def _axis(x: Any, size: int, mode: int, padding: int, align: bool) -> list[tuple[Any, Any, Any]]:
    """Return the elements that are read along a dimension: places, weights and derivatives."""
    place, factor = _place(x, size, align)
    if mode == _CUBIC:
        first = torch.floor(place)
        weights, slopes = _cubic(place - first)
        taps = []
        for i, (weight, slope) in enumerate(zip(weights, slopes, strict=True)):
            at = _pad(first + (i - 1), size, padding, align)[0]
            taps.append((at.to(torch.int64), weight, slope * factor))
        return taps
    place, inner = _pad(place, size, padding, align)
    if mode == _NEAREST:
        at = torch.round(place)
        return [(at.to(torch.int64), torch.ones_like(place), torch.zeros_like(place))]
    first = torch.floor(place)
    t, slope = place - first, inner * factor
    at = first.to(torch.int64)
    return [(at, 1 - t, -slope), (at + 1, t, slope)]


class _Reads:
    """All elements that are read, one for each combination of places along the dimensions."""

    def __init__(self, x: Any, grid: Any, mode: int, padding: int, align: bool) -> None:
        self.batch, self.channels = x.shape[:2]
        self.sizes = x.shape[2:]
        rank = len(self.sizes)
        _check(x, grid)
        wide = torch.float32 if grid.dtype in (torch.float16, torch.bfloat16) else grid.dtype
        flat = grid.to(wide).reshape(self.batch, -1, rank)
        self.count = flat.shape[1]
        self.values = x.to(wide).reshape(self.batch, self.channels, -1)
        # A grid's numbers are in the order x, y, z; dimensions are in the opposite one.
        axes = [
            _axis(flat[..., rank - 1 - i], size, mode, padding, align)
            for i, size in enumerate(self.sizes)
        ]
        self.taps = list(product(*axes))

    def at(self, taps: Sequence[tuple[Any, Any, Any]]) -> tuple[Any, Any]:
        """Return the places in the flattened image for all channels, and which are inside."""
        place: Any = 0
        inside: Any = True
        for (index, _, _), size in zip(taps, self.sizes, strict=True):
            inside = inside & (index >= 0) & (index < size)
            place = place * size + index.clamp(0, max(size - 1, 0))
        shape = (self.batch, self.channels, self.count)
        return place[:, None].expand(shape), inside[:, None]


def _check(x: Any, grid: Any) -> None:
    """Raise PyTorch's error for sizes that do not fit."""
    got = f"but got input with sizes {list(x.shape)} and grid with sizes {list(grid.shape)}"
    if x.shape[0] != grid.shape[0]:
        raise RuntimeError(
            f"grid_sampler(): expected grid and input to have same batch size, {got}"
        )
    if x.dim() != grid.dim() or grid.shape[-1] != x.dim() - 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {x.dim() - 2} in last dimension, {got}"
        )


def _sample(rank: int) -> Callable[..., Any]:
    def compute(x: Any, grid: Any, mode: int, padding: int, align: bool) -> Any:
        counts.CALLS[f"grid_sampler_{rank}d"] += 1
        reads = _Reads(x, grid, mode, padding, align)
        result: Any = 0
        for taps in reads.taps:
            place, inside = reads.at(taps)
            weight = math.prod(tap[1] for tap in taps)
            samples = reads.values.gather(2, place)
            result = result + torch.where(inside, samples * weight[:, None], 0)
        return result.to(x.dtype).reshape(*x.shape[:2], *grid.shape[1:-1])

    return compute


def _sample_backward(rank: int) -> Callable[..., Any]:
    def compute(
        gradient: Any, x: Any, grid: Any, mode: int, padding: int, align: bool, mask: Sequence[bool]
    ) -> tuple[Any, Any]:
        counts.CALLS[f"grid_sampler_{rank}d_backward"] += 1
        reads = _Reads(x, grid, mode, padding, align)
        values = reads.values
        flat_gradient = gradient.to(values.dtype).reshape(*values.shape[:2], -1)
        of_x = torch.zeros_like(values)
        of_grid: list[Any] = [0] * rank
        for taps in reads.taps:
            place, inside = reads.at(taps)
            weight = math.prod(tap[1] for tap in taps)
            if mask[0]:
                of_x.scatter_add_(2, place, torch.where(inside, flat_gradient * weight[:, None], 0))
            slopes = torch.where(inside, values.gather(2, place) * flat_gradient, 0).sum(1)
            for i in range(rank):
                other_weights = math.prod(tap[1] for j, tap in enumerate(taps) if j != i)
                of_grid[i] = of_grid[i] + slopes * taps[i][2] * other_weights
        grids = torch.stack(of_grid[::-1], -1).to(grid.dtype).reshape(grid.shape)
        return of_x.to(x.dtype).reshape(x.shape) if mask[0] else None, grids

    return compute


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "grid_sampler_2d": _sample(2),
    "grid_sampler_2d_backward": _sample_backward(2),
    "grid_sampler_3d": _sample(3),
    "grid_sampler_3d_backward": _sample_backward(3),
}
