"""Numbers that PyTorch refuses or limits before an operator computes."""

from collections.abc import Callable
from typing import Any, Final

import torch

_TITLES: Final = {
    torch.uint8: "Byte",
    torch.int8: "Char",
    torch.int16: "Short",
    torch.int32: "Int",
    torch.int64: "Long",
}
_MASK: Final = (
    "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to"
    " invert a mask, use the `~` or `logical_not()` operator instead."
)
_MASKS: Final = (
    "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or"
    " `logical_xor()` operator instead."
)


def _subtraction(values: dict[str, Any]) -> None:
    masks = [
        isinstance(one, bool) or getattr(one, "dtype", None) == torch.bool
        for one in (values["self"], values["other"])
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
    title = _TITLES.get(values["self"].dtype)
    if title is None:
        return
    limits = torch.iinfo(values["self"].dtype)
    for name, far, most in (("min", 1, limits.max), ("max", -1, limits.min)):
        value = values.get(name)
        if type(value) is not int:
            continue
        if value * far > most * far:
            raise RuntimeError(
                f"Clamp {name} value {value} is outside the representable range of {title}"
            )
        values[name] = min(max(value, limits.min), limits.max)


_CONDITIONS: Final[dict[str, Callable[[dict[str, Any]], None]]] = {
    **dict.fromkeys(("sub.Tensor", "sub_.Tensor", "sub.out", "sub.Scalar"), _subtraction),
    **dict.fromkeys(("rsub.Tensor", "rsub.Scalar"), _subtraction),
    **dict.fromkeys(("pow.Tensor_Scalar", "pow.Tensor_Scalar_out", "pow_.Scalar"), _power),
    **dict.fromkeys(("clamp", "clamp_", "clamp.out"), _bounds),
    **dict.fromkeys(("clamp_min", "clamp_min_", "clamp_min.out"), _bounds),
    **dict.fromkeys(("clamp_max", "clamp_max_", "clamp_max.out"), _bounds),
}


def with_conditions(name: str, overload: Any, compute: Callable[..., Any]) -> Callable[..., Any]:
    """Return an operator that meets PyTorch's conditions first, if it has any."""
    condition = _CONDITIONS.get(name)
    if condition is None:
        return compute
    names = tuple(argument.name for argument in overload._schema.arguments)

    def compute_conditioned(*arguments: Any, **keywords: Any) -> Any:
        values = {**dict(zip(names, arguments, strict=False)), **keywords}
        condition(values)
        positional = [values[one] for one in names[: len(arguments)]]
        return compute(*positional, **{one: values[one] for one in keywords})

    return compute_conditioned
