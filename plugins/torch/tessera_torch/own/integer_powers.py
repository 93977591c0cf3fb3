"""Powers of integers with integer exponents in a tensor, for which Inductor has no kernel."""

from collections.abc import Callable
from typing import Any, Final

import torch

from tessera_torch.targets import resize

_NAMES: Final = frozenset(
    {"pow.Tensor_Tensor", "pow.Tensor_Tensor_out", "pow.Scalar", "pow.Scalar_out", "pow_.Tensor"}
)


def with_integers(name: str, compute: Callable[..., Any]) -> Callable[..., Any]:
    """Return a form of ``pow`` that raises integers by squaring; ``compute`` raises the rest."""
    if name not in _NAMES:
        return compute

    def compute_power(self: Any, exponent: Any, **keywords: Any) -> Any:
        kind = torch.result_type(self, exponent)
        if kind.is_floating_point or kind.is_complex or kind == torch.bool:
            return compute(self, exponent, **keywords)
        result = _raise(torch.as_tensor(self, device=exponent.device), exponent, kind)
        if name == "pow_.Tensor":
            return self.copy_(result)
        out = keywords.get("out")
        return result if out is None else resize(out, result.shape).copy_(result)

    return compute_power


def _raise(base: Any, exponent: Any, kind: torch.dtype) -> Any:
    """Return powers modulo 2 to the type's bits; of negative ones the integer part, as PyTorch."""
    base, exponent = torch.broadcast_tensors(base.to(kind), exponent.to(kind))
    result, factor, remaining_exponent = torch.ones_like(base), base, exponent.clamp(min=0)
    for _ in range(int(remaining_exponent.max()).bit_length() if remaining_exponent.numel() else 0):
        result = torch.where((remaining_exponent & 1) == 1, result * factor, result)
        factor = factor * factor
        remaining_exponent = remaining_exponent >> 1
    if not kind.is_signed:
        return result
    signs = 1 - 2 * (exponent & 1)
    inverse = (base == 1).to(kind) + (base == -1).to(kind) * signs
    return torch.where(exponent < 0, inverse, result)
