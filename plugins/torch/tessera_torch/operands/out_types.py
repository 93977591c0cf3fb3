"""The types of out= tensors, as PyTorch checks them before an operator computes.

Element-wise operators, and some others, convert their result to a type that can hold it; sums and
means are computed in the target's type; all others need exactly the type of their result.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from tessera_torch.checks.messages import title
from tessera_torch.inference import NotInferred, infer
from tessera_torch.nesting import Nested
from tessera_torch.operands.rules import OF_ONE_TYPE
from tessera_torch.signature import Signature

_KEPT: Final = 1024
_COMPUTED_IN_TARGET: Final = frozenset({"sum", "nansum", "prod", "mean", "cumsum", "cumprod"})
# Operators that are no loops over elements, and convert their result like those that are.
_CONVERTED: Final = frozenset(
    {
        "cat",
        "_cat",
        "stack",
        "_stack",
        "_chunk_cat",
        "copy",
        "_copy_from",
        "addr",
        "var",
        "std",
        "logsumexp",
        "softmax",
        "log_softmax",
        "bernoulli",
        "normal",
        "cholesky_inverse",
        "cholesky_solve",
        "geqrf",
        "linalg_householder_product",
        "linalg_eig",
        "linalg_eigvals",
        "linalg_lstsq",
        "linalg_pinv",
        "floor_divide",
        "eye",
        "arange",
        "range",
        "linspace",
        "logspace",
        "full",
        "zeros",
        "ones",
        "empty",
        "rand",
        "randn",
        "randint",
        "randperm",
        "fill",
        "masked_fill",
    }
)
# PyTorch's own kernels compute these.
_CHECKED_BY_PYTORCH: Final = frozenset(
    {"mm", "bmm", "addmm", "addmv", "baddbmm", "dot", "vdot", "_addmm_activation"}
)
# Texts of operators that check the type themselves.
_OWN_MESSAGES: Final = {
    **{
        name: f"{name} does not support non-boolean outputs."
        for name in ("isposinf", "isneginf", "signbit")
    },
    "heaviside": "heaviside is not yet implemented for tensors with different dtypes.",
}
_BYTES_FOR_BOOL: Final = frozenset({"all", "any"})
# Results of operators whose shape function needs the elements.
_OF_DATA: Final[dict[str, Callable[[Sequence[Any]], Any]]] = {
    "nonzero": lambda inputs: (torch.int64,),
    "masked_select": lambda inputs: (inputs[0].dtype,),
}
_TITLES: Final = {
    torch.bool: "bool",
    torch.uint8: "unsigned char",
    torch.int8: "signed char",
    torch.int16: "short int",
    torch.int32: "int",
    torch.int64: "long int",
    torch.float16: "c10::Half",
    torch.bfloat16: "c10::BFloat16",
    torch.float32: "float",
    torch.float64: "double",
    torch.complex64: "c10::complex<float>",
    torch.complex128: "c10::complex<double>",
}


def with_out_types(name: str, overload: Any, compute: Callable[..., Any]) -> Callable[..., Any]:
    """Return an operator that checks the types of its out= tensors first, if it has any."""
    base = name.partition(".")[0]
    written = [argument for argument in overload._schema.arguments if argument.is_out]
    is_free = base in _CONVERTED or base in _CHECKED_BY_PYTORCH
    if not written or is_free or any(str(output.type) != "Tensor" for output in written):
        return compute
    return _Checked(base, overload, compute)


class _Checked:
    def __init__(self, base: str, overload: Any, compute: Callable[..., Any]) -> None:
        self._base = base
        self._overload = overload
        self._compute = compute
        self._signature: Signature | None = None
        self._types: dict[Any, Any] = {}

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Compute. Raises RuntimeError for an out= tensor of another type than the result's."""
        signature = self._signature
        if signature is None:
            signature = self._signature = Signature(self._overload)
        if signature.functional is None:
            return self._compute(*arguments, **keywords)
        full = signature.bind(arguments, keywords)
        targets = signature.targets(full)
        if not all(isinstance(target, torch.Tensor) for target in targets):
            return self._compute(*arguments, **keywords)
        if signature.is_pointwise:
            inputs = signature.without_targets(full)
            has_complex = any(isinstance(x, torch.Tensor) and x.is_complex() for x in inputs)
            if self._base in OF_ONE_TYPE and not has_complex:
                self._check_one_type(signature, full, targets)
            elif not has_complex and targets[0].is_complex():
                return _widen(signature, inputs, targets[0])
            return self._compute(*arguments, **keywords)
        if self._base in _COMPUTED_IN_TARGET and "dtype" in signature.names:
            if keywords.get("dtype") is None and "dtype" in signature.names[len(arguments) :]:
                keywords = {**keywords, "dtype": targets[0].dtype}
            return self._compute(*arguments, **keywords)
        expected = self._infer(signature, full)
        for target, dtype in zip(targets, expected or (), strict=False):
            is_mask = self._base in _BYTES_FOR_BOOL and target.dtype == torch.uint8
            if dtype is not None and target.dtype != dtype and not is_mask:
                raise RuntimeError(
                    f"Expected out tensor to have dtype {_title(dtype)}, but got"
                    f" {_title(target.dtype)} instead"
                )
        return self._compute(*arguments, **keywords)

    def _check_one_type(
        self, signature: Signature, full: Sequence[Any], targets: Sequence[Any]
    ) -> None:
        for target, dtype in zip(targets, self._infer(signature, full) or (), strict=False):
            if dtype is not None and target.dtype != dtype:
                text = f"Found dtype {title(target.dtype)} but expected {title(dtype)}"
                raise RuntimeError(_OWN_MESSAGES.get(self._base, text))

    def _infer(self, signature: Signature, full: Sequence[Any]) -> Any:
        """Return the results' types, or None where they are not known."""
        inputs = signature.without_targets(full)
        if self._base in _OF_DATA:
            return _OF_DATA[self._base](inputs)
        key = tuple(_kind(argument) for argument in inputs)
        if key not in self._types:
            try:
                dtypes = infer(Signature(signature.functional), inputs)
            except Nested:
                raise
            except (NotInferred, RuntimeError, IndexError, TypeError, ValueError, AssertionError):
                return None  # the operator itself raises the error of wrong arguments
            if len(self._types) >= _KEPT:
                self._types.clear()
            self._types[key] = dtypes
        return self._types[key]


def _widen(signature: Signature, inputs: Sequence[Any], target: Any) -> Any:
    """Compute real numbers, and write them into a tensor of complex numbers."""
    pairs = list(zip(signature.functional._schema.arguments, inputs, strict=True))
    positional = [value for argument, value in pairs if not argument.kwarg_only]
    named = {argument.name: value for argument, value in pairs if argument.kwarg_only}
    numbers = signature.functional(*positional, **named)
    if target.shape != numbers.shape:
        target.resize_(numbers.shape)
    return target.copy_(numbers)


def _kind(argument: Any) -> Any:
    if isinstance(argument, torch.Tensor):
        return argument.dtype
    return (
        tuple(_kind(x) for x in argument) if isinstance(argument, (list, tuple)) else repr(argument)
    )


def _title(dtype: Any) -> str:
    return _TITLES.get(dtype, str(dtype).removeprefix("torch."))
