"""The number of tokens per expert of a rank: even, or distributed by a power law as with real
routers.
"""

from typing import Final

import numpy as np

from vgpu_sim.perf.errors import BadShape
from vgpu_sim.records import dataclass

Array = np.ndarray
TILES: Final = (16, 32, 64, 128)  # rows of the kernels' tiles
BALANCED: Final = "balanced"
_POWER: Final = "power_law_"
_DRAWS: Final = 6
_SEED: Final = 7
_STEEPEST: Final = 10.0  # largest exponent of a power law: beyond it, one expert gets all tokens
_FLAT: Final = 1e-6  # distance from exponent 1, whose integral is a logarithm
_MOST_EXPERTS: Final = 1 << 16  # largest number of experts, since each is counted separately


@dataclass(frozen=True, slots=True)
class Calls:
    """Many calls of a mixture of experts, as arrays of one length.

    ``inner`` is an expert's width on this rank. ``gated`` states whether an expert has two matrix
    products, not one, before the last product. ``ranks`` is the number of ranks that share the
    experts. ``distribution``, the load of the experts, is "balanced" or "power_law_EXPONENT".
    """

    tokens: Array
    hidden: Array
    inner: Array
    topk: Array
    experts: Array
    ranks: Array
    distribution: Array
    gated: Array

    def __post_init__(self) -> None:
        for name in ("tokens", "hidden", "inner", "topk", "experts", "ranks"):
            if (getattr(self, name) < 1).any():
                raise BadShape(f"{name} must be at least 1")
        if (self.topk > self.experts).any():
            raise BadShape("topk must not exceed the number of experts")
        if (self.experts % self.ranks).any():
            raise BadShape("the number of experts must be a multiple of the number of ranks")
        if (self.experts > _MOST_EXPERTS).any():
            raise BadShape(f"experts must be at most {_MOST_EXPERTS}")
        for name in map(str, set(self.distribution)):
            exponent = _exponent(name)
            if name != BALANCED and exponent is None:
                raise BadShape(f"load {name!r} is neither 'balanced' nor 'power_law_EXPONENT'")
            if exponent is not None and not 0 < exponent <= _STEEPEST:
                raise BadShape(
                    f"load {name!r}: the exponent must be above 0 and at most {_STEEPEST:g}"
                )

    def __len__(self) -> int:
        return len(self.tokens)


def _exponent(name: str) -> float | None:
    try:
        return float(name.removeprefix(_POWER)) if name.startswith(_POWER) else None
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Loads:
    """The load of the busiest rank: the numbers of token-expert pairs, of experts that have tokens,
    and of tiles (by tile size).
    """

    pairs: Array
    active: Array
    tiles: Array


def loads(calls: Calls) -> Loads:
    """Return the load of the busiest rank for each call. For a power law, this is the mean of a few
    random draws with fixed seeds.
    """
    counts_by_key: dict[tuple[object, ...], Array] = {}
    rows = []
    names = ("tokens", "topk", "experts", "ranks", "distribution")
    for key in zip(*(getattr(calls, name).tolist() for name in names), strict=True):
        if key not in counts_by_key:
            counts_by_key[key] = _counts(*key)
        rows.append(counts_by_key[key])
    table = np.maximum(np.array(rows), 1)
    return Loads(table[:, :1], table[:, 1:2], table[:, 2:])


def _counts(tokens: int, topk: int, experts: int, ranks: int, distribution: str) -> Array:
    """Return the numbers of pairs, active experts and tiles of the busiest rank."""
    drawn = [
        [load.sum(), (load > 0).sum(), *(np.ceil(load / rows).sum() for rows in TILES)]
        for load in _draws(tokens, topk, experts, ranks, distribution)
    ]
    return np.asarray(np.mean(drawn, axis=0))


def _power_law(uniform: Array, low: float, high: float, exponent: float) -> Array:
    """Transform uniform numbers to a power-law density between two bounds."""
    power = 1 - exponent
    if abs(power) < _FLAT:
        return np.asarray(low * (high / low) ** uniform)
    ends = low**power, high**power
    return np.asarray(((ends[1] - ends[0]) * uniform + ends[0]) ** (1 / power))


def _draws(tokens: int, topk: int, experts: int, ranks: int, distribution: str) -> list[Array]:
    pairs, local = tokens * topk, experts // ranks
    exponent = _exponent(distribution)
    if exponent is None:
        load = np.zeros(local)
        active = int(min(local, np.ceil(pairs / ranks)))
        load[:active] = max(pairs / experts, 1) if active < local else pairs / experts
        return [load]
    low, high = (1.0, max(2.0, 0.8 * tokens)) if pairs > experts else (0.01, 2.0)
    random = np.random.default_rng(_SEED)
    busiest_loads = []
    for _ in range(_DRAWS):
        weights = _power_law(random.random(experts), low, high, exponent)
        exact = weights / weights.sum() * pairs
        load = np.floor(exact)
        load[np.argsort(load - exact)[: int(pairs - load.sum())]] += 1  # the largest remainders
        by_rank = load.reshape(ranks, local)
        busiest_loads.append(by_rank[by_rank.sum(axis=1).argmax()])
    return busiest_loads
