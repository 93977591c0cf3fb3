"""Types and numbers that PyTorch refuses or limits before an operator computes."""

from collections.abc import Callable
from typing import Any, Final

import torch

from tessera_torch.checks import reductions
from tessera_torch.checks.messages import title
from tessera_torch.checks.overlap import share_storage

_INTEGERS: Final = frozenset(
    {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool}
)
_MASK: Final = (
    "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to"
    " invert a mask, use the `~` or `logical_not()` operator instead."
)
_NEGATION: Final = (
    "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a"
    " mask, use the `~` or `logical_not()` operator instead."
)
_MASKS: Final = (
    "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or"
    " `logical_xor()` operator instead."
)


def _subtraction(values: dict[str, Any]) -> None:
    masks = [
        isinstance(operand, bool) or getattr(operand, "dtype", None) == torch.bool
        for operand in (values["self"], values["other"])
    ]
    if any(masks):
        raise NotImplementedError(_MASKS if all(masks) else _MASK)


def _power(values: dict[str, Any]) -> None:
    base, exponent = values["self"], values["exponent"]
    if type(exponent) is not int or exponent >= 0 or not isinstance(base, torch.Tensor):
        return
    if not base.is_floating_point() and not base.is_complex():
        raise RuntimeError("Integers to negative integer powers are not allowed.")


def _bounds(values: dict[str, Any]) -> None:
    """Limit bounds to the type's range. Raises RuntimeError if no number is within them."""
    dtype = values["self"].dtype
    if dtype not in _INTEGERS or dtype == torch.bool:
        return
    limits = torch.iinfo(dtype)
    for name, far, extreme in (("min", 1, limits.max), ("max", -1, limits.min)):
        value = values.get(name)
        if type(value) is not int:
            continue
        if value * far > extreme * far:
            raise RuntimeError(
                f"Clamp {name} value {value} is outside the representable range of {title(dtype)}"
            )
        values[name] = min(max(value, limits.min), limits.max)


def _negation(values: dict[str, Any]) -> None:
    if values["self"].dtype == torch.bool:
        raise NotImplementedError(_NEGATION)


def _bits(values: dict[str, Any]) -> None:
    for name in ("self", "other"):
        operand = values.get(name)
        if isinstance(operand, torch.Tensor) and operand.dtype not in _INTEGERS:
            raise _not_implemented("bitwise operators", operand)


def _shift(name: str) -> Callable[[dict[str, Any]], None]:
    def check(values: dict[str, Any]) -> None:
        for operand in (values.get("self"), values.get("other")):
            if isinstance(operand, torch.Tensor) and operand.dtype not in _INTEGERS - {torch.bool}:
                raise _not_implemented(name, operand)

    return check


def check_parts(real: Any, imag: Any) -> None:
    """Raise RuntimeError if two tensors cannot be the parts of complex numbers."""
    first, second = real.dtype, imag.dtype
    if not (first.is_floating_point and second.is_floating_point):
        raise RuntimeError(
            "Expected both inputs to be Half, Float or Double tensors but got"
            f" {title(first)} and {title(second)}"
        )
    if first != second:
        raise RuntimeError(
            f"Expected object of scalar type {title(first)} but got scalar type {title(second)}"
            " for second argument"
        )


def _norm(values: dict[str, Any]) -> None:
    """Refuse integers; count dimensions from the first, as the formula for no elements does."""
    dtype, rank, dims = values["self"].dtype, values["self"].dim(), values.get("dim")
    if dims and all(-rank <= dim < rank for dim in dims):
        values["dim"] = [dim % rank for dim in dims]
    if dtype in _INTEGERS:
        raise NotImplementedError(
            "linalg.vector_norm: Expected a floating point or complex tensor as input. Got"
            f" {title(dtype)}"
        )


def _of_spread(text: str) -> Callable[[dict[str, Any]], None]:
    def check(values: dict[str, Any]) -> None:
        if values["self"].dtype in _INTEGERS:
            raise NotImplementedError(f"{text} only support floating point and complex dtypes")

    return check


def _rectified(values: dict[str, Any]) -> None:
    if values["self"].dtype == torch.bool:
        raise NotImplementedError("Boolean inputs not supported for relu")


def _filled_with(values: dict[str, Any]) -> None:
    """Take a copy of a value that may be an element of the target."""
    if share_storage(values["self"], values["value"]):
        values["value"] = values["value"].clone()


def _boundaries(values: dict[str, Any]) -> None:
    boundaries = values["boundaries"]
    if boundaries.dim() != 1:
        raise RuntimeError(
            f"boundaries tensor must be 1 dimension, but got dim({boundaries.dim()})"
        )


def _filled(values: dict[str, Any]) -> None:
    if values["index"].dtype != torch.int64:
        raise IndexError("index_fill_(): Expected dtype int64 for index.")


def _loss(values: dict[str, Any]) -> None:
    scores, target = values["self"], values["target"]
    if not 1 <= scores.dim() <= 2:
        raise RuntimeError("input tensor should be 1D or 2D")
    if target.dim() > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if target.dtype not in (torch.int64, torch.uint8):
        raise RuntimeError(
            f"expected target dtype to be Long or Byte, but got {title(target.dtype)}"
        )


def _pool(values: dict[str, Any]) -> None:
    tensor = values["self"]
    if tensor.dim() not in (3, 4):
        raise RuntimeError("non-empty 3D or 4D (batch mode) tensor expected for input")
    _of_floats("max_pool2d")(values)


def _copied(values: dict[str, Any]) -> None:
    target, dim, index, source = (values[name] for name in ("self", "dim", "index", "source"))
    rank = max(source.dim(), 1)
    size = source.shape[dim] if source.dim() and -rank <= dim < rank else 1
    if index.dim() == 1 and target.dim() and index.numel() != size:
        raise IndexError(
            f"index_copy_(): Number of indices ({index.numel()}) should be equal to"
            f" source.size(dim) ({size})"
        )


def _added(values: dict[str, Any]) -> None:
    tensor, dim, index, source = (values[name] for name in ("self", "dim", "index", "source"))
    if index.dim() > 1:
        raise IndexError(
            f"index_add_(): Index is supposed to be a vector, but got dim: {index.dim()} with type:"
            f" {title(index.dtype)} and size: {list(index.shape)}"
        )
    if index.dtype not in (torch.int32, torch.int64):
        raise RuntimeError(
            f"index_add_(): Expected dtype int32/int64 for index but got: {title(index.dtype)}"
        )
    if tensor.dtype != source.dtype:
        raise RuntimeError(
            f"index_add_(): self ({title(tensor.dtype)}) and source ({title(source.dtype)}) must"
            " have the same scalar type"
        )
    rank = max(tensor.dim(), 1)
    if not -rank <= dim < rank or dim % rank >= max(source.dim(), 1):
        return  # refused by the operator's shape function
    dim %= rank
    if index.numel() != (source.shape[dim] if source.dim() else 1):
        return  # likewise
    sizes = [list(tensor.shape), list(source.shape)]
    if tensor.dim() and source.dim():
        for shape in sizes:
            del shape[dim]
    if sizes[0] != sizes[1]:
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension."
            f" Got self.shape = {list(tensor.shape)} source.shape = {list(source.shape)}"
        )


def _not_implemented(name: str, tensor: Any) -> NotImplementedError:
    return NotImplementedError(f"\"{name}\" not implemented for '{title(tensor.dtype)}'")


def _of_floats(name: str, *allowed: Any) -> Callable[[dict[str, Any]], None]:
    def check(values: dict[str, Any]) -> None:
        for operand in values.values():
            if isinstance(operand, torch.Tensor):
                if operand.dtype in _INTEGERS and operand.dtype not in allowed:
                    raise _not_implemented(name, operand)
                return

    return check


def _of_wide_floats(name: str) -> Callable[[dict[str, Any]], None]:
    def check(values: dict[str, Any]) -> None:
        for value in values.values():
            if isinstance(value, torch.Tensor) and value.dtype in (torch.float16, torch.bfloat16):
                raise _not_implemented(name, value)

    return check


# Operators that PyTorch has for floating point only on a GPU, although a kernel for integers
# could be compiled; without their suffixes. Programs and tests rely on the error.
_OF_FLOATS: Final = (
    "gelu",
    "silu",
    "mish",
    "elu",
    "softplus",
    "hardswish",
    "hardsigmoid",
    "leaky_relu",
    "log_sigmoid_forward",
    "softshrink",
    "hardshrink",
    "glu",
    "_softmax",
    "_log_softmax",
    "native_layer_norm",
    "native_group_norm",
    "frac",
    "logaddexp",
    "logaddexp2",
    "hypot",
    "nextafter",
    "avg_pool2d",
    "avg_pool3d",
    "_adaptive_avg_pool2d",
    "_adaptive_avg_pool3d",
    "upsample_linear1d",
    "upsample_bilinear2d",
    "upsample_trilinear3d",
    "upsample_bicubic2d",
    "mse_loss",
    "smooth_l1_loss",
    "huber_loss",
    "binary_cross_entropy",
    "im2col",
    "renorm",
    "max_pool3d_with_indices",
    "_prelu_kernel",
    "grid_sampler_2d",
    "grid_sampler_3d",
    "native_dropout_backward",
    "logcumsumexp",
)
_NEAREST: Final = tuple(
    f"{kind}{rank}d"
    for kind in ("upsample_nearest", "_upsample_nearest_exact")
    for rank in (1, 2, 3)
)
_CONDITIONS: Final[dict[str, Callable[[dict[str, Any]], None]]] = {
    **dict.fromkeys(("sub.Tensor", "sub_.Tensor", "sub.out", "sub.Scalar"), _subtraction),
    **dict.fromkeys(("rsub.Tensor", "rsub.Scalar"), _subtraction),
    **dict.fromkeys(("pow.Tensor_Scalar", "pow.Tensor_Scalar_out", "pow_.Scalar"), _power),
    **dict.fromkeys(("clamp", "clamp_", "clamp.out"), _bounds),
    **dict.fromkeys(("clamp_min", "clamp_min_", "clamp_min.out"), _bounds),
    **dict.fromkeys(("clamp_max", "clamp_max_", "clamp_max.out"), _bounds),
    **dict.fromkeys(("neg", "neg_", "neg.out"), _negation),
    **dict.fromkeys(("linalg_vector_norm", "linalg_vector_norm.out"), _norm),
    "masked_fill_.Tensor": _filled_with,
    **dict.fromkeys(("bucketize.Tensor", "bucketize.Tensor_out"), _boundaries),
    **dict.fromkeys(("nll_loss_forward", "nll_loss_forward.output"), _loss),
}
# For all overloads and the in-place form of an operator.
_OF_ALL_FORMS: Final[dict[str, Callable[[dict[str, Any]], None]]] = {
    **{name: _of_floats(name) for name in _OF_FLOATS},
    **{name: _of_floats(name, torch.uint8) for name in _NEAREST},
    **dict.fromkeys(("var", "std"), _of_spread("std and var")),
    **{name: _of_spread(name) for name in ("var_mean", "std_mean")},
    "relu": _rectified,
    "max_pool2d_with_indices": _pool,
    "index_copy": _copied,
    "index_add": _added,
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"), _bits),
    **dict.fromkeys(("bitwise_left_shift", "__lshift__", "__ilshift__"), _shift("lshift_cuda")),
    **dict.fromkeys(("bitwise_right_shift", "__rshift__", "__irshift__"), _shift("rshift_cuda")),
    **reductions.CONDITIONS,
    "index_fill": _filled,
}
# Of kernels that Tessera has for 16-bit types, and PyTorch's CUDA kernels do not.
_OF_WIDE_FLOATS: Final[dict[str, Callable[[dict[str, Any]], None]]] = {
    "histc": _of_wide_floats("histc"),
    "_cdist_forward": _of_wide_floats("cdist_cuda"),
    "_ctc_loss": _of_wide_floats("ctc_loss_cuda"),
}


def _of_all_forms(base: str) -> str:
    return base if base.endswith("__") else base.removesuffix("_")


def with_conditions(name: str, overload: Any, compute: Callable[..., Any]) -> Callable[..., Any]:
    """Return an operator that meets PyTorch's conditions first, if it has any."""
    base = name.partition(".")[0]
    condition = _CONDITIONS.get(name) or _OF_ALL_FORMS.get(_of_all_forms(base))
    return _conditioned(condition, overload, compute)


def with_wide_floats(name: str, overload: Any, compute: Callable[..., Any]) -> Callable[..., Any]:
    """Return an operator that refuses 16-bit types if PyTorch's CUDA kernel does."""
    return _conditioned(_OF_WIDE_FLOATS.get(name.partition(".")[0]), overload, compute)


def _conditioned(
    condition: Callable[[dict[str, Any]], None] | None, overload: Any, compute: Callable[..., Any]
) -> Callable[..., Any]:
    if condition is None:
        return compute
    names = tuple(argument.name for argument in overload._schema.arguments)

    def compute_conditioned(*arguments: Any, **keywords: Any) -> Any:
        values = {**dict(zip(names, arguments, strict=False)), **keywords}
        condition(values)
        positional = [values[name] for name in names[: len(arguments)]]
        return compute(*positional, **{name: values[name] for name in keywords})

    return compute_conditioned
