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
    if any(shared_dimensions(target) for target in targets):
        raise RuntimeError(_INNER)


def check_overlap(targets: Sequence[Any], inputs: Sequence[Any]) -> None:
    """Raise RuntimeError if memory of a target is also another target's, or an input's.

    An input may be the target itself. As in PyTorch, views with gaps are not checked.
    """
    for i, target in enumerate(targets):
        for operand in (*targets[i + 1 :], *inputs):
            if operand is not target and _overlap(target, operand):
                raise RuntimeError(_MESSAGE)


def check_apart(target: Any, inputs: Sequence[Any]) -> None:
    """Raise RuntimeError if memory of a target is also an input's, even all of it in one order."""
    if any(operand is target or _overlap(target, operand, True) for operand in inputs):
        raise RuntimeError(_MESSAGE)


def share_storage(first_view: Any, second_view: Any) -> bool:
    """Return whether two tensors are views of one memory, whatever elements of it they have."""
    return bool(first_view.untyped_storage().data_ptr() == second_view.untyped_storage().data_ptr())


def _overlap(target: Any, operand: Any, counts_same: bool = False) -> bool:
    if not isinstance(operand, torch.Tensor) or target.device != operand.device:
        return False
    if not share_storage(target, operand):
        return False
    if not target.numel() or not operand.numel():
        return False
    first, second = target.data_ptr(), operand.data_ptr()
    if first == second and target.shape == operand.shape and target.stride() == operand.stride():
        return counts_same
    if not is_dense(target.shape, target.stride()) or not is_dense(operand.shape, operand.stride()):
        return False
    ends = (
        first + target.numel() * target.element_size(),
        second + operand.numel() * operand.element_size(),
    )
    return bool(first < ends[1] and second < ends[0])
