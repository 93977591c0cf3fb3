"""Leaky ReLUs whose slopes are drawn."""

from collections.abc import Callable
from typing import Any, Final

import torch

from tessera_torch import counts
from tessera_torch.own.random import draw_like


def _rrelu(
    self: Any, noise: Any, lower: Any = 1 / 8, upper: Any = 1 / 3, training: bool = False,
    generator: Any = None,
) -> Any:  # fmt: skip
    """Return what a leaky ReLU with a drawn slope makes; the slopes go to ``noise``."""
    counts.CALLS["rrelu_with_noise"] += 1
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    if not training:
        return torch.nn.functional.leaky_relu(self, (float(lower) + float(upper)) / 2)
    drawn = draw_like(self, generator) * (upper - lower) + lower
    noise.resize_(self.shape).copy_(torch.where(self <= 0, drawn, 1))
    return self * noise


def _rrelu_in_place(self: Any, noise: Any, *arguments: Any, **keywords: Any) -> Any:
    return self.copy_(_rrelu(self, noise, *arguments, **keywords))


def _rrelu_out(self: Any, noise: Any, *arguments: Any, out: Any, **keywords: Any) -> Any:
    result = _rrelu(self, noise, *arguments, **keywords)
    return out.resize_(result.shape).copy_(result)


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "rrelu_with_noise": _rrelu,
    "rrelu_with_noise_": _rrelu_in_place,
    "rrelu_with_noise.out": _rrelu_out,
}
