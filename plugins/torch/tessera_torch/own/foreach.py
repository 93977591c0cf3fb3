"""Operators on lists of tensors: PyTorch's general form, one operator for each tensor.

CUDA's kernels of lists differ from its operators in quotients and powers by numbers: they divide,
where the operator multiplies by the reciprocal, and take the exponent in the type in which they
compute (ForeachBinaryOpScalar.cu: ``std::divides``, ``power_functor``).
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from tessera_torch import counts, pointwise
from tessera_torch.layout import is_dense

_KEYS: Final = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)
_HALF: Final = frozenset({torch.float16, torch.bfloat16})


def kernels() -> dict[str, Callable[..., Any]]:
    """Return a kernel for each list operator that has one for CUDA and one for the CPU."""
    kernels_by_name = {}
    for full in torch._C._dispatch_get_registrations_for_dispatch_key("CUDA"):
        name = full.removeprefix("aten::")
        if name.startswith("_foreach_"):
            kernels_by_name[name] = _with_numbers(name, _forward(name))
    return kernels_by_name


def opmath(dtype: Any) -> Any:
    """Return the type in which CUDA's kernels compute."""
    return torch.float32 if dtype in _HALF else dtype


def _forward(name: str) -> Callable[..., Any]:
    kernels: list[Any] = []

    def compute(*arguments: Any, **keywords: Any) -> Any:
        counts.CALLS[name] += 1
        if not kernels:
            kernels.append(torch.library.get_kernel(f"aten::{name}", "CPU"))
        return kernels[0].call_boxed(_KEYS, *arguments, **keywords)

    return compute


def _divide(first: Any, second: Any) -> Any:
    return first / second


_FUNCTIONS: Final = {"_foreach_div": _divide, "_foreach_pow": torch.pow}
_OVERLOADS: Final = frozenset({"Scalar", "ScalarList", "ScalarAndTensor", "Tensor"})


def _with_numbers(name: str, general: Callable[..., Any]) -> Callable[..., Any]:
    """Return a list operator whose numbers reach CUDA's own kernel, if it is one of these."""
    base, _, overload = name.partition(".")
    function = _FUNCTIONS.get(base.removesuffix("_"))
    if function is None or overload not in _OVERLOADS:
        return general
    writes = base.endswith("_")

    def compute(first: Any, second: Any) -> Any:
        is_reversed = overload == "ScalarAndTensor"
        tensors, scalars = (second, first) if is_reversed else (first, second)
        numbers = _numbers(scalars, len(tensors))
        if numbers is None or not _is_fast(tensors):
            return general(first, second)
        counts.CALLS[name] += 1
        targets = tensors if writes else [torch.empty_like(tensor) for tensor in tensors]
        for tensor, number, target in zip(tensors, numbers, targets, strict=True):
            inner = opmath(tensor.dtype)

            def formula(*operands: Any, inner: Any = inner) -> Sequence[Any]:
                return (function(*(operand.to(inner) for operand in operands)),)

            inputs = (number, tensor) if is_reversed else (tensor, number)
            pointwise.compute_into(name, inner, formula, inputs, (target,))
        if not writes:
            return targets
        torch.autograd.graph.increment_version(tensors)
        return None

    return compute


def _numbers(scalars: Any, count: int) -> list[Any] | None:
    """Return a real number for each of the tensors, or None if a kernel is given no numbers."""
    if isinstance(scalars, torch.Tensor):
        if scalars.is_cuda or scalars.numel() != 1:
            return None
        scalars = scalars.item()
    numbers = list(scalars) if isinstance(scalars, (list, tuple)) else [scalars] * count
    if len(numbers) != count or any(isinstance(number, complex) for number in numbers):
        return None
    return [int(number) if isinstance(number, bool) else number for number in numbers]


def _is_fast(tensors: Sequence[Any]) -> bool:
    """Return whether CUDA has one kernel for all tensors, and not an operator for each."""
    return all(
        tensor.is_floating_point()
        and tensor.dtype == tensors[0].dtype
        and tensor.device == tensors[0].device
        and is_dense(tensor.shape, tensor.stride())
        for tensor in tensors
    )
