"""Products of groups of rows or columns, each with its own matrix, as of mixtures of experts."""

from typing import Any, Final

import torch

from tessera_torch import counts


def _grouped_mm(
    self: Any, mat2: Any, offs: Any = None, bias: Any = None, out_dtype: Any = None
) -> Any:
    """Return the products; ``offs`` has the end of each group, which is read on the host."""
    counts.CALLS["_grouped_mm"] += 1
    return _products(self, mat2, offs).to(out_dtype or self.dtype)


def _products(self: Any, mat2: Any, offs: Any) -> Any:
    if self.dim() == mat2.dim() == 3:
        return torch.bmm(self, mat2)
    ends = offs.tolist()
    groups = list(enumerate(zip([0, *ends[:-1]], ends, strict=True)))
    if self.dim() == mat2.dim():
        return torch.stack([self[:, start:end] @ mat2[start:end] for _, (start, end) in groups])
    out = self.new_zeros(self.shape[-2], mat2.shape[-1])
    for i, (start, end) in groups:
        if self.dim() == 2:
            out[start:end] = self[start:end] @ mat2[i]
        else:
            out[:, start:end] = self[i] @ mat2[:, start:end]
    return out


KERNELS: Final = {"_grouped_mm": _grouped_mm}
