"""Sorting and selection: stable, with NaN as the largest number, as PyTorch defines them."""

from typing import Any, Final

import torch

from tessera_torch import counts
from tessera_torch.own.launching import launch
from tessera_torch.own.sorting_kernels import sort_rows
from tessera_torch.targets import resize

_BLOCK: Final = 512
_SHIFT: Final = 32
_LOW: Final = 2**32 - 1
_SMALL: Final = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32)


def _order_bits(rows: Any) -> tuple[Any, Any]:
    """Return integers of 32 bits in the order of the values: high and, for 64 bits, low parts."""
    dtype = rows.dtype
    if dtype in _SMALL:
        return rows.to(torch.int64), None
    if dtype.is_floating_point:
        double = dtype == torch.float64
        values = rows if double else rows.to(torch.float32)
        values = torch.where(values.isnan(), float("nan"), values + 0.0).contiguous()
        bits = values.view(torch.int64 if double else torch.int32)
        positive = torch.iinfo(bits.dtype).max
        bits = torch.where(bits < 0, bits ^ positive, bits).to(torch.int64)
        if not double:
            return bits, None
    elif dtype == torch.uint64:
        bits = rows.contiguous().view(torch.int64) ^ -(2**63)
    else:
        bits = rows.to(torch.int64)
    return bits >> _SHIFT, (bits & _LOW) - 2**31


def _sort_packed(high: Any) -> Any:
    """Return the order that sorts rows of integers of 32 bits, stably."""
    count, length = high.shape
    padded = 1 << max(length - 1, 0).bit_length()
    keys = torch.full((count, padded), 2**63 - 1, dtype=torch.int64, device=high.device)
    positions = torch.arange(length, device=high.device)
    keys[:, :length] = (high << _SHIFT) | positions
    if padded > 1:
        launch(sort_rows, (count,), high.device, keys, padded, _BLOCK)
    return keys[:, :length] & _LOW


def order_rows(rows: Any, descending: bool) -> Any:
    """Return the indices that sort each row of a matrix, stably.

    Raises:
        TypeError: the numbers are complex, which have no order.
    """
    if rows.is_complex():
        raise TypeError("Sort does not support complex dtypes on CUDA")
    high, low = _order_bits(rows)
    if descending:
        high = -1 - high
        low = None if low is None else -1 - low
    if low is None:
        return _sort_packed(high)
    first = _sort_packed(low)
    return first.gather(1, _sort_packed(high.gather(1, first)))


def _order(self: Any, dim: int, descending: bool) -> Any:
    moved = self.movedim(dim, -1)
    if not self.numel():
        return torch.zeros(self.shape, dtype=torch.int64, device=self.device)
    order = order_rows(moved.reshape(-1, moved.shape[-1]), descending)
    return order.view(moved.shape).movedim(-1, dim).contiguous()


def _wrap(self: Any, dim: int) -> int:
    rank = max(self.dim(), 1)
    if not -rank <= dim < rank:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got"
            f" {dim})"
        )
    return int(dim % rank)


def _sort(
    self: Any, stable: bool | None, dim: int = -1, descending: bool = False
) -> tuple[Any, Any]:
    counts.CALLS["sort"] += 1
    if not self.dim():
        return self.clone(), torch.zeros((), dtype=torch.int64, device=self.device)
    dim = _wrap(self, dim)
    order = _order(self, dim, descending)
    return _in_layout_of(self, self.gather(dim, order)), _in_layout_of(self, order)


def _in_layout_of(template: Any, tensor: Any) -> Any:
    """Return a tensor with the strides that the input's shape and layout lead to."""
    arranged = torch.empty_like(template, dtype=tensor.dtype)
    return tensor if tensor.stride() == arranged.stride() else arranged.copy_(tensor)


def sort_plain(self: Any, dim: int = -1, descending: bool = False) -> tuple[Any, Any]:
    """Sort along a dimension; return values and indices."""
    return _sort(self, True, dim, descending)


def _sort_stable(self: Any, *, stable: bool | None, dim: int = -1, descending: bool = False) -> Any:
    return _sort(self, stable, dim, descending)


def _topk(self: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    counts.CALLS["topk"] += 1
    if not self.dim() and 0 <= k <= 1:
        return self.clone(), torch.zeros((), dtype=torch.int64, device=self.device)
    dim = _wrap(self, dim)
    if not self.dim() or not 0 <= k <= self.shape[dim]:
        raise RuntimeError("selected index k out of range")
    order = _order(self, dim, largest).narrow(dim, 0, k).contiguous()
    return self.gather(dim, order), order


def _kthvalue(self: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    counts.CALLS["kthvalue"] += 1
    if not self.dim() and k == 1:
        return self.clone(), torch.zeros((), dtype=torch.int64, device=self.device)
    dim = _wrap(self, dim)
    if not self.dim() or not 1 <= k <= self.shape[dim]:
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {dim}")
    order = _order(self, dim, False).narrow(dim, k - 1, 1)
    value = self.gather(dim, order)
    return (value, order) if keepdim else (value.squeeze(dim), order.squeeze(dim))


def _median_dim(self: Any, dim: int, keepdim: bool, ignore_nan: bool) -> Any:
    if not self.dim():
        return self.clone(), torch.zeros((), dtype=torch.int64, device=self.device)
    dim = _wrap(self, dim)
    length = self.shape[dim]
    if not length:
        raise IndexError(f"median(): Expected reduction dim {dim} to have non-zero size.")
    order = _order(self, dim, False)
    place = torch.full_like(order.narrow(dim, 0, 1), (length - 1) // 2)
    if self.is_floating_point():
        valid = (~self.isnan()).sum(dim, keepdim=True)
        if ignore_nan:
            place = ((valid - 1) // 2).clamp_(min=0)
        else:  # the first NaN, which sorting puts after all numbers
            place = torch.where(valid < length, valid, place)
    index = order.gather(dim, place)
    value = self.gather(dim, index)
    return (value, index) if keepdim else (value.squeeze(dim), index.squeeze(dim))


def _median_values(self: Any, dim: int, keepdim: bool = False, *, values: Any, indices: Any) -> Any:
    counts.CALLS["median"] += 1
    return _into((values, indices), _median_dim(self, dim, keepdim, False))


def _nanmedian_values(
    self: Any, dim: int, keepdim: bool = False, *, values: Any, indices: Any
) -> Any:
    counts.CALLS["nanmedian"] += 1
    return _into((values, indices), _median_dim(self, dim, keepdim, True))


def _median(self: Any) -> Any:
    counts.CALLS["median"] += 1
    if not self.numel():
        return torch.full((), float("nan"), dtype=self.dtype, device=self.device)
    return _median_dim(self.reshape(-1), 0, False, False)[0]


def _nanmedian(self: Any) -> Any:
    counts.CALLS["nanmedian"] += 1
    if not self.numel():
        return torch.full((), float("nan"), dtype=self.dtype, device=self.device)
    return _median_dim(self.reshape(-1), 0, False, True)[0]


def _mode(self: Any, dim: int = -1, keepdim: bool = False) -> Any:
    counts.CALLS["mode"] += 1
    if not self.dim():
        return self.clone(), torch.zeros((), dtype=torch.int64, device=self.device)
    dim = _wrap(self, dim)
    values, order = sort_plain(self, dim)
    values, order = values.movedim(dim, -1), order.movedim(dim, -1)
    length = values.shape[-1]
    fresh = torch.ones_like(values, dtype=torch.bool)
    fresh[..., 1:] = values[..., 1:] != values[..., :-1]
    places = torch.arange(length, device=self.device)
    start = torch.where(fresh, places, 0).cummax(-1)[0]
    run = places - start
    best = (run * length - start).argmax(-1, keepdim=True)  # the longest run, of the smallest value
    value, index = values.gather(-1, best), order.gather(-1, best)
    value, index = value.movedim(-1, dim), index.movedim(-1, dim)
    return (value, index) if keepdim else (value.squeeze(dim), index.squeeze(dim))


def _into(targets: tuple[Any, ...], results: tuple[Any, ...]) -> tuple[Any, ...]:
    for target, output in zip(targets, results, strict=True):
        resize(target, output.shape).copy_(output)
    return targets


def _topk_values(
    self: Any,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
    *,
    values: Any,
    indices: Any,
) -> Any:
    return _into((values, indices), _topk(self, k, dim, largest, sorted))


def _sort_values(
    self: Any,
    *,
    stable: bool | None,
    dim: int = -1,
    descending: bool = False,
    values: Any,
    indices: Any,
) -> Any:
    return _into((values, indices), _sort(self, stable, dim, descending))


def _kthvalue_values(
    self: Any, k: int, dim: int = -1, keepdim: bool = False, *, values: Any, indices: Any
) -> Any:
    return _into((values, indices), _kthvalue(self, k, dim, keepdim))


def _mode_values(
    self: Any, dim: int = -1, keepdim: bool = False, *, values: Any, indices: Any
) -> Any:
    return _into((values, indices), _mode(self, dim, keepdim))


KERNELS: Final = {
    "sort": sort_plain,
    "sort.stable": _sort_stable,
    "sort.values_stable": _sort_values,
    "topk": _topk,
    "topk.values": _topk_values,
    "kthvalue.values": _kthvalue_values,
    "median": _median,
    "median.dim_values": _median_values,
    "nanmedian": _nanmedian,
    "nanmedian.dim_values": _nanmedian_values,
    "mode": _mode,
    "mode.values": _mode_values,
}
