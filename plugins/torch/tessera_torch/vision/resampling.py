"""Averages and interpolations, and their gradients, that are a matrix along each dimension."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

import torch

from tessera_torch import counts
from tessera_torch.own.copying import upload
from tessera_torch.refusal import Unsupported
from tessera_torch.targets import both


@lru_cache(maxsize=256)
def _average(inner: int, outer: int) -> Any:
    """Return the matrix of adaptive averages: from ``inner`` elements to ``outer``."""
    matrix = torch.zeros(inner, outer, dtype=torch.float64)
    for i in range(outer):
        first, last = i * inner // outer, -(-(i + 1) * inner // outer)
        matrix[first:last, i] = 1 / (last - first)
    return matrix


@lru_cache(maxsize=256)
def _linear(inner: int, outer: int, align: bool, scale: float | None) -> Any:
    """Return the matrix of linear interpolation, from the CPU's own."""
    rows = torch.eye(inner, dtype=torch.float64)[None]
    return torch.ops.aten.upsample_linear1d.default(rows, [outer], align, scale)[0]


@lru_cache(maxsize=256)
def _of_rows(name: str, inner: int, outer: int, align: bool, scale: float | None) -> Any:
    """Return the matrix of an interpolation of images, from the CPU's operator of this name."""
    rows = torch.eye(inner, dtype=torch.float64)[None, None]
    interpolate = getattr(torch.ops.aten, name).default
    return interpolate(rows, [inner, outer], align, None, scale)[0, 0]


def _apply(gradient: Any, matrices: Sequence[Any]) -> Any:
    """Multiply the last dimensions with a matrix each."""
    dtype = torch.float64 if gradient.dtype == torch.float64 else torch.float32
    result = gradient.to(dtype)
    rank = len(matrices)
    for i, matrix in enumerate(matrices):
        moved = result.movedim(i - rank, -1)
        product = moved @ upload(matrix, gradient.device, dtype).t()
        result = product.movedim(-1, i - rank)
    return result.to(gradient.dtype).contiguous()


def _adaptive(rank: int) -> Callable[..., Any]:
    def compute(gradient: Any, x: Any) -> Any:
        counts.CALLS[f"_adaptive_avg_pool{rank}d_backward"] += 1
        sizes = zip(x.shape[-rank:], gradient.shape[-rank:], strict=True)
        return _apply(gradient, [_average(inner, outer) for inner, outer in sizes])

    return compute


def _interpolate_backward(
    name: str, gradient: Any, inner: Any, align: bool, scales: Sequence[float | None]
) -> Any:
    counts.CALLS[name] += 1
    rank = len(scales)
    sizes = zip(inner[-rank:], gradient.shape[-rank:], scales, strict=True)
    return _apply(gradient, [_linear(n, o, align, scale) for n, o, scale in sizes])


def _linear1d(gradient: Any, outer: Any, inner: Any, align: bool, scale: Any = None) -> Any:
    return _interpolate_backward("upsample_linear1d_backward", gradient, inner, align, [scale])


def _bilinear2d(
    gradient: Any, outer: Any, inner: Any, align: bool, scale_h: Any = None, scale_w: Any = None
) -> Any:
    scales = [scale_h, scale_w]
    return _interpolate_backward("upsample_bilinear2d_backward", gradient, inner, align, scales)


def _trilinear3d(
    gradient: Any, outer: Any, inner: Any, align: bool,
    scale_d: Any = None, scale_h: Any = None, scale_w: Any = None,
) -> Any:  # fmt: skip
    scales = [scale_d, scale_h, scale_w]
    return _interpolate_backward("upsample_trilinear3d_backward", gradient, inner, align, scales)


def _average3d(x: Any, sizes: Sequence[int]) -> Any:
    counts.CALLS["_adaptive_avg_pool3d"] += 1
    pairs = zip(x.shape[-3:], sizes, strict=True)
    return _apply(x, [_average(inner, outer).t() for inner, outer in pairs])


def _check_floats(name: str, tensor: Any) -> None:
    if not tensor.is_floating_point():
        raise Unsupported(name, (tensor,), "it is not implemented for integers on CUDA")


def _image(name: str) -> Callable[..., Any]:
    """Return an interpolation of images."""

    def compute(x: Any, outer: Any, align: bool, scale_h: Any = None, scale_w: Any = None) -> Any:
        counts.CALLS[name] += 1
        _check_floats(name, x)
        sizes = zip(x.shape[-2:], outer, (scale_h, scale_w), strict=True)
        result = _apply(x, [_of_rows(name, n, o, align, scale).t() for n, o, scale in sizes])
        if x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous():
            return result.contiguous(memory_format=torch.channels_last)
        return result

    return compute


def _image_backward(name: str) -> Callable[..., Any]:
    """Return the gradient of an interpolation of images."""

    def compute(
        gradient: Any, outer: Any, inner: Any, align: bool, scale_h: Any = None, scale_w: Any = None
    ) -> Any:
        counts.CALLS[f"{name}_backward"] += 1
        sizes = zip(inner[-2:], gradient.shape[-2:], (scale_h, scale_w), strict=True)
        return _apply(gradient, [_of_rows(name, n, o, align, scale) for n, o, scale in sizes])

    return compute


def _images() -> dict[str, Callable[..., Any]]:
    kernels_by_name: dict[str, Callable[..., Any]] = {}
    for name in ("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa", "upsample_bicubic2d"):
        back = f"{name}_backward"
        kernels_by_name |= both(back, f"{back}.grad_input", _image_backward(name))
        if name != "upsample_bicubic2d":  # PyTorch has a decomposition of it
            kernels_by_name |= both(name, f"{name}.out", _image(name))
    return kernels_by_name


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    **both("_adaptive_avg_pool3d", "adaptive_avg_pool3d.out", _average3d),
    **_images(),
    "_adaptive_avg_pool2d_backward": _adaptive(2),
    "_adaptive_avg_pool3d_backward": _adaptive(3),
    "upsample_linear1d_backward": _linear1d,
    "upsample_bilinear2d_backward": _bilinear2d,
    "upsample_trilinear3d_backward": _trilinear3d,
}
