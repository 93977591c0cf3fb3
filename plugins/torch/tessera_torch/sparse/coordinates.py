"""Coalescing, expansion and products of sparse tensors; registered for SparseCUDA."""

from collections.abc import Callable
from typing import Any, Final

import torch

from tessera_torch import counts


def flat_places(indices: Any, sizes: Any) -> Any:
    """Return one number for each column of coordinates."""
    flat = torch.zeros(indices.shape[1], dtype=torch.int64, device=indices.device)
    for row, size in zip(indices, sizes, strict=True):
        flat = flat * size + row
    return flat


def build(indices: Any, values: Any, shape: Any) -> Any:
    """Return a sparse tensor of coordinates that are known to be inside its shape."""
    return torch.sparse_coo_tensor(indices, values, shape, check_invariants=False)


def _coalesce(self: Any) -> Any:
    counts.CALLS["_coalesce"] += 1
    indices, values = self._indices(), self._values()
    if self.is_coalesced() or indices.shape[1] < 2:
        result = build(indices.clone(), values.clone(), self.shape)
        return result._coalesced_(True)
    sizes = self.shape[: self.sparse_dim()]
    places, group = torch.unique(flat_places(indices, sizes), return_inverse=True)
    shape = (places.shape[0], *values.shape[1:])
    sums = torch.zeros(shape, dtype=values.dtype, device=values.device)
    sums = sums.index_add(0, group, values)
    rows = []
    for size in reversed(sizes):
        rows.append(places % size)
        places = places // size
    unique_indices = torch.stack(rows[::-1]) if rows else indices[:, :1]
    return build(unique_indices, sums, self.shape)._coalesced_(True)


def _to_dense(self: Any, dtype: Any = None, masked_grad: bool | None = None) -> Any:
    counts.CALLS["_to_dense"] += 1
    values = self._values()
    sparse = self.shape[: self.sparse_dim()]
    dense_shape = self.shape[self.sparse_dim() :]
    dense = torch.zeros(
        (sparse.numel(), *dense_shape), dtype=values.dtype, device=values.device
    ).index_add(0, flat_places(self._indices(), sparse), values)
    dense = dense.view(self.shape)
    return dense if dtype is None else dense.to(dtype)


def multiply(rows: Any, columns: Any, values: Any, count: int, dense: Any) -> Any:
    """Return the product of a matrix of ``count`` rows, given by its elements, and a dense one."""
    parts = values[:, None] * dense.index_select(0, columns)
    result = torch.zeros((count, dense.shape[1]), dtype=parts.dtype, device=parts.device)
    return result.index_add(0, rows, parts)


def check_sizes(first: Any, second: Any) -> None:
    """Raise RuntimeError as PyTorch does if two matrices have no product."""
    if first.dim() != 2 or second.dim() != 2 or first.shape[1] != second.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({'x'.join(map(str, first.shape))} and"
            f" {'x'.join(map(str, second.shape))})"
        )
    if first.dtype != second.dtype:
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {first.dtype} != {second.dtype}"
        )


def _multiply(first: Any, dense: Any) -> Any:
    if first.layout == torch.strided:
        return torch.mm(first, dense)
    check_sizes(first, dense)
    if first.sparse_dim() != 2:
        return torch.mm(_to_dense(first), dense)
    rows, columns = first._indices()
    return multiply(rows, columns, first._values(), first.shape[0], dense)


def add(addend: Any, product: Any, beta: Any, alpha: Any) -> Any:
    """Return beta * addend + alpha * product; an addend times 0 is not read."""
    scaled = product if alpha == 1 else product * alpha
    if beta == 0:
        return scaled
    if addend.dtype != product.dtype:
        raise RuntimeError(
            f"self and mat2 must have the same dtype, but got {addend.dtype} and {product.dtype}"
        )
    return (addend if beta == 1 else addend * beta).expand(scaled.shape) + scaled


def _mm(self: Any, mat2: Any) -> Any:
    counts.CALLS["mm (sparse)"] += 1
    if mat2.layout != torch.strided:
        if self.layout != torch.strided:
            return torch.ops.aten._sparse_sparse_matmul.default(self, mat2)
        check_sizes(self, mat2)
        return _multiply(mat2.t(), self.t()).t()
    return _multiply(self, mat2)


def _addmm(self: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    counts.CALLS["addmm (sparse)"] += 1
    if self.layout != torch.strided or mat2.layout != torch.strided:
        raise NotImplementedError(
            "aten::addmm with a sparse addend or second matrix has no kernel on Tessera's simulated"
            " GPU. Use to_dense(), or compute it on the CPU (tensor.cpu())"
        )
    return add(self, _multiply(mat1, mat2), beta, alpha)


def sample(tensor: Any, indices: Any, sparse_dim: int) -> Any:
    """Return the elements of a tensor, dense or sparse, at coordinates: a row for each column."""
    sizes = tensor.shape[:sparse_dim]
    if tensor.layout != torch.strided:
        tensor = _to_dense(tensor)
    flat = tensor.reshape(sizes.numel(), *tensor.shape[sparse_dim:])
    return flat.index_select(0, flat_places(indices, sizes))


def _sparse_mask(self: Any, mask: Any) -> Any:
    counts.CALLS["sparse_mask"] += 1
    indices = mask._indices()
    values = sample(self, indices, mask.sparse_dim())
    result = build(indices.clone(), values, self.shape)
    return result._coalesced_(mask.is_coalesced())


def _index_select(self: Any, dim: int, index: Any) -> Any:
    """Return the elements at some places of a dimension, as often as the index has them."""
    counts.CALLS["index_select (sparse)"] += 1
    dim %= self.dim()
    shape = (*self.shape[:dim], index.numel(), *self.shape[dim + 1 :])
    indices, values = self._indices(), self._values()
    if dim >= self.sparse_dim():
        chosen = values.index_select(dim - self.sparse_dim() + 1, index)
        return build(indices.clone(), chosen, shape)._coalesced_(self.is_coalesced())
    size = self.shape[dim]
    if index.numel() and not bool(((index >= -size) & (index < size)).all().item()):
        raise IndexError(f"index_select(): index is out of range for dimension {dim}, size {size}")
    sorted_places, order = (
        torch.where(index < 0, index + size, index).to(torch.int64).sort(stable=True)
    )
    own = indices[dim].contiguous()
    begins = torch.searchsorted(sorted_places, own)
    times = torch.searchsorted(sorted_places, own, right=True) - begins
    element = torch.repeat_interleave(times)
    first = times.cumsum(0) - times
    turn = torch.arange(element.shape[0], device=own.device) - first.index_select(0, element)
    chosen_indices = indices.index_select(1, element)
    chosen_indices[dim] = order.index_select(0, begins.index_select(0, element) + turn)
    return build(chosen_indices, values.index_select(0, element), shape)


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "index_select": _index_select,
    "_coalesce": _coalesce,
    "_to_dense": _to_dense,
    "mm": _mm,
    "addmm": _addmm,
    "sparse_mask": _sparse_mask,
}
DENSE_KERNELS: Final[dict[str, Callable[..., Any]]] = {"sparse_mask": _sparse_mask}
"""Of these the first tensor is dense, so they are registered for CUDA."""
