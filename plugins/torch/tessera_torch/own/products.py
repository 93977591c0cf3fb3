"""Matrix products with an addend: PyTorch's kernels, given one that they copy as bytes."""

from collections.abc import Callable
from typing import Any, Final

import torch

from tessera_torch import counts, native
from tessera_torch.operator import Operator
from tessera_torch.targets import both, resize


def _addend(self: Any, left: Any, right: Any) -> Any:
    """Return the addend in the result's shape and contiguous.

    PyTorch's kernels copy any other one by a kernel of the wheel, past the dispatcher.
    """
    if left.dim() != 2 or right.dim() not in (1, 2):
        return self  # PyTorch raises
    shape = (left.shape[0], *right.shape[1:])
    if self.dim() > len(shape) or any(
        n not in (1, size) for n, size in zip(self.shape[::-1], shape[::-1], strict=False)
    ):
        return self
    return self.expand(shape).contiguous()


def _product(self: Any, left: Any, right: Any, beta: Any, alpha: Any) -> Any:
    """Return the result if there is nothing to multiply, else None."""
    if left.dim() != 2 or right.dim() not in (1, 2) or left.shape[1] != right.shape[0]:
        return None
    if left.shape[1]:
        return None
    return self * beta if beta else torch.zeros_like(self)


def _forward(name: str) -> Callable[..., Any]:
    def compute(self: Any, left: Any, right: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        counts.CALLS[name] += 1
        if left.is_complex() or self.is_complex():
            return _COMPLEX[name](self, left, right, beta=beta, alpha=alpha)
        addend = _addend(self, left, right)
        empty = _product(addend, left, right, beta, alpha)
        if empty is not None:
            return empty
        # A new addend becomes the result, without a second copy.
        called = name if _shares(addend, self) else f"{name}_"
        return native.call(called, addend, left, right, beta=beta, alpha=alpha)

    return compute


def _shares(first: Any, second: Any) -> bool:
    return bool(first.data_ptr() == second.data_ptr())


def _forward_out(name: str) -> Callable[..., Any]:
    def compute(
        self: Any, left: Any, right: Any, *, beta: Any = 1, alpha: Any = 1, out: Any
    ) -> Any:
        counts.CALLS[name] += 1
        if left.is_complex() or self.is_complex():
            return _COMPLEX[name](self, left, right, beta=beta, alpha=alpha, out=out)
        self = self if self is out else _addend(self, left, right)
        empty = _product(self, left, right, beta, alpha)
        if empty is not None:
            return resize(out, empty.shape).copy_(empty)
        return native.call(name, self, left, right, beta=beta, alpha=alpha, out=out)

    return compute


def _plain(name: str) -> Callable[..., Any]:
    """Return a product that PyTorch computes, but for complex numbers."""

    def compute(*arguments: Any, **keywords: Any) -> Any:
        if arguments[1].is_complex() or arguments[0].is_complex():
            return _COMPLEX[name](*arguments, **keywords)
        return native.call(name, *arguments, **keywords)

    return compute


def _dot(first: Any, second: Any) -> Any:
    """Return a dot product; cuBLAS has none of float16 and bfloat16 here."""
    counts.CALLS["dot"] += 1
    narrow = first.dtype in (torch.float16, torch.bfloat16) and first.dtype == second.dtype
    if not narrow or first.dim() != 1 or first.shape != second.shape:
        return _PLAIN_DOT(first, second)
    return (first.to(torch.float32) * second.to(torch.float32)).sum().to(first.dtype)


def _int_mm(self: Any, mat2: Any) -> Any:
    """Return the product of matrices of int8 as int32: doubles hold its sums exactly."""
    counts.CALLS["_int_mm"] += 1
    if self.dtype != torch.int8 or mat2.dtype != torch.int8:
        raise RuntimeError(
            f"Expected self and mat2 to be of type int8, but got {self.dtype} and {mat2.dtype}"
        )
    return torch.mm(self.to(torch.float64), mat2.to(torch.float64)).to(torch.int32)


_PLAIN_DOT: Final = _plain("dot")
_NAMES: Final = ("addmm", "addmm.out", "addmv", "addmv.out", *native.PRODUCTS)
_COMPLEX: Final = {name: Operator(name, frozenset()) for name in _NAMES}
KERNELS: Final = {
    **{name: _plain(name) for name in native.PRODUCTS},
    "dot": _dot,
    **both("_int_mm", "_int_mm.out", _int_mm),
    "addmm": _forward("addmm"),
    "addmm.out": _forward_out("addmm.out"),
    "addmv": _forward("addmv"),
    "addmv.out": _forward_out("addmv.out"),
}
