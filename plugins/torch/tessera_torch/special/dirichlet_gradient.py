"""The derivative of Dirichlet's samples by their parameters, in double precision."""

from collections.abc import Callable
from typing import Any, Final

import torch

from tessera_torch import counts
from tessera_torch.own.launching import launch
from tessera_torch.special.dirichlet_gradient_kernels import dirichlet_gradient
from tessera_torch.targets import both

_BLOCK: Final = 128


def _compute(x: Any, alpha: Any, total: Any) -> Any:
    """Return what PyTorch's formula approximates within a few thousandths, to rounding."""
    counts.CALLS["_dirichlet_grad"] += 1
    shape = torch.broadcast_shapes(x.shape, alpha.shape, total.shape)
    samples, first, both_sums = (
        tensor.to(torch.float64).expand(shape).contiguous() for tensor in (x, alpha, total)
    )
    out = torch.empty_like(samples)
    if count := out.numel():
        launch(
            dirichlet_gradient, (-(-count // _BLOCK),), out.device, samples, first,
            both_sums - first, torch.digamma(first), torch.digamma(both_sums), out, count, _BLOCK,
        )  # fmt: skip
    return out.to(x.dtype)


KERNELS: Final[dict[str, Callable[..., Any]]] = both(
    "_dirichlet_grad", "_dirichlet_grad.out", _compute
)
