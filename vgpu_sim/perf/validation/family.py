"""A family of operations, as fitting and validation use it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Protocol

import numpy as np

from vgpu_sim.perf import fitting, residual
from vgpu_sim.perf.parameters import Fitted, Parameter, Values
from vgpu_sim.perf.stack import Stack
from vgpu_sim.perf.validation import measurements
from vgpu_sim.perf.validation.baselines import Samples, Work
from vgpu_sim.perf.validation.measurements import Table
from vgpu_sim.records import dataclass


class Rows(Protocol):
    """Predicts the measured rows of a table. The argument ``rows`` of the methods holds indices of
    table rows, and ``values`` holds the model's parameters.
    """

    def sizes(self, rows: np.ndarray) -> np.ndarray:
        """Return each row's sizes, which are inputs of the residual in addition to the stack."""

    def choose(self, values: Values, rows: np.ndarray) -> Any:
        """Return, for each row, the kernel that is predicted to be the fastest."""

    def times(self, values: Values, rows: np.ndarray, kernels: Any) -> np.ndarray:
        """Return the time in microseconds that is predicted for each row with the given kernels."""

    def stack(self, values: Values, rows: np.ndarray) -> Stack:
        """Return the causes of each row's predicted time with the fastest kernel."""


@dataclass(frozen=True, slots=True)
class Family:
    """A family of operations.

    ``keys`` are BOARD/TYPE/LIBRARY, one for each table. ``shape`` names the columns that make up a
    row's shape. A hash of the shape decides whether a row is used for fitting; this is the case for
    one in ``fit_one_of`` shapes. ``goals`` are the largest accepted mean errors in percent, by key;
    ``corrected_goals`` are the same for predictions that include the fitted residual. ``excluded``
    is the rule for rows that are left out. A fit is repeated from ``starts`` different start
    points. ``work`` returns the roofline's inputs for a table's rows. ``others`` holds the
    parameters of those keys to which ``parameters`` does not apply.
    """

    name: str
    keys: tuple[str, ...]
    shape: tuple[str, ...]
    parameters: Sequence[Parameter]
    table: Callable[[str], Table]
    rows: Callable[[str, Table], Rows]
    goals: dict[str, float]
    work: Callable[[str, Table], Work]
    excluded: str = ""
    fit_one_of: int = measurements.FIT_ONE_OF
    starts: int = 1
    corrected_goals: dict[str, float] = field(default_factory=dict)
    others: Mapping[str, Sequence[Parameter]] = field(default_factory=dict)

    def fitted_rows(self, table: Table) -> np.ndarray:
        """Return a mask of those rows of a table that are used for fitting."""
        return measurements.is_fitted(table, self.fit_one_of, *self.shape)

    def baseline_rows(self, key: str, table: Table) -> Samples:
        """Return a table's rows as input for a baseline."""
        sizes = self.rows(key, table).sizes(np.arange(len(table)))
        return Samples(sizes, self.work(key, table), table.columns["us"])

    def fit(self, key: str) -> Fitted:
        """Fit a table's parameters to the rows that the split assigns to fitting. Raises NoData."""
        every = self.table(key)
        table = every.rows(self.fitted_rows(every))
        rows = self.rows(key, table)
        parameters = self.others.get(key, self.parameters)
        problem = fitting.Problem(parameters, table.columns["us"], rows.choose, rows.times)
        library = key.split("/")[2]
        where = f"{measurements.PACKAGE} {measurements.VERSION}, {library} {every.version}"
        return self.fit_residual(key, fitting.fit(problem, where, range(self.starts)))

    def fit_residual(self, key: str, fitted: Fitted) -> Fitted:
        """Fit a table's residual on top of fitted parameters. Raises NoData."""
        every = self.table(key)
        table = every.rows(self.fitted_rows(every))
        rows, all_rows = self.rows(key, table), np.arange(len(table))
        stack = rows.stack(fitted.values, all_rows)
        errors = np.log(table.columns["us"] / stack.total)
        inputs = residual.inputs(stack, rows.sizes(all_rows))
        return replace(fitted, residual=residual.learn(inputs, errors, stack.total))
