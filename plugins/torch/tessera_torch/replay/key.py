"""What the launches of a call depend on, as one tuple; made at each call, so it is written flat."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch

CONSTANT, RUN_TIME, ALPHA = 0, 1, 2  # how a kernel gets a number; alpha is constant where it is 1
_Tensor: Final = torch.Tensor
_default: Final = torch.get_default_dtype
_SCALARS: Final = (int, float, bool)
Described = tuple[tuple[Any, ...], list[Any], list[Any]]


def describe(
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
    kinds: Sequence[int],
    kinds_by_name: Mapping[str, int],
) -> Described | None:
    """Return a call's key, its tensors on devices, and its numbers that kernels get at run time.

    Returns None for a call that cannot be repeated: with complex numbers, or tensors of the CPU
    that have dimensions.
    """
    key: list[Any] = [_default()]
    tensors: list[Any] = []
    numbers: list[Any] = []
    if keywords:
        key.append(tuple(keywords))
        kinds = [*kinds[: len(arguments)], *(kinds_by_name[name] for name in keywords)]
        arguments = [*arguments, *keywords.values()]
    for argument, kind in zip(arguments, kinds, strict=False):
        if isinstance(argument, _Tensor):
            place = argument.get_device()
            if place >= 0:
                tensors.append(argument)
                key += (
                    argument.dtype,
                    argument.shape,
                    argument.stride(),
                    place,
                    argument.data_ptr() & 15,
                )
                continue
            if argument.dim():
                return None
            numbers.append(argument.item())
            key.append((argument.dtype, None))
        elif argument is None:
            key.append(None)
        elif not _add_value(argument, kind, key, tensors, numbers):
            return None
    if len(tensors) == 2:
        if tensors[0] is tensors[1]:
            key.append("same")
    elif len(tensors) > 2:
        ids = [id(tensor) for tensor in tensors]
        if len(set(ids)) < len(ids):
            key.append(tuple(ids.index(identity) for identity in ids))
    return tuple(key), tensors, numbers


def _add_value(
    argument: Any, kind: int, key: list[Any], tensors: list[Any], numbers: list[Any]
) -> bool:
    """Add an argument that is no tensor; return whether a call with it can be repeated."""
    if argument.__class__ in _SCALARS:
        if is_number(argument, kind):
            numbers.append(argument)
            key.append(argument.__class__)
        else:
            key.append((argument.__class__, _constant(argument)))
    elif isinstance(argument, (list, tuple)):
        key.append(len(argument))
        for item in argument:
            if not isinstance(item, _Tensor):
                key.append(item)
                continue
            place = item.get_device()
            if place < 0:
                return False
            tensors.append(item)
            key += (item.dtype, item.shape, item.stride(), place, item.data_ptr() & 15)
    else:
        key.append(argument)
    return argument.__class__ is not complex


def is_number(argument: Any, kind: int) -> bool:
    """Return whether ``describe`` returns an argument as a number."""
    if isinstance(argument, torch.Tensor):
        return not argument.is_cuda
    return argument.__class__ in (int, float) and (
        kind == RUN_TIME or (kind == ALPHA and argument != 1)
    )


def _constant(number: Any) -> Any:
    """Return a number as it distinguishes keys: -0.0 equals 0.0, and a NaN not itself."""
    return number if number and number == number else repr(number)
