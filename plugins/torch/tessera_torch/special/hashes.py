"""The exclusive or of the bits of a tensor's elements, as `hash_tensor` defines it."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from tessera_torch import counts
from tessera_torch.refusal import Unsupported
from tessera_torch.targets import both


def _fold(bits: Any) -> Any:
    """Return the exclusive or along the last dimension, by halves."""
    while bits.shape[-1] > 1:
        half = bits.shape[-1] // 2
        folded = bits[..., :half] ^ bits[..., half : 2 * half]
        if bits.shape[-1] % 2:
            folded = torch.cat((folded, bits[..., -1:]), -1)
        bits = folded
    return bits[..., 0]


def _hash(self: Any, dim: Sequence[int] = (), *, keepdim: bool = False, mode: int = 0) -> Any:
    """Reduce numbers as 64 bits: integers with their sign, others as doubles."""
    counts.CALLS["hash_tensor"] += 1
    if mode != 0:
        raise RuntimeError(f"Unknown hash_tensor mode: {mode}")
    if self.is_complex():
        raise Unsupported("hash_tensor", self, "numbers are complex")
    if not dim and not self.numel():
        raise RuntimeError(
            "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify"
            " the reduction dim with the 'dim' argument."
        )
    for axis in dim if self.dim() else ():
        if not self.shape[axis]:
            raise IndexError(
                f"hash_tensor: Expected reduction dim {axis % self.dim()} to have non-zero size."
            )
    if self.is_floating_point():
        bits = self.to(torch.float64).contiguous().view(torch.int64)
    else:
        bits = self.to(torch.int64)
    reduced = sorted({axis % max(self.dim(), 1) for axis in dim or range(self.dim())})
    if self.dim():
        other_dims = [i for i in range(self.dim()) if i not in reduced]
        bits = _fold(bits.permute(*other_dims, *reduced).flatten(len(other_dims)))
    if keepdim:
        for i in reduced if self.dim() else ():
            bits = bits.unsqueeze(i)
    return bits.contiguous().view(torch.uint64)


KERNELS: Final[dict[str, Callable[..., Any]]] = both("hash_tensor", "hash_tensor.out", _hash)
