"""Random numbers of Poisson's and the binomial distribution; they are not a real GPU's."""

from collections.abc import Callable
from typing import Any, Final

import torch

from tessera_torch import counts
from tessera_torch.own.launching import launch
from tessera_torch.own.random import reserve
from tessera_torch.special import sampling_kernels

_BLOCK: Final = 128
_ADVANCES: Final = {"poisson": 20, "binomial": 44}  # about as much as a real GPU's


def _poisson(self: Any, generator: Any = None) -> Any:
    counts.CALLS["poisson"] += 1
    if not torch.cuda.is_current_stream_capturing() and bool((self < 0).any()):
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    rates = self.to(torch.float64).contiguous()
    return _sample("poisson", sampling_kernels.sample_poisson, (rates,), generator).to(self.dtype)


def _binomial(count: Any, prob: Any, generator: Any = None) -> Any:
    counts.CALLS["binomial"] += 1
    pair = torch.broadcast_tensors(count, prob)
    wide = tuple(one.to(torch.float64).contiguous() for one in pair)
    return _sample("binomial", sampling_kernels.sample_binomial, wide, generator).to(count.dtype)


def _sample(name: str, kernel: Any, wide: tuple[Any, ...], generator: Any) -> Any:
    """Return a sample for each element of contiguous doubles."""
    out = torch.empty_like(wide[0])
    if count := out.numel():
        state = reserve(out.device, generator, _ADVANCES[name])
        launch(kernel, (-(-count // _BLOCK),), out.device, *wide, out, count, *state, _BLOCK)
    return out


KERNELS: Final[dict[str, Callable[..., Any]]] = {"poisson": _poisson, "binomial": _binomial}
