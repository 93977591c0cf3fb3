"""The derivative of the logarithm of the gamma function."""

import math
from typing import Any, Final

import torch

# Bernoulli's numbers B(2k) / 2k for k = 1 to 6.
_TERMS: Final = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760)
_STEPS: Final = 8  # the series is exact to 1e-14 from there on


def digamma(x: Any) -> Any:
    """Compute digamma by its asymptotic series, its recurrence and its reflection, in double."""
    wide = x.to(torch.float64)
    low = wide < 0.5
    y = torch.where(low, 1 - wide, wide)
    sums = 1 / y
    for step in range(1, _STEPS):
        sums = sums + 1 / (y + step)
    y = y + _STEPS
    inverse = 1 / (y * y)
    series = inverse * _TERMS[-1]
    for term in reversed(_TERMS[:-1]):
        series = inverse * (term + series)
    result = torch.log(y) - 0.5 / y - series - sums
    fraction = wide - torch.round(wide)  # the tangent has period 1
    reflected = result - math.pi / torch.tan(math.pi * fraction)
    result = torch.where(low, reflected, result)
    is_pole = (wide < 0) & ((fraction == 0) | (wide == -math.inf))
    result = torch.where(is_pole, math.nan, result)
    return torch.where(wide == 0, torch.copysign(torch.full_like(wide, math.inf), -wide), result)


def polygamma(n: int, x: Any) -> Any:
    """Return the derivative of digamma. Other orders are not computed so.

    Arguments below 1/2 are reflected; six steps of the recurrence lead to where a series is exact.
    """
    if n != 1:
        raise NotImplementedError(f"no formula for polygamma of order {n}")
    x = x if x.is_floating_point() else x.to(torch.get_default_dtype())
    below = x < 0.5
    sine = torch.sin(math.pi * x)
    at = torch.where(below, 1 - x, x)
    total = torch.zeros_like(at)
    for _ in range(6):
        total = total + 1 / (at * at)
        at = at + 1
    square = 1 / (at * at)
    series = 1 + 1 / (2 * at) + square * (1 / 6 - square * (1 / 30 - square / 42))
    total = total + series / at
    return torch.where(below, math.pi * math.pi / (sine * sine) - total, total)
