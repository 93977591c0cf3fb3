"""Random numbers of gamma and Dirichlet distributions, and the gradient of the former.

The numbers are not those of a real GPU.
"""

from collections.abc import Callable
from typing import Any, Final

import torch

from tessera_torch import counts
from tessera_torch.own.launching import launch
from tessera_torch.special import sampling_kernels
from tessera_torch.special.count_samples import sample

_BLOCK: Final = 128
_ADVANCE: Final = 12  # two rounds of Philox for each of the 1.05 attempts
_MOST_TERMS: Final = 1 << 22  # of the gradient's series: enough for samples up to 10^11


def _log_samples(shape: Any, generator: Any) -> Any:
    wide = shape.to(torch.float64).contiguous()
    return sample(sampling_kernels.sample_log_gamma, (wide,), generator, _ADVANCE)


def _standard_gamma(self: Any, generator: Any = None) -> Any:
    counts.CALLS["_standard_gamma"] += 1
    minimum = torch.finfo(self.dtype).tiny
    return _log_samples(self, generator).exp().clamp(min=minimum).to(self.dtype)


def _sample_dirichlet(self: Any, generator: Any = None) -> Any:
    counts.CALLS["_sample_dirichlet"] += 1
    shares = _log_samples(self, generator).softmax(-1)
    minimum = torch.finfo(self.dtype).tiny
    return shares.clamp(minimum, 1 - torch.finfo(self.dtype).eps / 2).to(self.dtype)


def _standard_gamma_grad(self: Any, output: Any) -> Any:
    counts.CALLS["_standard_gamma_grad"] += 1
    pair = torch.broadcast_tensors(self.to(torch.float64), output.to(torch.float64))
    shapes, samples = (tensor.contiguous() for tensor in pair)
    out = torch.empty_like(samples)
    if count := out.numel():
        kernel, starts = sampling_kernels.gamma_gradient, torch.digamma(shapes + 1)
        launch(
            kernel, (-(-count // _BLOCK),), out.device,
            shapes, samples, starts, out, count, _MOST_TERMS, _BLOCK,
        )  # fmt: skip
    return out.to(self.dtype)


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "_standard_gamma": _standard_gamma,
    "_standard_gamma_grad": _standard_gamma_grad,
    "_sample_dirichlet": _sample_dirichlet,
}
