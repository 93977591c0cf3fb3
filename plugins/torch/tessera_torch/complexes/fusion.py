"""Functions of complex tensors as one kernel that reads and writes their parts."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from tessera_torch import pointwise
from tessera_torch.complexes.functions import Pair
from tessera_torch.complexes.parts import COMPLEX_OF

# How an operand reaches the kernel: both parts, perhaps with other signs, or one real tensor.
_SIGNS: Final = {"plain": (1, 1), "conj": (1, -1), "neg": (-1, -1), "neg conj": (-1, 1)}
_REAL: Final = "real"


def compute(
    name: str, function: Callable[..., Pair], operands: Sequence[Any], inner: Any, dtype: Any
) -> Any:
    """Return a new complex tensor of a function's results.

    Args:
        name: names the function: kernels are kept by it.
        function: takes a pair of real tensors for each operand, and returns a pair.
        operands: tensors and Python's numbers, which are broadcast.
        inner: the real type in which the function is computed.
        dtype: the type of the result.
    """
    described = [_describe(operand) for operand in operands]
    kinds = tuple(kind for kind, _ in described)
    parts = [part for _, own in described for part in own]
    tensors = [tensor for tensor in parts if isinstance(tensor, torch.Tensor)]
    shape = torch.broadcast_shapes(*(tensor.shape for tensor in tensors))
    place = next(tensor.device for tensor in tensors if tensor.is_cuda)
    out = torch.empty(shape, dtype=dtype, device=place)
    pairs = torch.view_as_real(out)

    def formula(*arguments: Any) -> Pair:
        remaining = (argument.to(inner) for argument in arguments)
        return function(*(_rebuild(kind, remaining) for kind in kinds))

    targets = (pairs.select(-1, 0), pairs.select(-1, 1))
    pointwise.compute_into(f"{name} (complex)", (kinds, inner), formula, parts, targets)
    return out


def join_parts(real: Any, imag: Any) -> Any:
    """Return a new complex tensor of two real ones of a type, which may need broadcasting."""
    dtype = COMPLEX_OF[real.dtype]
    return compute("join", lambda a, b: (a[0], b[0]), (real, imag), real.dtype, dtype)


def _describe(operand: Any) -> tuple[str, tuple[Any, ...]]:
    if not isinstance(operand, torch.Tensor):
        number = complex(operand)
        return "plain", (number.real, number.imag)
    signs = []
    if operand.is_neg():
        operand = torch._neg_view(operand)
        signs.append("neg")
    if not operand.is_complex():
        return (_REAL, (-operand if signs else operand,))
    if operand.is_conj():
        operand = torch._conj(operand)
        signs.append("conj")
    pairs = torch.view_as_real(operand)
    return " ".join(signs) or "plain", (pairs.select(-1, 0), pairs.select(-1, 1))


def _rebuild(kind: str, remaining: Any) -> Pair:
    if kind == _REAL:
        real = next(remaining)
        return real, torch.zeros_like(real)
    pair = next(remaining), next(remaining)
    real, imag = (
        -part if sign < 0 else part for part, sign in zip(pair, _SIGNS[kind], strict=True)
    )
    return real, imag
