"""Errors of predictions against measurements."""

import numpy as np

from vgpu_sim.records import dataclass


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Errors of predictions in percent of the measured time; ``log_correlation`` is the correlation
    of the logarithms of measured and predicted times.
    """

    rows: int
    mape: float
    median: float
    p90: float
    bias: float
    log_correlation: float
    inside: float

    @classmethod
    def of(cls, measured: np.ndarray, predicted: np.ndarray, half_width: np.ndarray) -> "Accuracy":
        """Compare arrays of measured and predicted times; ``half_width`` is half the width of the
        90 % interval of ln(time).
        """
        error = np.abs(predicted / measured - 1) * 100
        logs = np.log(predicted), np.log(measured)
        return cls(
            len(measured),
            float(error.mean()),
            float(np.median(error)),
            float(np.quantile(error, 0.9)),
            float(np.expm1((logs[0] - logs[1]).mean()) * 100),
            float(np.corrcoef(*logs)[0, 1]),
            float((np.abs(logs[0] - logs[1]) <= half_width).mean() * 100),
        )
