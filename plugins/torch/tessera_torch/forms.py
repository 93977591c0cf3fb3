"""Formulas for operators whose decomposition wants a Python number: here it is a run-time value."""

from collections.abc import Callable
from typing import Any, Final

import torch

from tessera_torch.formulas.gamma import digamma, polygamma
from tessera_torch.signature import Signature, call_with_numbers, short_name


def _lerp(start: Any, end: Any, weight: Any) -> Any:
    near = start + weight * (end - start)
    return torch.where(weight.abs() < 0.5, near, end - (end - start) * (1 - weight))


def _addcmul(start: Any, first: Any, second: Any, value: Any) -> Any:
    dtype = (start + first * second).dtype
    if not dtype.is_floating_point:
        return start + value * (first * second)
    operands = _widen(dtype, start, first, second, value)
    start, first, second, value = operands
    scaled = _multiply_and_add(value, first * second, start)
    return torch.where(value == 1, _multiply_and_add(first, second, start), scaled)


def _addcdiv(start: Any, first: Any, second: Any, value: Any) -> Any:
    dtype = (start + first / second).dtype
    start, first, second, value = _widen(dtype, start, first, second, value)
    return _multiply_and_add(value, first / second, start)


def _widen(dtype: Any, *operands: Any) -> tuple[Any, ...]:
    """Return operands in the type in which CUDA computes results of another one."""
    inner = torch.float64 if dtype == torch.float64 else torch.float32
    device = operands[0].device
    return tuple(
        operand.to(inner)
        if isinstance(operand, torch.Tensor)
        else torch.full((), operand, dtype=inner, device=device)
        for operand in operands
    )


def _multiply_and_add(first: Any, second: Any, addend: Any) -> Any:
    from torch._inductor import inductor_prims

    return inductor_prims.fma(*torch.broadcast_tensors(first, second, addend))


def _divide(first: Any, second: Any, rounding_mode: str | None) -> Any:
    if rounding_mode == "floor":
        return _divide_integers_down(first, second)
    return torch.ops.aten.div.Tensor_mode(first, second, rounding_mode=rounding_mode)


def _divide_integers_down(first: Any, second: Any) -> Any:
    if torch.result_type(first, second).is_floating_point:
        return _divide_down(first, second)
    if torch.result_type(first, second) == torch.bool:
        return torch.ops.aten.floor_divide.default(first, second)
    # Inductor's own form negates both operands, which the least number does not allow.
    dtype = torch.result_type(first, second)
    first, second = first.to(dtype), second.to(dtype)
    is_zero = second == 0
    divisor = torch.where(is_zero, 1, second)
    quotient = torch.ops.aten.div.Tensor_mode(first, divisor, rounding_mode="trunc")
    goes_down = (first - quotient * divisor != 0) & ((first < 0) != (divisor < 0))
    floored = torch.where(goes_down, quotient - 1, quotient)
    return torch.where(is_zero, 0, floored)


def _divide_down(first: Any, second: Any) -> Any:
    """Return Python's quotient: 1.0 // 0.1 is 9, although 1.0 / 0.1 is rounded to 10."""
    remainder = torch.fmod(first, second)
    quotient = (first - remainder) / second
    quotient = torch.where(
        (remainder != 0) & ((second < 0) != (remainder < 0)), quotient - 1, quotient
    )
    floor = torch.floor(quotient)
    floor = torch.where(quotient - floor > 0.5, floor + 1, floor)
    plain = first / second
    floor = torch.where(quotient == 0, torch.copysign(torch.zeros_like(plain), plain), floor)
    return torch.where(second == 0, plain, floor)


def _take_remainder(first: Any, second: Any) -> Any:
    """Return the exact remainder, also where the quotient has more digits than the type."""
    if not torch.result_type(first, second).is_floating_point:
        return torch.ops.aten.remainder.Tensor(first, second)
    remainder = torch.fmod(first, second)
    return torch.where(
        (remainder != 0) & ((second < 0) != (remainder < 0)), remainder + second, remainder
    )


def _shrink(x: Any, lambd: Any) -> Any:
    """Move numbers towards 0; what is near it becomes the positive 0."""
    near = torch.where(x.isnan(), x, 0)
    return torch.where(x > lambd, x - lambd, torch.where(x < -lambd, x + lambd, near))


def _shift_left(value: Any, amount: Any) -> Any:
    """Shift, or return 0 for an amount that the type's width does not allow.

    PTX takes only the low 32 bits of an amount of 64.
    """
    bits = torch.iinfo(torch.result_type(value, amount)).bits
    if isinstance(amount, int):
        is_inside = 0 <= amount < bits
        return torch.bitwise_left_shift(value, amount) if is_inside else torch.zeros_like(value)
    is_outside = (amount < 0) | (amount >= bits)
    shifted = torch.bitwise_left_shift(value, torch.where(is_outside, 0, amount))
    return torch.where(is_outside, 0, shifted)


def _shift_right(first: Any, second: Any) -> Any:
    """Shift by any distance: outside a number's bits only its sign is left."""
    dtype = torch.result_type(first, second)
    bits = torch.iinfo(dtype).bits
    outside = (second < 0) | (second >= bits)
    last = torch.where(outside, bits - 1, second)
    shifted = torch.bitwise_right_shift(first, last)
    return shifted if dtype.is_signed else torch.where(outside, 0, shifted)


def _differentiate_weight_norm(
    gradient: Any, direction: Any, length: Any, norms: Any, dim: int
) -> Any:
    """Return the gradients of what ``length * direction / norms`` is computed from."""
    wide = gradient.to(norms.dtype), direction.to(norms.dtype), length.to(norms.dtype)
    reduced_dims = [i for i in range(direction.dim()) if i != dim % direction.dim()]
    sums = (wide[0] * wide[1]).sum(reduced_dims, keepdim=True)
    of_direction = wide[2] / norms * (wide[0] - wide[1] * (sums / (norms * norms)))
    return of_direction.to(direction.dtype), (sums / norms).to(length.dtype)


def _with_mean_of_none(operator: Any) -> Callable[..., Any]:
    """Return ``var_mean`` or ``std_mean``, with no number as the mean of no elements, not 0."""

    def compute(x: Any, dim: Any, correction: Any, keepdim: bool) -> Any:
        spread, mean = operator(x, dim, correction=correction, keepdim=keepdim)
        return spread, mean if x.numel() else torch.full_like(mean, torch.nan)

    return compute


def _over_dimensions(operator: Any) -> Callable[..., Any]:
    """Return ``all`` or ``any`` over dimensions: over none of them, each element is one result."""

    def compute(x: Any, dim: Any, keepdim: bool) -> Any:
        if dim is not None and not len(dim):
            return x.ne(0).to(torch.uint8 if x.dtype == torch.uint8 else torch.bool)
        return operator(x, dim, keepdim)

    return compute


def _as_bytes_of_bytes(operator: Any) -> Callable[..., Any]:
    """Return ``any``, of which CUDA's result is bytes for bytes, and not bool."""

    def compute(x: Any, *rest: Any) -> Any:
        if x.dtype != torch.uint8:
            return operator(x, *rest)
        return operator(x != 0, *rest).to(torch.uint8)  # Inductor's result for bytes is bool

    return compute


def _hard_sigmoid(x: Any) -> Any:
    if x.dtype != torch.float64:
        return torch.ops.aten.hardsigmoid.default(x)
    return torch.clamp(x + 3, 0, 6) * _SIXTH


def _hard_swish(x: Any) -> Any:
    if x.dtype != torch.float64:
        return torch.ops.aten.hardswish.default(x)
    return x * torch.clamp(x + 3, 0, 6) * _SIXTH


def _of_rounded_difference(operator: Any) -> Callable[..., Any]:
    """Return a loss whose difference, and whose element, CUDA's kernel rounds to 16-bit floats."""

    def compute(first: Any, second: Any, reduction: int, *rest: Any) -> Any:
        dtype = torch.result_type(first, second)
        if dtype not in (torch.float16, torch.bfloat16):
            return operator(first, second, reduction, *rest)
        from tessera_torch.formulas.narrowing import narrow

        difference = narrow(first.to(torch.float32) - second.to(torch.float32), dtype)
        wide = difference.to(torch.float32)
        loss = narrow(operator(wide, torch.zeros_like(wide), 0, *rest), dtype)
        return loss if not reduction else loss.mean() if reduction == 1 else loss.sum()

    return compute


_SIXTH: Final = float.fromhex("0x1.5555560000000p-3")  # 1/6 as float32, also in CUDA's doubles
_FORMS: Final[dict[str, Callable[..., Any]]] = {
    "_weight_norm_interface_backward": _differentiate_weight_norm,
    **{
        f"{one}.correction": _with_mean_of_none(getattr(torch.ops.aten, one).correction)
        for one in ("var_mean", "std_mean")
    },
    "all.dims": _over_dimensions(torch.ops.aten.all.dims),
    "any": _as_bytes_of_bytes(torch.ops.aten.any.default),
    "any.dim": _as_bytes_of_bytes(torch.ops.aten.any.dim),
    "any.dims": _over_dimensions(_as_bytes_of_bytes(torch.ops.aten.any.dims)),
    "hardsigmoid": _hard_sigmoid,
    "hardswish": _hard_swish,
    **{
        name: _of_rounded_difference(getattr(torch.ops.aten, name).default)
        for name in ("mse_loss", "smooth_l1_loss", "huber_loss")
    },
    "digamma": digamma,
    "polygamma": polygamma,
    "lerp.Scalar": _lerp,
    "lerp.Tensor": _lerp,
    "addcmul": _addcmul,
    "addcdiv": _addcdiv,
    "div.Tensor_mode": _divide,
    "softshrink": _shrink,
    "floor_divide": _divide_integers_down,
    "floor_divide.Scalar": _divide_integers_down,
    "remainder.Scalar": _take_remainder,
    "remainder.Scalar_Tensor": _take_remainder,
    "remainder.Tensor": _take_remainder,
    "__lshift__.Scalar": _shift_left,
    "__lshift__.Tensor": _shift_left,
    "bitwise_left_shift.Tensor": _shift_left,
    "bitwise_left_shift.Tensor_Scalar": _shift_left,
    "__rshift__.Scalar": _shift_right,
    "__rshift__.Tensor": _shift_right,
    "bitwise_right_shift.Tensor": _shift_right,
    "bitwise_right_shift.Tensor_Scalar": _shift_right,
}


def formula(signature: Signature) -> Callable[[list[Any], bool], Any]:
    """Return the function of the functional form's arguments that is compiled.

    Its second argument says whether alpha is a run-time number.
    """
    name = short_name(signature.functional._schema)
    if name in _FORMS:
        own = _FORMS[name]
        signature.numbers = [
            flag or str(a.type) in ("number", "Scalar")
            for flag, a in zip(
                signature.numbers, signature.functional._schema.arguments, strict=True
            )
        ]
        return lambda arguments, scaled: own(*arguments)

    def compute(arguments: list[Any], scaled: bool) -> Any:
        if scaled:
            arguments = list(arguments)
            arguments[1] = arguments[1] * arguments[signature.alpha]
            arguments[signature.alpha] = 1
        return call_with_numbers(signature.call, arguments)

    return compute
