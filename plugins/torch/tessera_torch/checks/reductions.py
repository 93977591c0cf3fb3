"""Reductions of tensors without elements, which PyTorch refuses where no result exists."""

from collections.abc import Callable
from typing import Any, Final

_EXTREMES: Final = ("max", "min", "amax", "amin", "aminmax")
_HINT: Final = " Specify the reduction dim with the 'dim' argument."


def _along(name: str, tensor: Any, dim: int) -> None:
    rank = tensor.dim()
    if rank and -rank <= dim < rank and not tensor.shape[dim]:
        raise IndexError(f"{name}(): Expected reduction dim {dim} to have non-zero size.")


def _whole(name: str, hint: str, kind: type[Exception]) -> Exception:
    return kind(f"{name}(): Expected reduction dim to be specified for input.numel() == 0.{hint}")


def _over_all_or_one(name: str, hint: str, kind: type[Exception]) -> Callable[[Any], None]:
    """Return the check of an operator with an optional dimension, or a list of them."""

    def check(values: dict[str, Any]) -> None:
        tensor, dim = values["self"], values.get("dim")
        if tensor.numel():
            return
        if dim is None or dim == () or dim == []:
            raise _whole(name, hint, kind)
        for axis in dim if isinstance(dim, (list, tuple)) else (dim,):
            _along(name, tensor, axis)

    return check


def _over_one(name: str) -> Callable[[Any], None]:
    """Return the check of an operator that has a result for no element without a dimension."""

    def check(values: dict[str, Any]) -> None:
        tensor = values["self"]
        if not tensor.numel() and isinstance(values.get("dim"), int):
            _along(name, tensor, values["dim"])

    return check


CONDITIONS: Final = {
    **{name: _over_all_or_one(name, _HINT, RuntimeError) for name in _EXTREMES},
    **{name: _over_all_or_one(name, "", IndexError) for name in ("argmax", "argmin")},
    **{name: _over_one(name) for name in ("median", "nanmedian", "mode", "kthvalue")},
}
"""The checks by operator, without the names of overloads."""
