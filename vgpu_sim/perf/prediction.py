"""One prediction: a time, its interval, its causes, and the fit on which it is based."""

from dataclasses import field, replace
from typing import Any

import numpy as np

from vgpu_sim.perf.boards import Board
from vgpu_sim.perf.parameters import Fitted
from vgpu_sim.perf.residual import CAUSE
from vgpu_sim.perf.stack import Stack
from vgpu_sim.records import dataclass

Facts = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Prediction:
    """The modelled time of an operation on a board; times are in microseconds.

    ``shape`` repeats the sizes of the request. ``rates`` are rates derived from the time; each name
    includes the unit, such as "GB/s". ``choice`` is the kernel that the model chose. The causes in
    ``stack`` add up to ``us``.
    """

    op: str
    board: Board
    dtype: str
    shape: Facts
    us: float
    interval: tuple[float, float]
    stack: dict[str, float]
    fitted: Fitted
    choice: Facts = field(default_factory=dict)
    rates: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        op: str,
        board: Board,
        dtype: str,
        shape: Facts,
        stack: Stack,
        fitted: Fitted,
        choice: Facts,
        rates: Facts,
        sizes: np.ndarray | None = None,
    ) -> "Prediction":
        """Create the prediction for one shape from ``stack``, the causes of its time.

        ``rates`` holds an amount for each derived rate. The rate is the amount divided by the
        predicted time. If ``sizes`` (inputs of the residual) are given, the fitted residual is
        applied.
        """
        half_width = fitted.half_width
        if fitted.residual is not None and sizes is not None:
            stack, half_width = fitted.residual.apply(stack, sizes), fitted.corrected_half_width
        us = float(stack.total[0])
        half = float(half_width(stack.total)[0])
        return cls(
            op=op,
            board=board,
            dtype=dtype,
            shape=shape,
            us=us,
            interval=(us * float(np.exp(-half)), us * float(np.exp(half))),
            stack=stack.at(0),
            fitted=fitted,
            choice=choice,
            rates={name: value / us for name, value in rates.items()},
        )

    def mechanistic(self) -> "Prediction":
        """Return the prediction without the fitted residual."""
        if CAUSE not in self.stack:
            return self
        stack = {name: part for name, part in self.stack.items() if name != CAUSE}
        us = sum(stack.values())
        half = float(self.fitted.half_width(np.array([us]))[0])
        rates = {name: rate * self.us / us for name, rate in self.rates.items()}
        interval = (us * float(np.exp(-half)), us * float(np.exp(half)))
        return replace(self, us=us, interval=interval, stack=stack, rates=rates)

    @property
    def percent(self) -> float:
        """The upper end of the interval minus the predicted time, in percent of the predicted
        time.
        """
        return 100 * (self.interval[1] / self.us - 1)

    def as_json(self) -> Facts:
        """Return the prediction as a JSON object."""
        return {
            "op": self.op,
            "board": self.board.name,
            "dtype": self.dtype,
            **self.shape,
            "modelled": True,
            "us": self.us,
            "us_90_percent": list(self.interval),
            "stack_us": self.stack,
            "rates": self.rates,
            "choice": self.choice,
            "fitted_to": self.fitted.source,
            "fitted_rows": self.fitted.rows,
            "note": self.fitted.note,
        }
