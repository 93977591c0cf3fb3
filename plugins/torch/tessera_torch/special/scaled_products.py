"""Products of matrices of 8-bit floats with scales: of a whole matrix, of rows, or of blocks."""

from typing import Any, Final

import torch

from tessera_torch import counts
from tessera_torch.formulas import float8
from tessera_torch.refusal import Unsupported
from tessera_torch.targets import both

_BLOCK: Final = 128


def _scaled_mm(
    self: Any,
    mat2: Any,
    scale_a: Any,
    scale_b: Any,
    bias: Any = None,
    scale_result: Any = None,
    out_dtype: Any = None,
    use_fast_accum: bool = False,  # the products are added in float32 either way
) -> Any:
    """Return ``(self * scale_a) @ (mat2 * scale_b) + bias``."""
    counts.CALLS["_scaled_mm"] += 1
    for operand in (self, mat2, scale_a, scale_b):
        if operand.dtype not in float8.TYPES | {torch.float32}:
            raise Unsupported("_scaled_mm", (self, mat2), f"operands of {operand.dtype}")
    wide_self, wide_mat2 = self.float(), mat2.float()
    rows, columns = (self.shape[0], 1), (1, mat2.shape[1])
    if scale_a.numel() == scale_b.numel() == 1:
        product = torch.mm(wide_self, wide_mat2) * (scale_a.reshape(()) * scale_b.reshape(()))
    elif tuple(scale_a.shape) == rows and tuple(scale_b.shape) == columns:
        product = torch.mm(wide_self, wide_mat2) * scale_a * scale_b
    elif scale_a.dim() == scale_b.dim() == 2 and scale_a.dtype == torch.float32:
        product = torch.mm(wide_self * _spread(scale_a, self), wide_mat2 * _spread(scale_b, mat2))
    else:
        raise Unsupported("_scaled_mm", (self, mat2), "scales of small blocks")
    if bias is not None:
        product = product + bias
    if scale_result is not None and (out_dtype or self.dtype) in float8.TYPES:
        product = product * scale_result
    return product.to(out_dtype or self.dtype)


def _spread(scale: Any, matrix: Any) -> Any:
    """Return the scale of each element; a dimension may have one for 128 elements."""
    for dim, size in enumerate(matrix.shape):
        if scale.shape[dim] != size:
            scale = scale.repeat_interleave(_BLOCK, dim).narrow(dim, 0, size)
    return scale


KERNELS: Final = both("_scaled_mm", "_scaled_mm.out", _scaled_mm)
