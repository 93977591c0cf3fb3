"""Nested tensors with strides: padding, and products of their matrices, one after the other."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from tessera_torch import counts


def _pad(self: Any, padding: float, output_size: Sequence[int] | None = None) -> Any:
    counts.CALLS["to_padded_tensor"] += 1
    parts = self.unbind()
    sizes = [max(column) for column in zip(*(one.shape for one in parts), strict=True)]
    shape = [len(parts), *sizes]
    if output_size is not None:
        if len(output_size) != len(shape) or any(
            a < b for a, b in zip(output_size, shape, strict=True)
        ):
            raise RuntimeError(
                "Value in output_size is less than NestedTensor padded size. Truncation is not"
                " supported."
            )
        shape = list(output_size)
    result = torch.full(shape, padding, dtype=self.dtype, device=self.device)
    for into, one in zip(result, parts, strict=True):
        into[tuple(slice(n) for n in one.shape)].copy_(one)
    return result


def _multiply(self: Any, mat2: Any) -> Any:
    counts.CALLS["bmm (nested)"] += 1
    pairs = [one.unbind() for one in (self, mat2)]
    if len(pairs[0]) != len(pairs[1]):
        raise RuntimeError(
            f"Expected size for the 1st dimension of 2nd input tensor to be: {len(pairs[0])} but"
            f" got: {len(pairs[1])}."
        )
    return torch.nested.as_nested_tensor([a @ b for a, b in zip(*pairs, strict=True)])


KERNELS: Final[dict[str, Callable[..., Any]]] = {"to_padded_tensor": _pad, "bmm": _multiply}
"""Registered for NestedTensorCUDA."""
