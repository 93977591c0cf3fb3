"""Regularized incomplete gamma functions, in double precision."""

from collections.abc import Callable
from typing import Any, Final

import torch

from tessera_torch import counts
from tessera_torch.own.launching import launch
from tessera_torch.special.incomplete_gamma_kernels import incomplete_gamma
from tessera_torch.targets import both

_BLOCK: Final = 128


def _compute(name: str, is_upper: bool) -> Callable[[Any, Any], Any]:
    def compute(self: Any, other: Any) -> Any:
        counts.CALLS[name] += 1
        dtype = torch.result_type(self, other)
        if not dtype.is_floating_point:
            raise NotImplementedError(f"{name} is not implemented for {dtype}")
        device = self.device if self.is_cuda else other.device
        device_operands = (
            operand if operand.dim() else operand.to(device) for operand in (self, other)
        )
        pair = torch.broadcast_tensors(*(operand.to(torch.float64) for operand in device_operands))
        a, x = (operand.contiguous() for operand in pair)
        out = torch.empty_like(a)
        if count := out.numel():
            grid = (-(-count // _BLOCK),)
            launch(incomplete_gamma, grid, out.device, a, x, out, count, is_upper, _BLOCK)
        return out.to(dtype)

    return compute


def _all() -> dict[str, Callable[..., Any]]:
    kernels: dict[str, Callable[..., Any]] = {}
    for name, is_upper in (("igamma", False), ("igammac", True)):
        compute = _compute(name, is_upper)
        kernels |= both(name, f"{name}.out", compute)
        kernels[f"{name}_"] = _in_place(compute)
    return kernels


def _in_place(compute: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def write(self: Any, other: Any) -> Any:
        return self.copy_(compute(self, other))

    return write


KERNELS: Final = _all()
