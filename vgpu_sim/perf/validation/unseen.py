"""Validates the GEMM model on boards that are treated as unmeasured, with one fit to other boards'
rows (ADR 69).
"""

from dataclasses import replace
from typing import Any, Final

import numpy as np

from vgpu_sim.perf import fitting
from vgpu_sim.perf.boards import Board, board_named
from vgpu_sim.perf.dtypes import dtype_named
from vgpu_sim.perf.gemm.library import GENERAL
from vgpu_sim.perf.gemm.model import Model, Shapes
from vgpu_sim.perf.gemm.parameters import PARAMETERS
from vgpu_sim.perf.parameters import Fitted, Values
from vgpu_sim.perf.validation import gemm, measurements
from vgpu_sim.perf.validation.accuracy import Accuracy

DONORS: Final = {
    "h200": ("h100-80gb",),
    "b200": ("h100-80gb", "h200", "rtx-pro-6000"),
    "a100-80gb": ("h100-80gb", "l40s"),
    "l40s": ("rtx-pro-6000", "a100-80gb"),
}
GOALS: Final = {"h200": 4.8, "b200": 9.5, "a100-80gb": 12.0, "l40s": 13.0}
_SOFTWARE: Final = ("launch", "prologue")
_LANES: Final = {(8, 0): 64}  # fp32 lanes per SM; 128 otherwise
_TABLE: Final = "bf16/vllm"
FAMILY: Final = "gemm-unseen"  # name of the file in which fits are committed


def at_largest_clock(board: Board) -> Board:
    """Return the board with its tensor rates scaled to the clock at which its fp32 rate is
    stated.
    """
    lanes = 2 * _LANES.get(board.compute_capability, 128) * board.sms.value
    times = board.vector_tflops.value * 1e3 / lanes / board.boost_ghz.value
    rates = {
        dtype: replace(rate, value=rate.value * times)
        for dtype, rate in board.tensor_tflops.items()
    }
    return replace(board, tensor_tflops=rates)


class _Together:
    """Rows of several boards. Each board has a model of its own, and all models share the
    parameters.
    """

    def __init__(self, boards: tuple[str, ...]) -> None:
        self._parts: list[tuple[Board, Shapes]] = []
        self._board: list[np.ndarray] = []
        self._row: list[np.ndarray] = []
        us = []
        for index, name in enumerate(boards):
            every = gemm.FAMILY.table(f"{name}/{_TABLE}")
            table = every.rows(gemm.FAMILY.fitted_rows(every))
            shapes = Shapes(*(table.columns[size] for size in "mnk"))
            self._parts.append((at_largest_clock(board_named(name)), shapes))
            self._board.append(np.full(len(table), index))
            self._row.append(np.arange(len(table)))
            us.append(table.columns["us"])
        self.us = np.concatenate(us)
        self._boards, self._rows = np.concatenate(self._board), np.concatenate(self._row)

    def _each(self, values: Values, rows: np.ndarray) -> Any:
        for index, (board, shapes) in enumerate(self._parts):
            mine = np.flatnonzero(self._boards[rows] == index)
            model = Model(board, dtype_named("bf16"), values)
            yield mine, model, shapes.rows(self._rows[rows[mine]])

    def choose(self, values: Values, rows: np.ndarray) -> Any:
        """Return each board's fastest kernels."""
        return [model.kernels(shapes) for _, model, shapes in self._each(values, rows)]

    def times(self, values: Values, rows: np.ndarray, kernels: Any) -> np.ndarray:
        """Return the predicted times of the rows with the given kernels."""
        predicted_us = np.empty(len(rows))
        parts = zip(self._each(values, rows), kernels, strict=True)
        for (mine, model, shapes), chosen in parts:
            predicted_us[mine] = model.times(shapes, chosen)
        return predicted_us


def fit(target: str) -> Fitted:
    """Fit one set of parameters for the board ``target`` to the measured rows of all boards that
    serve as its donors. If one of several donors has the target's architecture, the parameters
    that describe software come from a fit to that donor alone. Raises NoData.
    """
    donors = DONORS[target]
    fitted = _fit(donors)
    architecture = board_named(target).architecture
    alike = [name for name in donors if board_named(name).architecture == architecture]
    if alike and len(donors) > 1:
        own = _fit(alike[:1])
        software = {name: own.values[name] for name in _SOFTWARE}
        fitted = replace(fitted, values=fitted.values | software)
    return fitted


def _fit(boards: tuple[str, ...] | list[str]) -> Fitted:
    rows = _Together(tuple(boards))
    problem = fitting.Problem(PARAMETERS, rows.us, rows.choose, rows.times)
    where = f"{measurements.PACKAGE} {measurements.VERSION}, {' + '.join(boards)}"
    return fitting.fit(problem, where, range(1))


def key(target: str) -> str:
    """Return the key under which the fit for a target board is stored."""
    return f"{target}/{_TABLE}"


def validate(target: str, fitted: Fitted, row_limit: int | None = None) -> Accuracy:
    """Compare predictions for a board with at most ``row_limit`` of its rows, none of which was
    used for fitting.

    Raises:
        NoData: the measurements are not installed.
    """
    table = gemm.FAMILY.table(key(target))
    if row_limit is not None and len(table) > row_limit:
        table = table.rows(np.linspace(0, len(table) - 1, row_limit).astype(int))
    shapes = Shapes(*(table.columns[size] for size in "mnk"))
    board = at_largest_clock(board_named(target))
    model = Model(board, dtype_named("bf16"), fitted.values, GENERAL)
    times = model.times(shapes)
    return Accuracy.of(table.columns["us"], times, fitted.half_width(times))
