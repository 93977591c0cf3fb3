"""Whether a call's targets share memory with its inputs in a way that changes its result."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch

_MESSAGE = (
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a"
    " single memory location. Please clone() the tensor before performing the operation."
)


def check_overlap(targets: Sequence[Any], inputs: Sequence[Any]) -> None:
    """Raise RuntimeError if memory of a target is also another target's or another input's.

    The same elements in the same order may be read and written. Byte ranges are compared, as
    PyTorch does for tensors without gaps; with gaps, PyTorch may not see an overlap.
    """
    if len(inputs) + len(targets) < 2:
        return
    for i, target in enumerate(targets):
        for other in (*targets[i + 1 :], *inputs):
            if other is not target and _overlap(target, other):
                raise RuntimeError(_MESSAGE)


def _overlap(one: Any, other: Any) -> bool:
    if not isinstance(other, torch.Tensor) or not other.is_cuda or one.device != other.device:
        return False
    if one.untyped_storage().data_ptr() != other.untyped_storage().data_ptr():
        return False
    if not one.numel() or not other.numel():
        return False
    first, second = one.data_ptr(), other.data_ptr()
    if first == second and one.shape == other.shape and one.stride() == other.stride():
        return False
    if first + _bytes(one) <= second or second + _bytes(other) <= first:
        return False
    return not _interleave(one, other)


def _interleave(one: Any, other: Any) -> bool:
    """Return whether strided views have only gaps in common, such as columns of a matrix."""
    if one.dtype != other.dtype:
        return False
    steps = [s for t in (one, other) for n, s in zip(t.shape, t.stride(), strict=True) if n > 1]
    if not steps:
        return False
    distance = abs(one.data_ptr() - other.data_ptr()) // one.element_size()
    widest = max(steps)
    if widest < 2 or any(step != widest for step in steps if step >= widest):
        return False
    # Elements repeat with the widest step; within it each view covers a range of elements.
    parts = []
    for t in (one, other):
        inner = [
            (n, s) for n, s in zip(t.shape, t.stride(), strict=True) if n > 1 and s < widest
        ]
        parts.append(1 + sum((n - 1) * s for n, s in inner))
    shift = distance % widest
    low, high = (parts[0], parts[1]) if one.data_ptr() <= other.data_ptr() else parts[::-1]
    return bool(low <= shift and shift + high <= widest)


def _bytes(tensor: Any) -> int:
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    return int((1 + sum((n - 1) * s for n, s in steps)) * tensor.element_size())


def tensors_of(arguments: Sequence[Any]) -> Iterator[Any]:
    """Yield the tensors among arguments, also those in lists."""
    for one in arguments:
        if isinstance(one, torch.Tensor):
            yield one
        elif isinstance(one, (list, tuple)):
            yield from (x for x in one if isinstance(x, torch.Tensor))
