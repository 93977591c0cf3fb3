"""Checks of indices on the host: a kernel would read or write memory of other tensors."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from tessera_torch import settings

Values = dict[str, Any]


def find_outside(index: Any, low: int, size: int, ignored: int | None = None) -> int | None:
    """Return an index outside [low, size), or None; None also while a CUDA graph is captured."""
    if not settings.checks_indices() or not index.numel():
        return None
    if index.is_cuda and torch.cuda.is_current_stream_capturing():
        return None
    host = index.cpu()
    if ignored is not None:
        host = host[host != ignored]
        if not host.numel():
            return None
    smallest, largest = (int(extreme) for extreme in host.aminmax())
    return smallest if smallest < low else largest if largest >= size else None


def check_position(index: Any, low: int, size: int, dim: int, error: type[Exception]) -> None:
    """Raise PyTorch's error if an index is outside a dimension."""
    outside_index = find_outside(index, low, size)
    if outside_index is not None:
        raise error(f"index {outside_index} is out of bounds for dimension {dim} with size {size}")


def check_positions(tensor: Any, indices: Sequence[Any]) -> None:
    """Check one tensor of integers, or None, for each dimension. Raises IndexError."""
    for dim, (index, size) in enumerate(zip(indices, tensor.shape, strict=False)):
        if index is not None:
            check_position(index, -size, size, dim, IndexError)


def check_dimension(tensor: Any, dim: int, index: Any) -> None:
    """Check the index of gather or scatter. Raises RuntimeError, as PyTorch does."""
    rank = max(tensor.dim(), 1)
    if -rank <= dim < rank:
        dim %= rank
        check_position(index, 0, _size(tensor, dim), dim, RuntimeError)


def _size(tensor: Any, dim: int) -> int:
    return int(tensor.shape[dim]) if tensor.dim() else 1


def _gather(values: Values) -> None:
    check_dimension(values["self"], values["dim"], values["index"])


def _along(low_is_negative: bool, text: str) -> Callable[[Values], None]:
    def check(values: Values) -> None:
        tensor, dim = values["self"], values["dim"]
        rank = max(tensor.dim(), 1)
        if not -rank <= dim < rank:
            return
        size = _size(tensor, dim % rank)
        outside_index = find_outside(values["index"], -size if low_is_negative else 0, size)
        if outside_index is not None:
            raise IndexError(text.format(index=outside_index, dim=dim % rank, size=size))

    return check


def _flat(values: Values) -> None:
    size = values["self"].numel()
    outside_index = find_outside(values["index"], -size, size)
    if outside_index is not None:
        raise IndexError(
            f"out of range: tried to access index {outside_index} on a tensor of {size} elements."
        )


def _embedding(values: Values) -> None:
    if find_outside(values["indices"], 0, values["weight"].shape[0]) is not None:
        raise IndexError("index out of range in self")


def _loss(values: Values) -> None:
    scores = values["self"]
    if not scores.dim():
        return
    classes = scores.shape[1 if scores.dim() > 1 else 0]
    outside_index = find_outside(values["target"], 0, classes, values["ignore_index"])
    if outside_index is not None:
        raise IndexError(f"Target {outside_index} is out of bounds.")


_IN_SELF: Final = _along(False, "index out of range in self")
_COPIED: Final = _along(
    False, "index_copy_(): index {index} is out of bounds for dimension {dim} with size {size}"
)
_FILLED: Final = _along(True, "index {index} is out of bounds for dimension {dim} with size {size}")
_CHECKS: Final[dict[str, Callable[[Values], None]]] = {
    "gather": _gather,
    "index_select": _IN_SELF,
    "index_add": _IN_SELF,
    "index_add_": _IN_SELF,
    "index_copy": _COPIED,
    "index_copy_": _COPIED,
    "index_fill": _FILLED,
    "index_fill_": _FILLED,
    "take": _flat,
    "put_": _flat,
    "embedding": _embedding,
    "nll_loss_forward": _loss,
    "nll_loss2d_forward": _loss,
}


def with_checks(name: str, overload: Any, compute: Callable[..., Any]) -> Callable[..., Any]:
    """Return an operator that checks its indices first, if it has any."""
    check = _CHECKS.get(name.partition(".")[0])
    if check is None:
        return compute
    defaults = {a.name: a.default_value for a in overload._schema.arguments}
    names = tuple(defaults)

    def compute_checked(*arguments: Any, **keywords: Any) -> Any:
        check({**defaults, **dict(zip(names, arguments, strict=False)), **keywords})
        return compute(*arguments, **keywords)

    return compute_checked
