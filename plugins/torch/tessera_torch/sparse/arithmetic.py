"""Sums and products of sparse tensors of coordinates, element by element and as matrices."""

from collections.abc import Callable
from typing import Any, Final

import torch

from tessera_torch import counts
from tessera_torch.sparse.coordinates import build, check_sizes, flat_places, multiply, sample


def _is_sparse(operand: Any) -> bool:
    return isinstance(operand, torch.Tensor) and operand.layout == torch.sparse_coo


def _add(self: Any, other: Any, alpha: Any = 1) -> Any:
    """Return self + alpha * other. A dense tensor and a sparse one have a dense sum."""
    counts.CALLS["add (sparse)"] += 1
    if _is_sparse(self) and not _is_sparse(other):
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    dtype = torch.result_type(self, other)
    if not _is_sparse(self):
        return _add_to_dense(self.to(dtype, copy=True), other, alpha)
    if self.shape != other.shape:
        raise RuntimeError(
            f"add: expected sizes of 'self' and 'other' to match, but {list(self.shape)} !="
            f" {list(other.shape)}"
        )
    other = _with_sparse_dims(other, self.sparse_dim())
    values = other._values().to(dtype)
    joined_values = torch.cat((self._values().to(dtype), values if alpha == 1 else values * alpha))
    indices = torch.cat((self._indices(), other._indices()), 1)
    result = build(indices, joined_values, self.shape)
    return result.coalesce() if self.is_coalesced() and other.is_coalesced() else result


def _with_sparse_dims(tensor: Any, sparse_dim: int) -> Any:
    return tensor if tensor.sparse_dim() == sparse_dim else tensor.to_dense().to_sparse(sparse_dim)


def _add_to_dense(dense: Any, addend: Any, alpha: Any) -> Any:
    """Add to a dense tensor in place."""
    if dense.shape != addend.shape:
        raise RuntimeError(
            f"add: expected 'self' and 'other' to have same size, but self has size"
            f" {list(dense.shape)} while other has size {list(addend.shape)} (FYI: dense-sparse"
            " addition does not currently support broadcasting)"
        )
    sizes = addend.shape[: addend.sparse_dim()]
    values = addend._values().to(dense.dtype)
    values = values if alpha == 1 else values * alpha
    if not dense.is_contiguous():
        return dense.add_(addend.to_dense().to(dense.dtype), alpha=alpha)
    flat = dense.view(sizes.numel(), *dense.shape[len(sizes) :])
    flat.index_add_(0, flat_places(addend._indices(), sizes), values)
    return dense


def _add_in_place(self: Any, other: Any, alpha: Any = 1) -> Any:
    if not _is_sparse(self):
        counts.CALLS["add (sparse)"] += 1
        _check_type("add", torch.result_type(self, other), self.dtype)
        return _add_to_dense(self, other, alpha)
    return _replace(self, _add(self, other, alpha), "add")


def _check_type(name: str, result: torch.dtype, written: torch.dtype) -> None:
    """Raise RuntimeError, with PyTorch's text, if the written type cannot hold the result's."""
    if not torch.can_cast(result, written):
        result_name, written_name = (
            torch.empty(0, dtype=dtype).type()[len("torch.") : -len("Tensor")]
            for dtype in (result, written)
        )
        raise RuntimeError(
            f"Can't convert result type {result_name} to output {written_name} in {name} operation"
        )


def _replace(self: Any, result: Any, name: str) -> Any:
    """Give a sparse tensor the elements of another one. ``name`` is the operation's."""
    _check_type(name, result.dtype, self.dtype)
    values = result._values().to(self.dtype)
    replacement = build(result._indices(), values, result.shape)._coalesced_(result.is_coalesced())
    return self.copy_(replacement)


def _subtract(self: Any, other: Any, alpha: Any = 1) -> Any:
    return _add(self, other, -alpha)


def _subtract_in_place(self: Any, other: Any, alpha: Any = 1) -> Any:
    return _add_in_place(self, other, -alpha)


def _times(self: Any, other: Any) -> Any:
    """Return products of elements: only those that every sparse operand stores."""
    counts.CALLS["mul (sparse)"] += 1
    if not _is_sparse(self):
        self, other = other, self
    if not isinstance(other, torch.Tensor) or not other.dim():
        other = other if not _is_sparse(other) else other.to_dense()
        result = build(self._indices(), self._values() * other, self.shape)
        return result._coalesced_(self.is_coalesced())
    if self.shape != other.shape and not _is_sparse(other):
        other = other.expand(self.shape)
    if self.shape != other.shape:
        raise RuntimeError(
            f"mul operands have incompatible sizes: {list(self.shape)} and {list(other.shape)}"
        )
    if not _is_sparse(other):
        values = self._values() * sample(other, self._indices(), self.sparse_dim())
        return build(self._indices(), values, self.shape)._coalesced_(self.is_coalesced())
    first = self.coalesce()
    second = _with_sparse_dims(other, self.sparse_dim()).coalesce()
    sizes = self.shape[: self.sparse_dim()]
    own = flat_places(first._indices(), sizes)
    second_places = flat_places(second._indices(), sizes)
    if not own.numel() or not second_places.numel():
        matches = places = own[:0]
    else:
        candidates = torch.searchsorted(second_places, own).clamp(max=second_places.numel() - 1)
        matches = (second_places.index_select(0, candidates) == own).nonzero()[:, 0]
        places = candidates.index_select(0, matches)
    values = first._values().index_select(0, matches) * second._values().index_select(0, places)
    indices = first._indices().index_select(1, matches)
    return build(indices, values, self.shape)._coalesced_(True)


def _times_in_place(self: Any, other: Any) -> Any:
    if not _is_sparse(self):
        return self.mul_(other.to_dense())
    return _replace(self, _times(self, other), "mul")


def _matrices(self: Any, other: Any) -> Any:
    """Return the product of two sparse matrices: each element meets those of one row."""
    counts.CALLS["_sparse_sparse_matmul"] += 1
    check_sizes(self, other)
    first, second = self.coalesce(), other.coalesce()
    rows, columns = first._indices()
    starts = torch.searchsorted(
        second._indices()[0].contiguous(),
        torch.arange(other.shape[0] + 1, device=self.device),
    )
    number = (starts[1:] - starts[:-1]).index_select(0, columns)
    owner = torch.repeat_interleave(torch.arange(rows.shape[0], device=self.device), number)
    offsets = number.cumsum(0) - number
    own = torch.arange(owner.shape[0], device=self.device) - offsets.index_select(0, owner)
    met = starts.index_select(0, columns.index_select(0, owner)) + own
    values = first._values().index_select(0, owner) * second._values().index_select(0, met)
    indices = torch.stack((rows.index_select(0, owner), second._indices()[1].index_select(0, met)))
    return build(indices, values, (self.shape[0], other.shape[1])).coalesce()


def _batches(self: Any, mat2: Any) -> Any:
    """Return the products of sparse matrices and dense ones, as one product of wider matrices."""
    counts.CALLS["bmm (sparse)"] += 1
    if mat2.layout != torch.strided or self.sparse_dim() != 3:
        raise NotImplementedError(
            "aten::bmm with a sparse second tensor has no kernel on Tessera's simulated GPU. Use"
            " to_dense(), or compute it on the CPU (tensor.cpu())"
        )
    if mat2.dim() != 3 or self.shape[0] != mat2.shape[0] or self.shape[2] != mat2.shape[1]:
        raise RuntimeError(
            f"bmm: shapes {list(self.shape)} and {list(mat2.shape)} cannot be multiplied"
        )
    count, height, width = self.shape
    which, rows, columns = self._indices()
    dense = mat2.reshape(count * width, mat2.shape[2])
    product = multiply(
        which * height + rows, which * width + columns, self._values(), count * height, dense
    )
    return product.view(count, height, mat2.shape[2])


def _spread_sum(grad: Any, self: Any, dim: Any) -> Any:
    """Return the gradient of a sum over dimensions: the sum's gradient at each stored element."""
    counts.CALLS["_sparse_sum_backward"] += 1
    dense = grad.to_dense() if _is_sparse(grad) else grad
    for axis in sorted(i % self.dim() for i in dim):
        dense = dense.unsqueeze(axis)
    values = sample(dense.expand(self.shape), self._indices(), self.sparse_dim())
    return build(self._indices(), values, self.shape)._coalesced_(self.is_coalesced())


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "add.Tensor": _add,
    "add_.Tensor": _add_in_place,
    "sub.Tensor": _subtract,
    "sub_.Tensor": _subtract_in_place,
    "mul.Tensor": _times,
    "mul_.Tensor": _times_in_place,
    "bmm": _batches,
    "_sparse_sparse_matmul": _matrices,
    "_sparse_sum_backward": _spread_sum,
}
