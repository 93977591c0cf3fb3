"""Rounding to a narrower float inside a kernel.

Inductor computes 16-bit floats in float32 and leaves out conversions between the two. So a kernel
that rounds an operand first, as PyTorch's own do, needs an operator that Inductor keeps.
"""

from typing import Any, Final

import torch
from torch._inductor.lowering import make_pointwise, register_lowering
from torch._inductor.virtualized import ops

from tessera_torch.formulas import float8

_LIBRARY: Final = torch.library.Library("tessera_torch", "DEF")
_LIBRARY.define("round_to(Tensor x, ScalarType dtype) -> Tensor")


def _describe(x: Any, dtype: Any) -> Any:
    return torch.empty_like(x, dtype=dtype)


_LIBRARY.impl("round_to", _describe, "Meta")


def _lower(x: Any, dtype: Any) -> Any:
    def convert(value: Any) -> Any:
        return ops.to_dtype(ops.to_dtype(value, dtype, use_compute_types=False), dtype)

    return make_pointwise(convert, override_return_dtype=dtype)(x)


register_lowering(torch.ops.tessera_torch.round_to.default, type_promotion_kind=None)(_lower)


def narrow(x: Any, dtype: Any) -> Any:
    """Return a tensor rounded to a narrow float: of that type, or float32 for 8 bits."""
    if x.dtype == dtype:
        return x
    single = x if x.dtype == torch.float32 else x.to(torch.float32)
    if dtype in float8.TYPES:
        return float8.decode(float8.encode(single, dtype), dtype)
    return torch.ops.tessera_torch.round_to.default(single, dtype)
