"""Sparse tensors of compressed rows: conversions of their indices, and products."""

from collections.abc import Callable
from typing import Any, Final

import torch

from tessera_torch import counts
from tessera_torch.sparse.coordinates import add, build, check_sizes, multiply


def _compress(self: Any, size: int, *, out_int32: bool = False) -> Any:
    """Return where each row begins, for sorted rows."""
    counts.CALLS["_convert_indices_from_coo_to_csr"] += 1
    rows = torch.arange(size + 1, dtype=self.dtype, device=self.device)
    row_starts = torch.searchsorted(self.contiguous(), rows)
    return row_starts.to(torch.int32 if out_int32 else torch.int64)


def _expand(
    crow_indices: Any, col_indices: Any, *, out_int32: bool = False, transpose: bool = False
) -> Any:
    """Return the coordinates of all elements."""
    counts.CALLS["_convert_indices_from_csr_to_coo"] += 1
    _check_one(crow_indices)
    places = torch.arange(col_indices.shape[0], device=col_indices.device)
    rows = torch.searchsorted(crow_indices.to(torch.int64), places, right=True) - 1
    pair = (col_indices.to(torch.int64), rows) if transpose else (rows, col_indices.to(torch.int64))
    return torch.stack(pair).to(torch.int32 if out_int32 else torch.int64)


def _check_one(crow_indices: Any) -> None:
    if crow_indices.dim() != 1:
        raise NotImplementedError(
            "batches of sparse matrices have no kernel on Tessera's simulated GPU. Compute them on"
            " the CPU (tensor.cpu())"
        )


def _blocks_to_dense(self: Any) -> Any:
    """Return the matrix of compressed rows or columns of blocks; its elements may be tensors."""
    is_by_columns = self.layout == torch.sparse_bsc
    if is_by_columns:
        begins, inner_indices = self.ccol_indices(), self.row_indices()
    else:
        begins, inner_indices = self.crow_indices(), self.col_indices()
    rows, columns = _expand(begins, inner_indices, transpose=is_by_columns)
    values = self.values()
    height, width = values.shape[1:3]
    counts_of_blocks = self.shape[0] // height, self.shape[1] // width
    shape = (counts_of_blocks[0] * counts_of_blocks[1], *values.shape[1:])
    dense = torch.zeros(shape, dtype=values.dtype, device=values.device)
    dense = dense.index_copy(0, rows * counts_of_blocks[1] + columns, values)
    dense = dense.view(*counts_of_blocks, *values.shape[1:])
    return dense.transpose(1, 2).reshape(self.shape)


def _to_dense(self: Any, dtype: Any = None, masked_grad: bool | None = None) -> Any:
    counts.CALLS["_to_dense (sparse rows)"] += 1
    if self.layout in (torch.sparse_bsr, torch.sparse_bsc):
        dense = _blocks_to_dense(self)
        return dense if dtype is None else dense.to(dtype)
    if self.layout == torch.sparse_csr:
        begins, inner_indices = self.crow_indices(), self.col_indices()
    else:
        begins, inner_indices = self.ccol_indices(), self.row_indices()
    rows, columns = _expand(begins, inner_indices, transpose=self.layout == torch.sparse_csc)
    values = self.values()
    dense = torch.zeros(self.shape.numel(), dtype=values.dtype, device=values.device)
    dense = dense.index_add(0, rows * self.shape[1] + columns, values).view(self.shape)
    return dense if dtype is None else dense.to(dtype)


def _addmm_out(self: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1, out: Any) -> Any:
    counts.CALLS["addmm (sparse rows)"] += 1
    if all(tensor.layout == torch.sparse_csr for tensor in (self, mat1, mat2, out)):
        product = _mm(mat1, mat2).to_sparse_coo() * alpha
        result = product if beta == 0 else torch.add(product, self.to_sparse_coo(), alpha=beta)
        result = result.coalesce().to_sparse_csr()
        return out.resize_as_sparse_(result).copy_(result)
    if any(tensor.layout != torch.strided for tensor in (self, out)):
        raise NotImplementedError(
            "aten::addmm with a sparse addend or result has no kernel on Tessera's simulated GPU."
            " Use to_dense(), or compute it on the CPU (tensor.cpu())"
        )
    if mat1.layout == torch.sparse_csr and mat2.layout == torch.strided:
        check_sizes(mat1, mat2)
        rows, columns = _expand(mat1.crow_indices(), mat1.col_indices())
        product = multiply(rows, columns, mat1.values(), mat1.shape[0], mat2)
        result = add(self, product, beta, alpha)
    else:
        dense_operands = (
            tensor if tensor.layout == torch.strided else _to_dense(tensor)
            for tensor in (mat1, mat2)
        )
        result = torch.addmm(self, *dense_operands, beta=beta, alpha=alpha)
    return out.resize_(result.shape).copy_(result)


def _like(self: Any, values: Any) -> Any:
    """Return compressed rows of the same places with other values."""
    return torch.sparse_csr_tensor(
        self.crow_indices(), self.col_indices(), values, self.shape, check_invariants=False
    )


def _sampled(self: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """Return beta * self + alpha * (mat1 @ mat2) at the places that self stores."""
    counts.CALLS["sparse_sampled_addmm"] += 1
    if self.layout != torch.sparse_csr:
        raise NotImplementedError(
            f"aten::sparse_sampled_addmm ({self.layout}) has no kernel on Tessera's simulated GPU."
            " Compute it on the CPU (tensor.cpu())"
        )
    rows, columns = _expand(self.crow_indices(), self.col_indices())
    products = mat1.index_select(0, rows) * mat2.index_select(1, columns).t()
    return _like(self, add(self.values(), products.sum(1), beta, alpha))


def _sampled_out(
    self: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1, out: Any
) -> Any:
    return out.copy_(_sampled(self, mat1, mat2, beta=beta, alpha=alpha))


def _sum_of_rows(self: Any, other: Any, alpha: Any = 1) -> Any:
    """Return self + alpha * other, of which one at least has compressed rows."""
    counts.CALLS["add (sparse rows)"] += 1
    if self.layout == torch.strided:
        return torch.add(self, other.to_dense(), alpha=alpha)
    if self.layout != torch.sparse_csr or other.layout != torch.sparse_csr:
        raise NotImplementedError(
            f"aten::add ({self.layout} and {other.layout}) has no kernel on Tessera's simulated"
            " GPU. Use to_dense(), or compute it on the CPU (tensor.cpu())"
        )
    pair = (operand.to_sparse_coo() for operand in (self, other))
    return torch.add(*pair, alpha=alpha).coalesce().to_sparse_csr()


def _elements(matrix: Any) -> tuple[Any, Any]:
    """Return rows and columns of the elements of compressed rows or columns."""
    if matrix.layout == torch.sparse_csr:
        rows, columns = _expand(matrix.crow_indices(), matrix.col_indices())
    else:
        rows, columns = _expand(matrix.ccol_indices(), matrix.row_indices(), transpose=True)
    return rows, columns


def _multiply_blocks(self: Any, dense: Any) -> Any:
    """Return the product of a matrix of blocks and a dense one, block by block."""
    is_by_columns = self.layout == torch.sparse_bsc
    begins = self.ccol_indices() if is_by_columns else self.crow_indices()
    inner_indices = self.row_indices() if is_by_columns else self.col_indices()
    rows, columns = _expand(begins, inner_indices, transpose=is_by_columns)
    values = self.values()
    height, width = values.shape[1:]
    count = dense.shape[1]
    parts = dense.reshape(-1, width, count).index_select(0, columns)
    shape = (self.shape[0] // height, height, count)
    result = torch.zeros(shape, dtype=dense.dtype, device=dense.device)
    return result.index_add(0, rows, torch.bmm(values, parts)).view(-1, count)


def _sum(self: Any, dim: Any, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Return sums along dimensions, which are kept with size 1."""
    counts.CALLS["_sparse_csr_sum"] += 1
    if not keepdim:
        raise RuntimeError("reduction operations on CSR tensors with keepdim=False is unsupported")
    reduced = {axis % 2 for axis in dim}
    pair = list(_elements(self))
    shape = list(self.shape)
    for axis in reduced:
        pair[axis] = torch.zeros_like(pair[axis])
        shape[axis] = 1
    values = self.values() if dtype is None else self.values().to(dtype)
    return build(torch.stack(pair), values, shape).coalesce().to_sparse_csr()


def _flip(layout: Any) -> Callable[..., Any]:
    """Return the conversion of compressed rows or columns to a layout of these."""

    def convert(self: Any, dense_dim: int | None = None) -> Any:
        counts.CALLS[f"to {layout}"] += 1
        if self.layout not in (torch.sparse_csr, torch.sparse_csc):
            raise NotImplementedError(
                f"the conversion of {self.layout} to {layout} has no kernel on Tessera's simulated"
                " GPU. Use to_dense(), or compute it on the CPU (tensor.cpu())"
            )
        if self.layout == layout:
            return self.clone()
        return self.to_sparse_coo().to_sparse(layout=layout)

    return convert


def _mm(self: Any, mat2: Any) -> Any:
    counts.CALLS["mm (sparse rows)"] += 1
    check_sizes(self, mat2)
    row_layouts = (torch.sparse_csr, torch.sparse_csc)
    if mat2.layout == torch.strided and self.layout in row_layouts:
        return multiply(*_elements(self), self.values(), self.shape[0], mat2)
    blocks = (torch.sparse_bsr, torch.sparse_bsc)
    if mat2.layout == torch.strided and self.layout in blocks:
        return _multiply_blocks(self, mat2)
    if self.layout == torch.strided and mat2.layout in (*row_layouts, *blocks):
        return _mm(mat2.t(), self.t()).t()
    if self.layout in row_layouts and mat2.layout in row_layouts:
        product = torch.mm(self.to_sparse_coo(), mat2.to_sparse_coo())
        return product.to_sparse_csr()  # as PyTorch's, also of compressed columns
    raise NotImplementedError(
        f"aten::mm ({self.layout} and {mat2.layout}) has no kernel on Tessera's simulated GPU. Use"
        " to_dense(), or compute it on the CPU (tensor.cpu())"
    )


def _vector_out(self: Any, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1, out: Any) -> Any:
    columns = (self[:, None] if self.dim() else self, vec[:, None])
    shape = (mat.shape[0], 1)
    into = torch.empty(shape, dtype=vec.dtype, device=vec.device)
    _addmm_out(columns[0], mat, columns[1], beta=beta, alpha=alpha, out=into)
    return out.resize_(mat.shape[0]).copy_(into[:, 0])


DENSE_KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "_convert_indices_from_coo_to_csr": _compress,
    "_convert_indices_from_csr_to_coo": _expand,
}
KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "mm": _mm,
    "addmm.out": _addmm_out,
    "addmv.out": _vector_out,
    "_to_dense": _to_dense,
    "sparse_sampled_addmm": _sampled,
    "sparse_sampled_addmm.out": _sampled_out,
    "add.Tensor": _sum_of_rows,
    "_sparse_csr_sum.dim_dtype": _sum,
    "_to_sparse_csr": _flip(torch.sparse_csr),
    "_to_sparse_csc": _flip(torch.sparse_csc),
}
