"""Baselines without a mechanism: predictions by interpolation of the same training rows.

Each baseline interpolates ln(measured / tuned roofline) over the logarithms of the sizes and of
the roofline. The tuned roofline has three parameters: the time of a launch, and the shares of
the data sheet's arithmetic rate and memory (or link) rate that are reached. A mechanism that
does not beat these contains no more information than a table.
"""

from typing import Any, Final

import numpy as np

from vgpu_sim.perf.boards import Board
from vgpu_sim.perf.errors import NoData
from vgpu_sim.records import dataclass

Array = np.ndarray
_NEIGHBOURS: Final = 5
_TOGETHER: Final = 4096  # rows that are compared with the training rows at a time
NAMES: Final = ("roofline", "5-NN", "RBF")


@dataclass(frozen=True, slots=True)
class Work:
    """The work of shapes, as times in microseconds at the data sheet's rates. ``math`` is the time
    of the arithmetic; ``moved`` is the time of the bytes that must move.
    """

    math: Array
    moved: Array

    @classmethod
    def of(cls, board: Board, dtype: str, flop: Array, bytes_: Array) -> "Work":
        """Return the work of ``flop`` operations and ``bytes_`` bytes of DRAM traffic on a
        board.
        """
        return cls(flop / board.tensor_flop_per_us(dtype), bytes_ / board.dram_bytes_per_us)

    def rows(self, chosen: Array) -> "Work":
        """Select some of the rows."""
        return Work(self.math[chosen], self.moved[chosen])


@dataclass(frozen=True, slots=True)
class Samples:
    """Rows of measurements for a baseline: the logarithms of sizes (one row per shape), the work,
    and the measured times in microseconds.
    """

    sizes: Array
    work: Work
    us: Array

    def rows(self, chosen: Array) -> "Samples":
        """Select some of the rows."""
        return Samples(self.sizes[chosen], self.work.rows(chosen), self.us[chosen])


def errors(training: Samples, unseen: Samples) -> dict[str, float]:
    """Return each baseline's mean absolute error in percent on the rows not used for training.

    Raises:
        NoData: scipy is not installed.
    """
    try:
        from scipy.interpolate import RBFInterpolator
        from scipy.optimize import least_squares
    except ImportError as err:
        raise NoData(
            "baselines need scipy: pip install '.[perf]' in the checkout, or pip install scipy"
        ) from err
    tuned = _tune(training, least_squares)
    roofs = [_roofline(samples.work, tuned) for samples in (training, unseen)]
    training_inputs, unseen_inputs = (
        np.column_stack([samples.sizes, np.log(roof)])
        for samples, roof in zip((training, unseen), roofs, strict=True)
    )
    mean, spread = training_inputs.mean(axis=0), training_inputs.std(axis=0)
    spread[spread < 1e-9] = 1
    training_inputs, unseen_inputs = (
        (training_inputs - mean) / spread,
        (unseen_inputs - mean) / spread,
    )
    logs = np.log(training.us / roofs[0])
    # Rows with equal inputs would make the system singular, so they are replaced by their mean.
    distinct, index = np.unique(training_inputs.round(9), axis=0, return_inverse=True)
    means = np.bincount(index.ravel(), logs) / np.bincount(index.ravel())
    rbf = RBFInterpolator(distinct, means, kernel="linear", degree=0)
    corrections = (
        np.zeros(len(unseen_inputs)),
        _nearest(training_inputs, logs, unseen_inputs),
        _in_parts(rbf, unseen_inputs),
    )
    return {
        name: float(100 * np.abs(roofs[1] * np.exp(log) / unseen.us - 1).mean())
        for name, log in zip(NAMES, corrections, strict=True)
    }


def _roofline(work: Work, tuned: Array) -> Array:
    launch, math, moved = np.exp(tuned)
    return np.asarray(launch + np.maximum(work.math / math, work.moved / moved))


def _tune(training: Samples, least_squares: Any) -> Array:
    start = np.array([np.log(training.us.min()), np.log(0.7), np.log(0.7)])

    def off(tuned: Array) -> Array:
        return np.asarray(np.log(_roofline(training.work, tuned) / training.us))

    return np.asarray(least_squares(off, start, loss="soft_l1", f_scale=0.1).x)


def _nearest(training_inputs: Array, logs: Array, unseen_inputs: Array) -> Array:
    """Return, for each unseen row, the mean of the nearest training rows, weighted by the inverse
    of their distances.
    """
    estimates = np.empty(len(unseen_inputs))
    count = min(_NEIGHBOURS, len(training_inputs))
    for at in range(0, len(unseen_inputs), _TOGETHER):
        block = slice(at, at + _TOGETHER)
        distance = np.sqrt(
            ((unseen_inputs[block, None, :] - training_inputs[None]) ** 2).sum(axis=2)
        )
        nearest = np.argpartition(distance, count - 1, axis=1)[:, :count]
        weights = 1 / (np.take_along_axis(distance, nearest, 1) + 1e-9)
        estimates[block] = (weights * logs[nearest]).sum(axis=1) / weights.sum(axis=1)
    return estimates


def _in_parts(predict: Any, inputs: Array) -> Array:
    parts = (inputs[at : at + _TOGETHER] for at in range(0, len(inputs), _TOGETHER))
    return np.concatenate([predict(part) for part in parts])
