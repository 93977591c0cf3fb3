"""Matrix products of complex tensors by products of real ones."""

from collections.abc import Callable
from typing import Any, Final

import torch

from tessera_torch.complexes.elementwise import add, multiply
from tessera_torch.complexes.parts import join, split


def _product(name: str) -> Callable[[Any, Any], Any]:
    def compute(first: Any, second: Any) -> Any:
        if first.dtype != second.dtype:
            raise RuntimeError(
                f"expected m1 and m2 to have the same dtype, but got: {first.dtype} !="
                f" {second.dtype}"
            )
        function = getattr(torch, name)
        a, b = split(first), split(second)
        real = function(a[0], b[0]) - function(a[1], b[1])
        return join(real, function(a[0], b[1]) + function(a[1], b[0]), first.dtype)

    return compute


_MM: Final = _product("mm")
_BMM: Final = _product("bmm")
_DOT: Final = _product("dot")


def _with_addend(product: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def compute(self: Any, first: Any, second: Any, beta: Any = 1, alpha: Any = 1) -> Any:
        result = product(first, second)
        if alpha != 1:
            result = multiply(result, alpha)
        if beta == 0:
            return result
        return add(result, self if beta == 1 else multiply(self, beta)).to(self.dtype)

    return compute


def _mv(self: Any, vec: Any) -> Any:
    return _MM(self, vec.unsqueeze(-1)).squeeze(-1)


_ADDMM: Final = _with_addend(_MM)
_ADDMV: Final = _with_addend(_mv)
_BADDBMM: Final = _with_addend(_BMM)
OPERATORS: Final[dict[str, Callable[..., Any]]] = {
    "mm": lambda self, mat2: _MM(self, mat2),
    "bmm": lambda self, mat2: _BMM(self, mat2),
    "dot": lambda self, tensor: _DOT(self, tensor),
    "vdot": lambda self, other: _DOT(self.conj(), other),
    "mv": _mv,
    "addmm": lambda self, mat1, mat2, beta=1, alpha=1: _ADDMM(self, mat1, mat2, beta, alpha),
    "addmv": lambda self, mat, vec, beta=1, alpha=1: _ADDMV(self, mat, vec, beta, alpha),
    "baddbmm": lambda self, batch1, batch2, beta=1, alpha=1: _BADDBMM(
        self, batch1, batch2, beta, alpha
    ),
}
