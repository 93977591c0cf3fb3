"""Nested tensors with strides: padding and its reverse, and products of their matrices, one after
the other.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from tessera_torch import counts


def _pad(self: Any, padding: float, output_size: Sequence[int] | None = None) -> Any:
    counts.CALLS["to_padded_tensor"] += 1
    parts = self.unbind()
    sizes = [max(column) for column in zip(*(part.shape for part in parts), strict=True)]
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
    for into, part in zip(result, parts, strict=True):
        into[tuple(slice(n) for n in part.shape)].copy_(part)
    return result


def _multiply(self: Any, mat2: Any) -> Any:
    counts.CALLS["bmm (nested)"] += 1
    pairs = [operand.unbind() for operand in (self, mat2)]
    if len(pairs[0]) != len(pairs[1]):
        raise RuntimeError(
            f"Expected size for the 1st dimension of 2nd input tensor to be: {len(pairs[0])} but"
            f" got: {len(pairs[1])}."
        )
    return torch.nested.as_nested_tensor([a @ b for a, b in zip(*pairs, strict=True)])


def _cut(padded: Any, cpu_nested_shape_example: Any, fuse_transform_0213: bool = False) -> Any:
    """Return the nested tensor of these sizes, a row for each part, whose padding is removed."""
    counts.CALLS["_nested_from_padded"] += 1
    sizes = cpu_nested_shape_example.tolist()
    if fuse_transform_0213:
        padded = padded.transpose(1, 2).flatten(2)
    if len(sizes) != padded.shape[0] or any(
        len(size) != padded.dim() - 1
        or any(n > m for n, m in zip(size, padded.shape[1:], strict=True))
        for size in sizes
    ):
        raise RuntimeError(
            f"_nested_from_padded: a tensor of shape {list(padded.shape)} has no parts of sizes"
            f" {sizes}"
        )
    parts = zip(padded, sizes, strict=True)
    return torch.nested.as_nested_tensor(
        [part[tuple(slice(n) for n in size)] for part, size in parts]
    )


KERNELS: Final[dict[str, Callable[..., Any]]] = {"to_padded_tensor": _pad, "bmm": _multiply}
"""Registered for NestedTensorCUDA."""
DENSE_KERNELS: Final[dict[str, Callable[..., Any]]] = {"_nested_from_padded": _cut}
"""Of these the first tensor is dense, so they are registered for CUDA."""
