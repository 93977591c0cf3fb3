"""A contest: one problem, its contenders, and the required lead of Tessera."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

KERNELS = Path(__file__).parent / "kernels"
OURS, POCL, NATIVE, UNCLAMPED = "Tessera", "PoCL", "OpenMP C", "without clamp"
FIFTEEN = "pocl15"  # tag of the kernels to which the goals for mean and median apply

Array = npt.NDArray[Any]
Buffers = Mapping[str, Array]
Shape = tuple[int, int, int]
# Does the work once; may return the measured seconds.
Work = Callable[[], float | None]


class KernelMissing(Exception):
    """A kernel that may not be stored here is not in the folder that the environment names."""


class WrongResult(Exception):
    """A contender's result differs from the reference."""


@dataclass(frozen=True, slots=True)
class TensorMap:
    """An argument: the map of a buffer with rows of equal length, for copies of ``box`` elements.

    ``type``: a value of CUtensorMapDataType. ``swizzle_bytes``: 0, 32, 64 or 128.
    """

    buffer: str
    type: int
    box: tuple[int, int]
    swizzle_bytes: int


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch. ``arguments``: names of buffers, and numpy scalars by value.

    OpenCL gets the same one: global size = grid x block, local size = block.
    """

    entry: str
    grid: Shape
    block: Shape
    arguments: tuple[str | np.generic | TensorMap, ...]
    shared_bytes: int = 0  # dynamic


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the C opponent: a function of ``kernels/<source>.c``, arguments as in a launch."""

    function: str
    arguments: tuple[str | np.generic, ...]


@dataclass(frozen=True, slots=True)
class Rival:
    """Other kernels for the same work, which Tessera runs as well. ``ptx``: their text."""

    ptx: str
    launches: tuple[Launch, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """The data of a contest, its contenders, and the check of results.

    Each contender works on its own page-aligned copies of ``buffers``; ``check`` gets their
    contents after its *first* run and raises WrongResult (repeated runs need not reproduce them).
    ``libraries`` makes further contenders from such copies, for example ``{"OpenBLAS": maker}``;
    ``yardsticks`` those without a result to check, such as the peak of the cores. ``ptx`` is the
    text of the kernels if a function writes it; ``rivals`` are further contenders by other kernels.
    """

    buffers: Buffers
    launches: tuple[Launch, ...]
    check: Callable[[Buffers], None]
    native: Call | None = None
    libraries: Mapping[str, Callable[[Buffers], Work]] = field(default_factory=dict)
    yardsticks: Mapping[str, Callable[[], Work]] = field(default_factory=dict)
    ptx: str | None = None
    rivals: Mapping[str, Rival] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Contest:
    """A problem with a name and goals.

    ``source``: the kernels' name in ``kernels/``: ``.ptx`` (from ``.cu``), ``.cl``, ``.c``; a name
    that begins with ``$VARIABLE/`` is in another folder, and the PTX is not read where the problem
    has it. ``make``: returns the problem; True for the tiny size for tests and trial runs.
    ``goals``: opponent -> the least ratio of its time to Tessera's; None only prints the ratio.
    ``work``: amount in units of 1e9 and its unit, to print Tessera's rate, such as (2.1, "GFLOP").
    ``tags``: groups of the summary to which it belongs.
    """

    name: str
    source: str
    make: Callable[[bool], Problem]
    goals: Mapping[str, float | None]
    work: tuple[float, str] | None = None
    tags: frozenset[str] = frozenset()


def same(got: Array, expected: Array, array_name: str) -> None:
    """Raise WrongResult unless both are equal to the last bit."""
    if not np.array_equal(got, expected):
        wrong = int(np.count_nonzero(got != expected))
        raise WrongResult(f"{array_name}: {wrong} of {expected.size} elements differ")


def near(
    got: Array, expected: Array, array_name: str, relative: float, absolute: float = 0.0
) -> None:
    """Raise WrongResult unless |got - expected| <= absolute + relative * |expected| everywhere."""
    error = np.abs(got.astype(np.float64) - expected) - relative * np.abs(expected)
    worst = float(np.max(error, initial=-np.inf))
    if not worst <= absolute:  # NaN is wrong too
        raise WrongResult(f"{array_name}: off by {worst:.3g} more than {relative:g} of the value")
