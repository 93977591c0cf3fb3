"""The litmus tests: what each thread does, and which outcomes are weak or interleaved.

Locations begin as 0. A test's weak outcome needs accesses of one thread out of order, or stores
that arrive in another order at other threads. An interleaved outcome needs accesses of one thread
between two of another's: it shows that both ran at the same time, or took turns.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint32]
Flags = npt.NDArray[np.bool_]

WEAK, RELAXED, ACQUIRE = "weak", "relaxed", "release/acquire"
FENCE, FENCE_SC = "fence.acq_rel", "fence.sc"
STRENGTHS = (WEAK, RELAXED, ACQUIRE, FENCE, FENCE_SC)
SCOPES = ("cta", "cluster", "gpu", "sys")


@dataclass(frozen=True, slots=True)
class Store:
    """A store of ``value`` to a location."""

    location: str
    value: int


@dataclass(frozen=True, slots=True)
class Load:
    """A load of a location into the result with this number."""

    location: str
    result: int


Access = Store | Load
# Results of all runs, a row each, and what x and y contain at the end -> the runs of the outcome.
Outcome = Callable[[Words, Words, Words], Flags]


@dataclass(frozen=True, slots=True)
class Shape:
    """A litmus test. ``forbidden_with``: the strengths with which PTX forbids the weak outcome."""

    name: str
    threads: tuple[tuple[Access, ...], ...]
    weak: Outcome
    interleaved: Outcome
    forbidden_with: frozenset[str]


def _results(*wanted: int) -> Outcome:
    def is_outcome(results: Words, _x: Words, _y: Words) -> Flags:
        return np.asarray((results[:, : len(wanted)] == wanted).all(axis=1))

    return is_outcome


def _final(x_end: int, y_end: int) -> Outcome:
    return lambda _results, x, y: np.asarray((x == x_end) & (y == y_end))


_X, _Y = Store("x", 1), Store("y", 1)
_SYNCHRONIZED = frozenset({ACQUIRE, FENCE, FENCE_SC})
SHAPES = (
    Shape(
        "MP",
        ((_X, _Y), (Load("y", 0), Load("x", 1))),
        _results(1, 0),
        _results(0, 1),
        _SYNCHRONIZED,
    ),
    Shape(
        "SB",
        ((_X, Load("y", 0)), (_Y, Load("x", 1))),
        _results(0, 0),
        _results(1, 1),
        frozenset({FENCE_SC}),
    ),
    Shape(
        "LB",
        ((Load("x", 0), _Y), (Load("y", 1), _X)),
        _results(1, 1),
        _results(0, 0),
        _SYNCHRONIZED,
    ),
    Shape(
        "IRIW",
        ((_X,), (_Y,), (Load("x", 0), Load("y", 1)), (Load("y", 2), Load("x", 3))),
        _results(1, 0, 1, 0),
        _results(0, 1, 0, 1),
        frozenset({FENCE_SC}),
    ),
    Shape(
        "2+2W",
        ((_X, Store("y", 2)), (_Y, Store("x", 2))),
        _final(1, 1),
        _final(2, 2),
        frozenset({FENCE_SC}),
    ),
)
