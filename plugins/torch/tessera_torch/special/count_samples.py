"""Random numbers of Poisson's and the binomial distribution, by counts of simpler ones."""

import math
from collections.abc import Callable
from typing import Any, Final

import torch

from tessera_torch import counts
from tessera_torch.refusal import Unsupported

_MOST_TERMS: Final = 1 << 16  # for one number
_MOST_ELEMENTS: Final = 1 << 22  # of one matrix of terms


def _count(rows: Any, terms: int, draw: Callable[[Any, Any], Any]) -> Any:
    """Return how many terms ``draw`` marks in each row, in parts of bounded size."""
    step = max(1, _MOST_ELEMENTS // max(terms, 1))
    parts = []
    for part in rows.split(step):
        empty = torch.empty((part.shape[0], terms), dtype=torch.float64, device=rows.device)
        parts.append(draw(part, empty).sum(1, dtype=torch.float64))
    return torch.cat(parts)


def _require_numbers(name: str, tensor: Any) -> None:
    """Raise Unsupported while a graph is captured: the count depends on the tensor's numbers."""
    if torch.cuda.is_current_stream_capturing():
        raise Unsupported(name, (tensor,), "a capture cannot read how many numbers are drawn")


def _limit(name: str, tensor: Any, terms: float) -> int:
    if not terms <= _MOST_TERMS:
        reason = f"a number of this size is a count of {terms:.3g} others: more than {_MOST_TERMS}"
        raise Unsupported(name, (tensor,), reason)
    return int(terms)


def _poisson(self: Any, generator: Any = None) -> Any:
    """Count the arrivals of a process, whose distances are exponential, in a time."""
    counts.CALLS["poisson"] += 1
    if not self.numel():
        return torch.empty_like(self)
    _require_numbers("poisson", self)
    rates = self.to(torch.float64).reshape(-1, 1)
    least, most = rates.min().item(), rates.max().item()
    if least < 0:
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    terms = _limit("poisson", self, most + 12 * math.sqrt(most) + 40)

    def draw(times: Any, empty: Any) -> Any:
        return empty.exponential_(generator=generator).cumsum(1) <= times

    return _count(rates, terms, draw).reshape(self.shape).to(self.dtype)


def _binomial(count: Any, prob: Any, generator: Any = None) -> Any:
    """Count the successes of trials."""
    counts.CALLS["binomial"] += 1
    trials, chances = torch.broadcast_tensors(count, prob)
    if not trials.numel():
        return torch.empty_like(trials)
    _require_numbers("binomial", count)
    terms = _limit("binomial", count, trials.max().item())
    rows = torch.stack((trials.reshape(-1), chances.reshape(-1)), 1).to(torch.float64)
    own = torch.arange(terms, device=count.device)

    def draw(pairs: Any, empty: Any) -> Any:
        is_success = empty.uniform_(generator=generator) < pairs[:, 1:]
        return is_success & (own < pairs[:, :1])

    return _count(rows, terms, draw).reshape(trials.shape).to(count.dtype)


KERNELS: Final[dict[str, Callable[..., Any]]] = {"poisson": _poisson, "binomial": _binomial}
