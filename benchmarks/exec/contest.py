"""What a contest is: one problem, whoever solves it, and by how much ours shall be ahead."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

KERNELS = Path(__file__).parent / "kernels"
OURS, POCL, NATIVE, UNCLAMPED = "Tessera", "PoCL", "OpenMP C", "without clamp"
FIFTEEN = "pocl15"  # the tag of the kernels that the goals for the mean and median speak of

Array = npt.NDArray[Any]
Buffers = Mapping[str, Array]
Shape = tuple[int, int, int]
# Does the work once; or does it and says how many seconds of it count.
Work = Callable[[], float | None]


class KernelMissing(Exception):
    """A kernel that may not be stored here is not where the environment says."""


class WrongResult(Exception):
    """A contender's result is not the reference's."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch. ``arguments``: names of buffers, and numpy scalars by value.

    OpenCL gets the same one: global size = grid x block, local size = block.
    """

    entry: str
    grid: Shape
    block: Shape
    arguments: tuple[str | np.generic, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the C opponent: a function of ``kernels/<source>.c``, arguments as in a launch."""

    function: str
    arguments: tuple[str | np.generic, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """Data, who works on it, and how a result is checked.

    Each contender works on copies of ``buffers`` of its own, page-aligned; ``check`` gets what is
    in them after its *first* run and raises WrongResult (repeated runs need not give it again).
    ``libraries`` makes further contenders from such copies, say ``{"OpenBLAS": maker}``;
    ``yardsticks`` what has no result to be checked, such as the peak of the cores.
    """

    buffers: Buffers
    launches: tuple[Launch, ...]
    check: Callable[[Buffers], None]
    native: Call | None = None
    libraries: Mapping[str, Callable[[Buffers], Work]] = field(default_factory=dict)
    yardsticks: Mapping[str, Callable[[], Work]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Contest:
    """A problem under a name, with its goals.

    ``source``: the kernels' name in ``kernels/``: ``.ptx`` (of ``.cu``), ``.cl``, ``.c``; one that
    begins with ``$VARIABLE/`` lies in another folder.
    ``make``: the problem; True for the tiny size that a test or a trial run wants.
    ``goals``: opponent -> the least ratio opponent's time / ours; None only shows the ratio.
    ``work``: amount in units of 1e9 and its unit, to show ours as a rate, such as (2.1, "GFLOP").
    ``tags``: groups it counts for in the summary.
    """

    name: str
    source: str
    make: Callable[[bool], Problem]
    goals: Mapping[str, float | None]
    work: tuple[float, str] | None = None
    tags: frozenset[str] = frozenset()


def same(got: Array, expected: Array, what: str) -> None:
    """Raise WrongResult unless both are equal to the last bit."""
    if not np.array_equal(got, expected):
        wrong = int(np.count_nonzero(got != expected))
        raise WrongResult(f"{what}: {wrong} of {expected.size} elements differ")


def near(got: Array, expected: Array, what: str, relative: float, absolute: float = 0.0) -> None:
    """Raise WrongResult unless |got - expected| <= absolute + relative * |expected| everywhere."""
    error = np.abs(got.astype(np.float64) - expected) - relative * np.abs(expected)
    worst = float(np.max(error, initial=-np.inf))
    if not worst <= absolute:  # nan is wrong, too
        raise WrongResult(f"{what}: off by {worst:.3g} more than {relative:g} of the value")
