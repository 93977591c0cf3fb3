"""Random numbers of Poisson's and the binomial distribution; they are not a real GPU's."""

from collections.abc import Callable
from typing import Any, Final

import torch

from tessera_torch import counts
from tessera_torch.own.launching import launch
from tessera_torch.own.random import reserve
from tessera_torch.special import sampling_kernels

_BLOCK: Final = 128
_OF_POISSON, _OF_BINOMIAL = 20, 44  # about as far as a real GPU's generators advance


def _poisson(self: Any, generator: Any = None) -> Any:
    counts.CALLS["poisson"] += 1
    if not torch.cuda.is_current_stream_capturing() and bool((self < 0).any()):
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    rates = self.to(torch.float64).contiguous()
    kernel = sampling_kernels.sample_poisson
    return sample(kernel, (rates,), generator, _OF_POISSON).to(self.dtype)


def _binomial(count: Any, prob: Any, generator: Any = None) -> Any:
    counts.CALLS["binomial"] += 1
    pair = torch.broadcast_tensors(count, prob)
    wide = tuple(parameter.to(torch.float64).contiguous() for parameter in pair)
    kernel = sampling_kernels.sample_binomial
    return sample(kernel, wide, generator, _OF_BINOMIAL).to(count.dtype)


def sample(kernel: Any, wide: tuple[Any, ...], generator: Any, advance: int) -> Any:
    """Return a sample for each element of contiguous doubles; advance the generator."""
    out = torch.empty_like(wide[0])
    if count := out.numel():
        state = reserve(out.device, generator, advance)
        launch(kernel, (-(-count // _BLOCK),), out.device, *wide, out, count, *state, _BLOCK)
    return out


KERNELS: Final[dict[str, Callable[..., Any]]] = {"poisson": _poisson, "binomial": _binomial}
