"""The time of a streaming kernel: its bytes at the rate of DRAM or L2, overlapped with CTAs of one
row each.

    T = launch + (rows || memory)

All times are in microseconds.
"""

import numpy as np

from vgpu_sim.perf.boards import Board
from vgpu_sim.perf.errors import BadShape
from vgpu_sim.perf.overlap import overlapped_time
from vgpu_sim.perf.parameters import Values
from vgpu_sim.perf.stack import Stack
from vgpu_sim.records import dataclass

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Calls:
    """Many streaming kernels over ``rows`` times ``columns`` elements, with the bytes that each
    reads and writes per element.
    """

    rows: Array
    columns: Array
    read: Array
    written: Array

    def __post_init__(self) -> None:
        if (self.rows < 1).any() or (self.columns < 1).any():
            raise BadShape("rows and columns must be at least 1")
        for name in ("read", "written"):
            amount = getattr(self, name)
            if not (amount >= 0).all():  # NaN is neither
                raise BadShape(f"bytes {name} of an element must be 0 or more, not {amount.min()}")

    def __len__(self) -> int:
        return len(self.rows)


class Model:
    """The model of streaming kernels on one board."""

    def __init__(self, board: Board, calls: Calls) -> None:
        self._board, self._calls = board, calls
        self._clk_us = board.boost_ghz.value * 1e3

    def sizes(self, rows: Array) -> Array:
        """Return the logarithms of the kernels' sizes, one row per call."""
        columns = (self._calls.rows[rows], self._calls.columns[rows])
        return np.asarray(np.log(np.column_stack(columns).astype(float)))

    def choose(self, values: Values, rows: Array) -> None:
        """Return None, because there is only one kernel to choose."""

    def times(self, values: Values, rows: Array, kernels: None) -> Array:
        """Return the predicted times of the calls."""
        del kernels
        return self.stack(values, rows).total

    def stack(self, values: Values, rows: Array) -> Stack:
        """Return the causes of the time of each call."""
        board, calls, p = self._board, self._calls, values
        height, width = calls.rows[rows].astype(float), calls.columns[rows].astype(float)
        moved = height * width * (calls.read[rows] + calls.written[rows])
        usable = p["l2_usable"] * board.l2_mb.value * 1e6
        hot = 1 / (1 + (moved / usable) ** p["l2_sharpness"])
        memory = moved * (1 - hot) / (p["dram"] * board.dram_bytes_per_us)
        memory = memory + moved * hot / (p["l2_rate"] * self._clk_us * board.sms.value)
        rounds = np.maximum(1, height / board.sms.value / p["resident"])
        work = rounds * (p["row"] + p["element"] * 1e-3 * width)
        launch = np.full_like(height, p["launch"])
        overlapped_us = overlapped_time(work, memory, p["overlap"])
        return Stack(
            {"launch": launch, "memory": memory, "rows not hidden": overlapped_us - memory}
        )
