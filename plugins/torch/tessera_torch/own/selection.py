"""Operators whose result's size depends on values: nonzero, masked_select, unique."""

from typing import Any, Final

import torch

from tessera_torch import counts
from tessera_torch.checks.messages import broadcast_shapes
from tessera_torch.own.launching import launch
from tessera_torch.own.selection_kernels import compact
from tessera_torch.own.sorting import order_rows
from tessera_torch.targets import resize

_BLOCK: Final = 1024


def positions(mask: Any, size: int | None = None) -> Any:
    """Return the positions of the true elements of a vector; without their number, wait for it."""
    count = mask.numel()
    if not count:
        return torch.empty(0, dtype=torch.int64, device=mask.device)
    ends = mask.cumsum(0, dtype=torch.int64)
    size = int(ends[-1].item()) if size is None else size
    out = torch.empty(size, dtype=torch.int64, device=mask.device)
    if out.numel():
        grid = (-(-count // _BLOCK),)
        launch(compact, grid, mask.device, mask.contiguous(), ends, out, count, _BLOCK)
    return out


def _nonzero(self: Any) -> Any:
    counts.CALLS["nonzero"] += 1
    flat_positions = positions((self != 0).reshape(-1))
    result = torch.empty(
        (self.dim(), flat_positions.numel()), dtype=torch.int64, device=self.device
    )
    for dimension in reversed(range(self.dim())):
        size = self.shape[dimension]
        result[dimension] = flat_positions % size
        flat_positions = flat_positions // size
    return result.t()


def _nonzero_out(self: Any, *, out: Any) -> Any:
    coordinates = _nonzero(self)
    return resize(out, coordinates.shape).copy_(coordinates)


def _masked_select(self: Any, mask: Any) -> Any:
    counts.CALLS["masked_select"] += 1
    if mask.dtype != torch.bool:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    shape = broadcast_shapes(mask.shape, self.shape)
    flat_positions = positions(mask.expand(shape).reshape(-1) != 0)
    return self.expand(shape).reshape(-1).index_select(0, flat_positions)


def _masked_select_out(self: Any, mask: Any, *, out: Any) -> Any:
    elements = _masked_select(self, mask)
    return resize(out, elements.shape).copy_(elements)


def _runs(fresh: Any, count: int, want_inverse: bool, want_counts: bool) -> tuple[Any, Any, Any]:
    """Return where runs begin, the run of each element, and the runs' lengths."""
    starts = positions(fresh)
    empty = torch.empty(0, dtype=torch.int64, device=fresh.device)
    inverse = fresh.cumsum(0, dtype=torch.int64) - 1 if want_inverse else empty
    lengths = empty
    if want_counts:
        ends = torch.full_like(starts, count)
        ends[:-1] = starts[1:]
        lengths = ends - starts
    return starts, inverse, lengths


def _fresh(rows: Any) -> Any:
    """Return where a row of a matrix differs from the row before it."""
    fresh = torch.ones(rows.shape[0], dtype=torch.bool, device=rows.device)
    if rows.shape[0] > 1:
        fresh[1:] = (rows[1:] != rows[:-1]).any(1)
    return fresh


def _unique(
    self: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> Any:
    counts.CALLS["_unique2"] += 1
    flat = self.reshape(-1)
    order = (
        order_rows(flat[None], False)[0]
        if flat.numel()
        else torch.empty(0, dtype=torch.int64, device=self.device)
    )
    values = flat.index_select(0, order)
    starts, runs, lengths = _runs(
        _fresh(values[:, None]), flat.numel(), return_inverse, return_counts
    )
    inverse = runs
    if return_inverse:
        inverse = torch.empty_like(runs).scatter_(0, order, runs).view(self.shape)
    return values.index_select(0, starts), inverse, lengths


def _unique_first(self: Any, sorted: bool = True, return_inverse: bool = False) -> Any:
    return _unique(self, sorted, return_inverse)[:2]


def _unique_consecutive(
    self: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    counts.CALLS["unique_consecutive"] += 1
    if dim is not None:
        return _unique_rows(self, dim, return_inverse, return_counts, sort=False)
    flat = self.reshape(-1)
    starts, inverse, lengths = _runs(
        _fresh(flat[:, None]), flat.numel(), return_inverse, return_counts
    )
    return (
        flat.index_select(0, starts),
        inverse.view(self.shape) if return_inverse else inverse,
        lengths,
    )


def _unique_dim(
    self: Any,
    dim: int,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> Any:
    counts.CALLS["unique_dim"] += 1
    return _unique_rows(self, dim, return_inverse, return_counts, sort=True)


def _unique_dim_consecutive(
    self: Any, dim: int, return_inverse: bool = False, return_counts: bool = False
) -> Any:
    counts.CALLS["unique_dim_consecutive"] += 1
    return _unique_rows(self, dim, return_inverse, return_counts, sort=False)


def _unique_of_none(self: Any, dim: int) -> Any:
    if self.shape[dim]:
        raise RuntimeError(
            "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied"
        )
    if list(self.shape).count(0) > 1:
        raise RuntimeError(
            "Number of zero sized dimensions is more than one, so unique cannot be applied "
        )
    none = torch.empty(0, dtype=torch.int64, device=self.device)
    return torch.empty_like(self), none, none.clone()


def _unique_rows(self: Any, dim: int, return_inverse: bool, return_counts: bool, sort: bool) -> Any:
    if not self.numel():
        return _unique_of_none(self, dim)
    moved = self.movedim(dim, 0)
    rows = moved.reshape(moved.shape[0], -1)
    order = torch.arange(rows.shape[0], device=self.device)
    if sort:
        for column in reversed(range(rows.shape[1])):  # stable: the first column decides
            order = order.index_select(
                0, order_rows(rows[:, column].index_select(0, order)[None], False)[0]
            )
    arranged = rows.index_select(0, order)
    starts, runs, lengths = _runs(_fresh(arranged), rows.shape[0], return_inverse, return_counts)
    inverse = torch.empty_like(runs).scatter_(0, order, runs) if return_inverse else runs
    values = moved.index_select(0, order.index_select(0, starts)).movedim(0, dim)
    return values, inverse, lengths


KERNELS: Final = {
    "nonzero": _nonzero,
    "nonzero.out": _nonzero_out,
    "masked_select": _masked_select,
    "masked_select.out": _masked_select_out,
    "_unique2": _unique,
    "_unique": _unique_first,
    "unique_consecutive": _unique_consecutive,
    "unique_dim": _unique_dim,
    "unique_dim_consecutive": _unique_dim_consecutive,
}
