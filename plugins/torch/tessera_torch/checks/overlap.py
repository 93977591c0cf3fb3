"""Whether a call's targets share memory with its inputs in a way that changes its result."""

from collections.abc import Sequence
from typing import Any

import torch

from tessera_torch.layout import is_dense

_MESSAGE = (
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a"
    " single memory location. Please clone() the tensor before performing the operation."
)
_INNER = (
    "unsupported operation: more than one element of the written-to tensor refers to a single"
    " memory location. Please clone() the tensor before performing the operation."
)


def shared_dimensions(tensor: Any) -> list[int]:
    """Return the dimensions along which elements share memory, as those of expanded tensors do."""
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    return [dim for dim, (size, stride) in enumerate(sizes) if size > 1 and not stride]


def check_inner_overlap(targets: Sequence[Any]) -> None:
    """Raise RuntimeError if elements of a target share memory."""
    if any(shared_dimensions(one) for one in targets):
        raise RuntimeError(_INNER)


def check_overlap(targets: Sequence[Any], inputs: Sequence[Any]) -> None:
    """Raise RuntimeError if memory of a target is also another target's, or an input's.

    An input may be the target itself. As in PyTorch, views with gaps are not checked.
    """
    for i, target in enumerate(targets):
        for other in (*targets[i + 1 :], *inputs):
            if other is not target and _overlap(target, other):
                raise RuntimeError(_MESSAGE)


def check_apart(target: Any, inputs: Sequence[Any]) -> None:
    """Raise RuntimeError if memory of a target is also an input's, even all of it in one order."""
    if any(other is target or _overlap(target, other, True) for other in inputs):
        raise RuntimeError(_MESSAGE)


def share_storage(one: Any, other: Any) -> bool:
    """Return whether two tensors are views of one memory, whatever elements of it they have."""
    return bool(one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr())


def _overlap(one: Any, other: Any, counts_same: bool = False) -> bool:
    if not isinstance(other, torch.Tensor) or one.device != other.device:
        return False
    if not share_storage(one, other):
        return False
    if not one.numel() or not other.numel():
        return False
    first, second = one.data_ptr(), other.data_ptr()
    if first == second and one.shape == other.shape and one.stride() == other.stride():
        return counts_same
    if not is_dense(one.shape, one.stride()) or not is_dense(other.shape, other.stride()):
        return False
    ends = (first + one.numel() * one.element_size(), second + other.numel() * other.element_size())
    return bool(first < ends[1] and second < ends[0])
