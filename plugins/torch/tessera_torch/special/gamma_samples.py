"""Random numbers of gamma and Dirichlet distributions, and the gradient of the former.

The method is that of Marsaglia and Tsang (2000); the numbers are not those of a real GPU.
"""

import math
from collections.abc import Callable
from typing import Any, Final

import torch

from tessera_torch import counts
from tessera_torch.refusal import Unsupported

_MOST_TERMS: Final = 8192  # of the series, which needs more than the sample's size
_MOST_ELEMENTS: Final = 1 << 22  # of one matrix of terms


def _log_samples(shape: Any, generator: Any) -> Any:
    """Return logarithms of samples in double precision: those of small shapes underflow."""
    wide = shape.to(torch.float64)
    small = wide < 1
    d = torch.where(small, wide + 1, wide) - 1 / 3
    c = 1 / torch.sqrt(9 * d)
    result = torch.zeros_like(wide, memory_format=torch.contiguous_format)
    waiting = torch.ones(wide.shape, dtype=torch.bool, device=wide.device)
    while bool(waiting.any().item()):
        normal = torch.empty_like(result).normal_(generator=generator)
        uniform = torch.empty_like(result).uniform_(generator=generator)
        root = 1 + c * normal
        cube = root * root * root
        log_cube = torch.log(torch.where(cube > 0, cube, 1.0))
        bound = 0.5 * normal * normal + d * (1 - cube + log_cube)
        taken = (cube > 0) & (torch.log(uniform) < bound)
        result = torch.where(waiting & taken, torch.log(d) + log_cube, result)
        waiting = waiting & ~taken & (wide > 0)  # other shapes, and NaN, have no samples
    uniform = torch.empty_like(result).uniform_(generator=generator)
    result = torch.where(small, result + torch.log(1 - uniform) / wide, result)
    return torch.where(wide > 0, result, torch.where(wide == 0, -math.inf, math.nan))


def _standard_gamma(self: Any, generator: Any = None) -> Any:
    counts.CALLS["_standard_gamma"] += 1
    least = torch.finfo(self.dtype).tiny
    return _log_samples(self, generator).exp().clamp(min=least).to(self.dtype)


def _sample_dirichlet(self: Any, generator: Any = None) -> Any:
    counts.CALLS["_sample_dirichlet"] += 1
    shares = _log_samples(self, generator).softmax(-1)
    least = torch.finfo(self.dtype).tiny
    return shares.clamp(least, 1 - torch.finfo(self.dtype).eps / 2).to(self.dtype)


def _standard_gamma_grad(self: Any, output: Any) -> Any:
    """Return the derivative of samples by their shapes, at a fixed value of the distribution.

    It is that of P(a, x) by a, divided by the density; P is the sum of x^(a + k) e^-x / (a + k)!.
    """
    counts.CALLS["_standard_gamma_grad"] += 1
    shapes, x = torch.broadcast_tensors(self.to(torch.float64), output.to(torch.float64))
    rows, places = shapes.reshape(-1, 1), x.reshape(-1, 1)
    if not rows.numel():
        return self.clone()
    most = float(places.max().item())
    terms = int(most + 12 * math.sqrt(most) + 40) if math.isfinite(most) else _MOST_TERMS + 1
    if terms > _MOST_TERMS:
        reason = f"gradients are computed for samples up to 7000, and one is {most:g}"
        raise Unsupported("_standard_gamma_grad", (self, output), reason)
    k = torch.arange(terms, dtype=torch.float64, device=self.device)
    step = max(1, _MOST_ELEMENTS // terms)
    parts = [
        _derivatives(a, y, k) for a, y in zip(rows.split(step), places.split(step), strict=True)
    ]
    return torch.cat(parts).reshape(shapes.shape).to(self.dtype)


def _derivatives(a: Any, x: Any, k: Any) -> Any:
    """Return the derivatives of a column of samples, with as many terms as ``k`` has."""
    log_x = torch.log(x)
    # Each term is divided by the density x^(a - 1) e^-x / (a - 1)!.
    sizes = torch.exp((k + 1) * log_x + torch.lgamma(a) - torch.lgamma(a + k + 1))
    return -(sizes * (log_x - torch.digamma(a + k + 1))).sum(1)


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "_standard_gamma": _standard_gamma,
    "_standard_gamma_grad": _standard_gamma_grad,
    "_sample_dirichlet": _sample_dirichlet,
}
