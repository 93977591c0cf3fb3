"""Formulas for operators whose decomposition wants a Python number: here it is a run-time value."""

from collections.abc import Callable
from typing import Any, Final

import torch

from tessera_torch.signature import Signature, call_with_numbers, short_name


def _lerp(start: Any, end: Any, weight: Any) -> Any:
    near = start + weight * (end - start)
    return torch.where(weight.abs() < 0.5, near, end - (end - start) * (1 - weight))


def _addcmul(start: Any, first: Any, second: Any, value: Any) -> Any:
    return start + value * (first * second)


def _addcdiv(start: Any, first: Any, second: Any, value: Any) -> Any:
    return start + value * (first / second)


_FORMS: Final[dict[str, Callable[..., Any]]] = {
    "lerp.Scalar": _lerp,
    "addcmul": _addcmul,
    "addcdiv": _addcdiv,
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
