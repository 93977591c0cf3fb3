"""Reductions of consecutive segments along a dimension, and their gradients."""

from collections.abc import Callable
from typing import Any, Final

import torch

from tessera_torch import counts
from tessera_torch.refusal import Unsupported

_REDUCTIONS: Final = {"sum": "sum", "mean": "sum", "prod": "prod", "max": "amax", "min": "amin"}
_STARTS: Final = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": float("-inf"), "min": float("inf")}


def _bounds(data: Any, lengths: Any, offsets: Any, axis: int, unsafe: bool) -> Any:
    """Return where segments begin and end along the axis."""
    if lengths is None and offsets is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    if offsets is not None:
        return offsets.to(torch.int64)
    if not unsafe and lengths.numel():
        if int(lengths.min().item()) < 0:
            raise RuntimeError("lengths contains negative value!")
        if not bool((lengths.sum(-1) == data.shape[axis]).all().item()):
            raise RuntimeError(
                "segment_reduce(): Expected all rows of lengths along axis to sum to"
                " data.size(lengths.dim()-1) when !unsafe."
            )
    ends = lengths.to(torch.int64).cumsum(-1)
    return torch.cat((torch.zeros_like(ends[..., :1]), ends), -1)


def _places(data: Any, bounds: Any, axis: int) -> Any:
    """Return the segment of each element: one behind the last for those in none."""
    count, size = bounds.shape[-1] - 1, data.shape[axis]
    own = torch.arange(size, device=data.device).expand(*bounds.shape[:-1], size).contiguous()
    places = torch.searchsorted(bounds[..., 1:].contiguous(), own, right=True)
    places = torch.where(own < bounds[..., :1], count, places)
    trailing_dims = data.dim() - axis - 1
    return places.view(*places.shape, *[1] * trailing_dims).expand(data.shape)


def _reduce(data: Any, places: Any, count: int, axis: int, reduction: str, start: float) -> Any:
    shape = [*data.shape[:axis], count + 1, *data.shape[axis + 1 :]]
    into = torch.full(shape, start, dtype=data.dtype, device=data.device)
    return into.scatter_reduce(axis, places, data, reduction).narrow(axis, 0, count)


def _sizes(bounds: Any, data: Any, axis: int) -> Any:
    sizes = bounds[..., 1:] - bounds[..., :-1]
    return sizes.view(*sizes.shape, *[1] * (data.dim() - axis - 1))


def _segment_reduce(
    data: Any, reduce: str, *, lengths: Any = None, indices: Any = None, offsets: Any = None,
    axis: int = 0, unsafe: bool = False, initial: Any = None,
) -> Any:  # fmt: skip
    counts.CALLS["segment_reduce"] += 1
    if indices is not None:
        raise Unsupported("segment_reduce", (data, indices), "PyTorch has no form with indices")
    if reduce not in _REDUCTIONS:
        raise RuntimeError(f"segment_reduce(): unsupported reduction {reduce}")
    axis %= data.dim()
    bounds = _bounds(data, lengths, offsets, axis, unsafe)
    places = _places(data, bounds, axis)
    start = _STARTS[reduce] if initial is None else initial
    result = _reduce(data, places, bounds.shape[-1] - 1, axis, _REDUCTIONS[reduce], start)
    if reduce != "mean":
        return result.contiguous()
    sizes = _sizes(bounds, data, axis)
    of_none = result if initial is not None else float("nan")
    return torch.where(sizes == 0, of_none, result / sizes)


def _backward(
    grad: Any, output: Any, data: Any, reduce: str, *, lengths: Any = None, offsets: Any = None,
    axis: int = 0, initial: Any = None,
) -> Any:  # fmt: skip
    counts.CALLS["_segment_reduce_backward"] += 1
    axis %= data.dim()
    bounds = _bounds(data, lengths, offsets, axis, True)
    places = _places(data, bounds, axis)
    count = bounds.shape[-1] - 1
    behind = list(grad.shape)
    behind[axis] = 1

    def spread(segment_values: Any) -> Any:
        """Return each element's number of its segment; 0 for elements in none."""
        wider = torch.cat(
            (segment_values.expand(grad.shape), segment_values.new_zeros(behind)), axis
        )
        return wider.gather(axis, places)

    if reduce == "sum":
        return spread(grad)
    if reduce == "mean":
        return spread(grad / _sizes(bounds, data, axis))
    if reduce == "prod":
        is_zero = data == 0
        start = 1.0 if initial is None else initial
        nonzero_products = _reduce(
            torch.where(is_zero, 1, data), places, count, axis, "prod", start
        )
        zeros = spread(_reduce(is_zero.to(data.dtype), places, count, axis, "sum", 0.0))
        slope = torch.where(is_zero, torch.where(zeros == 1, spread(nonzero_products), 0), 0)
        return spread(grad) * torch.where(zeros == 0, spread(output) / data, slope)
    spread_output = spread(output)
    is_chosen = ((data == spread_output) | data.isnan()).to(data.dtype)
    number = _reduce(is_chosen, places, count, axis, "sum", 0.0)
    return spread(grad) * is_chosen / spread(number).clamp(min=1)


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "segment_reduce": _segment_reduce,
    "_segment_reduce_backward": _backward,
}
