"""Reductions of complex tensors, and operators that move or add their parts alike."""

from collections.abc import Callable
from typing import Any, Final

import torch

from tessera_torch.complexes.elementwise import is_nonzero, multiply
from tessera_torch.complexes.parts import COMPLEX_OF, REAL_OF, join, split


def by_parts(overload: Any, arguments: list[Any]) -> Any:
    """Compute an operator on all real parts, then on all imaginary ones."""

    def take(argument: Any, which: int) -> Any:
        if isinstance(argument, torch.Tensor) and argument.is_complex():
            return split(argument)[which].contiguous()
        if isinstance(argument, (list, tuple)):
            return [take(x, which) for x in argument]
        return REAL_OF.get(argument, argument) if isinstance(argument, torch.dtype) else argument

    schema = overload._schema.arguments
    results = []
    for which in (0, 1):
        part_arguments = [take(argument, which) for argument in arguments]
        positional = [
            part for part, a in zip(part_arguments, schema, strict=True) if not a.kwarg_only
        ]
        keywords = {
            a.name: part for part, a in zip(part_arguments, schema, strict=True) if a.kwarg_only
        }
        results.append(overload(*positional, **keywords))
    first, second = results
    if isinstance(first, (list, tuple)):
        return type(first)(join(a, b) for a, b in zip(first, second, strict=True))
    return join(first, second, COMPLEX_OF[first.dtype])


BY_PARTS: Final = frozenset(
    {
        "sum", "cumsum", "flip", "roll", "index_select", "gather", "index",
        "tril", "triu", "index_copy", "masked_scatter",
        "trace", "take", "unfold_backward", "constant_pad_nd", "reflection_pad1d",
        "reflection_pad2d", "reflection_pad3d", "replication_pad1d", "replication_pad2d",
        "reflection_pad1d_backward", "reflection_pad2d_backward", "reflection_pad3d_backward",
        "replication_pad1d_backward", "replication_pad2d_backward",
        "replication_pad3d_backward", "replication_pad3d", "im2col", "col2im",
        "repeat_interleave", "clone", "nan_to_num",
        "diag_embed", "linalg_diagonal", "rot90", "logspace", "channel_shuffle",
    }
)  # fmt: skip


def _cat(tensors: Any, dim: int = 0) -> Any:
    dtype = tensors[0].dtype
    for tensor in tensors[1:]:
        dtype = torch.promote_types(dtype, tensor.dtype)
    inner = REAL_OF[dtype]
    parts = [split(tensor) for tensor in tensors]
    real = torch.cat([a.to(inner) for a, _ in parts], dim)
    imag = torch.cat([b.to(inner).expand(a.shape) for a, b in parts], dim)
    return join(real, imag, dtype)


def _halve(tensor: Any, dim: int) -> Any:
    """Return the product along a dimension, by products of halves; 1 of none."""
    while tensor.shape[dim] > 1:
        count = tensor.shape[dim]
        half = count // 2
        product = multiply(tensor.narrow(dim, 0, half), tensor.narrow(dim, half, half))
        if count % 2:
            product = torch.cat((product, tensor.narrow(dim, count - 1, 1)), dim)
        tensor = product
    if tensor.shape[dim]:
        return tensor.select(dim, 0)
    shape = [size for i, size in enumerate(tensor.shape) if i != dim]
    return torch.ones(shape, dtype=tensor.dtype, device=tensor.device)


def _prod(self: Any, dim: int | None = None, keepdim: bool = False, dtype: Any = None) -> Any:
    tensor = self if dtype is None else self.to(dtype)
    if dim is None:
        return _halve(tensor.reshape(-1), 0).clone()
    if not self.dim():
        return tensor.clone()
    dim %= self.dim()
    result = _halve(tensor, dim).clone()
    return result.unsqueeze(dim) if keepdim else result


def _cumprod(self: Any, dim: int, dtype: Any = None) -> Any:
    result = (self if dtype is None else self.to(dtype)).clone()
    if not self.dim():
        return result
    count, step = self.shape[dim], 1
    while step < count:
        product = multiply(
            result.narrow(dim, step, count - step), result.narrow(dim, 0, count - step)
        )
        result = torch.cat((result.narrow(dim, 0, step), product), dim)
        step *= 2
    return result


def _variance(self: Any, dim: Any = None, correction: Any = None, keepdim: bool = False) -> Any:
    real, imag = split(self)
    options = {
        "dim": dim,
        "correction": 1 if correction is None else correction,
        "keepdim": keepdim,
    }
    return torch.var(real.contiguous(), **options) + torch.var(imag.contiguous(), **options)


def _deviation(self: Any, dim: Any = None, correction: Any = None, keepdim: bool = False) -> Any:
    return _variance(self, dim, correction, keepdim).sqrt()


def _norm(
    self: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Any:
    size = self.abs()
    if dtype is not None:
        size = size.to(REAL_OF.get(dtype, dtype))
    return torch.linalg.vector_norm(size, ord, dim, keepdim)


def _test(function: Callable[..., Any]) -> Callable[..., Any]:
    def compute(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
        mask = is_nonzero(self)
        return function(mask) if dim is None else function(mask, dim, keepdim=keepdim)

    return compute


def _index_add(self: Any, dim: int, index: Any, source: Any, alpha: Any = 1) -> Any:
    scaled = source if alpha == 1 else multiply(source, alpha)
    return by_parts(torch.ops.aten.index_add.default, [self, dim, index, scaled, 1])


def _index_fill(self: Any, dim: int, index: Any, value: Any) -> Any:
    number = complex(value.item() if isinstance(value, torch.Tensor) else value)
    real, imag = split(self)
    return join(
        real.contiguous().index_fill(dim, index, number.real),
        imag.contiguous().index_fill(dim, index, number.imag),
    )


def _mean(self: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """Return the mean; that of no elements is a real NaN."""
    tensor = self if dtype is None else self.to(dtype)
    dims = list(range(tensor.dim())) if dim is None or not list(dim) else dim
    real, imag = (part.contiguous().mean(dims, keepdim=keepdim) for part in split(tensor))
    return join(real, imag if tensor.numel() else torch.zeros_like(imag))


def _with_mean(function: Callable[..., Any]) -> Callable[..., Any]:
    def compute(self: Any, dim: Any = None, correction: Any = None, keepdim: bool = False) -> Any:
        dims = list(range(self.dim())) if dim is None or not list(dim) else dim
        return function(self, dim, correction, keepdim), self.mean(dims, keepdim=keepdim)

    return compute


def _cross(self: Any, other: Any, dim: int = -1) -> Any:
    next_, last = ([1, 2, 0], [2, 0, 1])

    def take(tensor: Any, order: list[int]) -> Any:
        chosen = torch.tensor(order, device=tensor.device)
        return tensor.index_select(dim, chosen)

    self, other = torch.broadcast_tensors(self, other)
    first = multiply(take(self, next_), take(other, last))
    return first - multiply(take(self, last), take(other, next_))


OPERATORS: Final[dict[str, Callable[..., Any]]] = {
    "linalg_cross": _cross,
    "var_mean": _with_mean(_variance),
    "std_mean": _with_mean(_deviation),
    "cat": _cat,
    "mean": _mean,
    "prod": _prod,
    "cumprod": _cumprod,
    "var": _variance,
    "std": _deviation,
    "linalg_vector_norm": _norm,
    "norm": lambda self, p=2, dim=None, keepdim=False, dtype=None: _norm(
        self, 2 if p is None else p, list(dim) if dim else None, keepdim, dtype
    ),
    "index_add": _index_add,
    "index_fill": _index_fill,
    "all": _test(torch.all),
    "any": _test(torch.any),
    "count_nonzero": lambda self, dim=(): is_nonzero(self).to(torch.int64).sum(list(dim)),
}
