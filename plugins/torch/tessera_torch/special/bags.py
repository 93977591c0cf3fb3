"""Bags of embeddings with their gradients, and the limit of embeddings' norms."""

from collections.abc import Callable
from typing import Any, Final

import torch

from tessera_torch import counts

_SUM: Final = 0
_MEAN: Final = 1
_MAX: Final = 2


def _bag(
    weight: Any, indices: Any, offsets: Any, scale_grad_by_freq: bool = False, mode: int = _SUM,
    sparse: bool = False, per_sample_weights: Any = None, include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Any, Any, Any, Any]:  # fmt: skip
    counts.CALLS["_embedding_bag"] += 1
    starts = offsets.to(torch.int64)
    number = starts.numel()
    if include_last_offset:
        number, starts = number - 1, starts[:-1]
    count = indices.numel()
    own = torch.arange(count, device=weight.device)
    bags = torch.searchsorted(starts, own, right=True) - 1
    counted_mask = indices != padding_idx
    sizes = torch.zeros(number, dtype=torch.int64, device=weight.device)
    sizes.index_add_(0, bags, counted_mask.to(torch.int64))
    rows = weight.index_select(0, indices)
    shape = (number, weight.shape[1])
    if mode == _MAX:
        result, largest = _maxima(rows, indices, bags, counted_mask, sizes, shape)
    else:
        if per_sample_weights is not None:
            rows = rows * per_sample_weights[:, None]
        largest = torch.empty(0, dtype=torch.int64, device=weight.device)
        wide = torch.float32 if weight.dtype in (torch.float16, torch.bfloat16) else weight.dtype
        result = torch.zeros(shape, dtype=wide, device=weight.device)
        result.index_add_(0, bags, torch.where(counted_mask[:, None], rows, 0).to(wide))
        if mode == _MEAN:
            result = result / sizes.clamp(min=1)[:, None]
        result = result.to(weight.dtype)
    return result, bags.to(indices.dtype), sizes.to(indices.dtype), largest.to(indices.dtype)


def _maxima(rows: Any, indices: Any, bags: Any, counted_mask: Any, sizes: Any, shape: Any) -> Any:
    """Return each bag's largest numbers, and the rows of the weight that have them."""
    count = rows.shape[0]
    places = bags[:, None].expand(rows.shape)
    low = torch.full(shape, float("-inf"), dtype=rows.dtype, device=rows.device)
    masked_rows = torch.where(counted_mask[:, None], rows, float("-inf"))
    result = low.scatter_reduce(0, places, masked_rows, "amax")
    own = torch.arange(count, device=rows.device)[:, None].expand(rows.shape)
    is_largest = counted_mask[:, None] & (rows == result.index_select(0, bags))
    first = torch.full(shape, count, dtype=torch.int64, device=rows.device)
    first = first.scatter_reduce(0, places, torch.where(is_largest, own, count), "amin")
    has_one = first < count
    row_numbers = indices.to(torch.int64)
    if count:
        row_numbers = row_numbers.index_select(0, first.clamp(max=count - 1).reshape(-1)).view(
            shape
        )
    else:
        row_numbers = first
    result = torch.where((sizes > 0)[:, None], result, 0)
    return result, torch.where(has_one, row_numbers, -1)


def _backward(
    grad: Any, indices: Any, offset2bag: Any, bag_size: Any, maximum_indices: Any,
    num_weights: int, scale_grad_by_freq: bool, mode: int, per_sample_weights: Any,
    padding_idx: int = -1,
) -> Any:  # fmt: skip
    counts.CALLS["_embedding_bag_dense_backward"] += 1
    wide = torch.float32 if grad.dtype in (torch.float16, torch.bfloat16) else grad.dtype
    result = torch.zeros((num_weights, grad.shape[1]), dtype=wide, device=grad.device)
    wide_gradient = grad.to(wide)
    if mode == _MAX:
        has_one = maximum_indices >= 0
        places = maximum_indices.to(torch.int64).clamp(min=0)
        return result.scatter_add_(0, places, torch.where(has_one, wide_gradient, 0)).to(grad.dtype)
    rows = wide_gradient.index_select(0, offset2bag)
    if mode == _MEAN:
        rows = rows / bag_size.clamp(min=1).index_select(0, offset2bag)[:, None]
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None]
    if scale_grad_by_freq:
        often = torch.bincount(indices, minlength=num_weights)
        rows = rows / often.index_select(0, indices)[:, None]
    rows = torch.where((indices != padding_idx)[:, None], rows, 0).to(wide)
    return result.index_add_(0, indices, rows).to(grad.dtype)


def _any_backward(
    grad: Any, indices: Any, offsets: Any, offset2bag: Any, bag_size: Any, maximum_indices: Any,
    num_weights: int, scale_grad_by_freq: bool, mode: int, sparse: bool, per_sample_weights: Any,
    padding_idx: int = -1,
) -> Any:  # fmt: skip
    if sparse:
        return torch.ops.aten._embedding_bag_sparse_backward(
            grad, indices, offsets, offset2bag, bag_size, num_weights, scale_grad_by_freq, mode,
            per_sample_weights, padding_idx,
        )  # fmt: skip
    return _backward(
        grad, indices, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq,
        mode, per_sample_weights, padding_idx,
    )  # fmt: skip


def _weights_backward(
    grad: Any, weight: Any, indices: Any, offsets: Any, offset2bag: Any, mode: int,
    padding_idx: int = -1,
) -> Any:  # fmt: skip
    counts.CALLS["_embedding_bag_per_sample_weights_backward"] += 1
    products = grad.index_select(0, offset2bag) * weight.index_select(0, indices)
    return torch.where(indices != padding_idx, products.sum(1), 0)


def _renorm(self: Any, indices: Any, max_norm: float, norm_type: float) -> Any:
    """Scale the rows that are used and longer than ``max_norm``."""
    counts.CALLS["embedding_renorm_"] += 1
    used = torch.unique(indices.reshape(-1))
    rows = self.index_select(0, used)
    wide = torch.promote_types(self.dtype, torch.float32)
    length = torch.linalg.vector_norm(rows, norm_type, 1, keepdim=True, dtype=wide)
    scale = torch.where(length > max_norm, max_norm / (length + 1e-7), 1.0)
    return self.index_copy_(0, used, (rows * scale).to(self.dtype))


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "_embedding_bag": _bag,
    "embedding_renorm_": _renorm,
    "_embedding_bag_forward_only": _bag,
    "_embedding_bag_backward": _any_backward,
    "_embedding_bag_dense_backward": _backward,
    "_embedding_bag_per_sample_weights_backward": _weights_backward,
}
