"""Softmax of sparse tensors of coordinates: elements that are not stored count as -inf."""

from collections.abc import Callable
from typing import Any, Final

import torch

from tessera_torch import counts
from tessera_torch.sparse.coordinates import build, flat_places, sample


def _groups(indices: Any, sizes: Any, dim: int) -> tuple[Any, int]:
    """Return for each stored element the number of its row along a sparse dimension."""
    other_dims = [i for i in range(len(sizes)) if i != dim]
    if not other_dims or not indices.shape[1]:
        return torch.zeros(indices.shape[1], dtype=torch.int64, device=indices.device), 1
    places = flat_places(indices[other_dims], [sizes[i] for i in other_dims])
    unique_places, group = torch.unique(places, return_inverse=True)
    return group, unique_places.shape[0]


def _sum(values: Any, group: Any, count: int) -> Any:
    """Return the sum of each element's row."""
    sums = torch.zeros((count, *values.shape[1:]), dtype=values.dtype, device=values.device)
    return sums.index_add(0, group, values).index_select(0, group)


def _shifted(values: Any, group: Any, count: int) -> Any:
    """Return values less the largest of their row."""
    low = torch.full(
        (count, *values.shape[1:]), float("-inf"), dtype=values.dtype, device=values.device
    )
    places = group.view(-1, *[1] * (values.dim() - 1)).expand(values.shape)
    maxima = low.scatter_reduce(0, places, values, "amax").index_select(0, group)
    return values - torch.where(maxima.isfinite(), maxima, 0)


def _softmax(is_log: bool) -> Callable[..., Any]:
    def compute(self: Any, dim: int, half_to_float: bool) -> Any:
        counts.CALLS["_sparse_log_softmax" if is_log else "_sparse_softmax"] += 1
        if half_to_float:
            raise RuntimeError("softmax with half to float conversion is not supported on sparse")
        dim %= self.dim()
        coalesced = self.coalesce()
        indices, values = coalesced._indices(), coalesced._values()
        if dim >= self.sparse_dim():
            function = torch.log_softmax if is_log else torch.softmax
            result = function(values, dim - self.sparse_dim() + 1)
        else:
            group, count = _groups(indices, self.shape[: self.sparse_dim()], dim)
            shifted = _shifted(values, group, count)
            sums = _sum(shifted.exp(), group, count)
            result = shifted - sums.log() if is_log else shifted.exp() / sums
        return build(indices, result, self.shape)._coalesced_(True)

    return compute


def _backward(is_log: bool) -> Callable[..., Any]:
    def compute(grad_output: Any, output: Any, dim: int, input: Any) -> Any:  # noqa: A002
        counts.CALLS["_sparse_softmax_backward_data"] += 1
        dim %= input.dim()
        indices, values = output._indices(), output._values()
        stored_gradient = sample(grad_output, indices, output.sparse_dim())
        if dim >= output.sparse_dim():
            place = dim - output.sparse_dim() + 1
            sums = (stored_gradient if is_log else stored_gradient * values).sum(
                place, keepdim=True
            )
        else:
            group, count = _groups(indices, output.shape[: output.sparse_dim()], dim)
            sums = _sum(stored_gradient if is_log else stored_gradient * values, group, count)
        slope = (
            stored_gradient - values.exp() * sums if is_log else values * (stored_gradient - sums)
        )
        return build(indices, slope, output.shape)._coalesced_(output.is_coalesced())

    return compute


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "_sparse_softmax": _softmax(False),
    "_sparse_log_softmax": _softmax(True),
    "_sparse_softmax_backward_data": _backward(False),
    "_sparse_log_softmax_backward_data": _backward(True),
}
