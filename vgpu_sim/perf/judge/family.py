"""What the judge must know of a family of operations to fit it and to judge it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from vgpu_sim.perf import fitting, residual
from vgpu_sim.perf.judge import measurements
from vgpu_sim.perf.judge.baselines import Known, Work
from vgpu_sim.perf.judge.measurements import Table
from vgpu_sim.perf.parameters import Fitted, Parameter, Values
from vgpu_sim.perf.stack import Stack


class Rows(Protocol):
    """The model of a table's rows; ``rows`` are indices."""

    def sizes(self, rows: np.ndarray) -> np.ndarray:
        """Return what a residual knows of each row beside the stack."""

    def choose(self, values: Values, rows: np.ndarray) -> Any:
        """Return each row's best kernel."""

    def times(self, values: Values, rows: np.ndarray, kernels: Any) -> np.ndarray:
        """Return the times with chosen kernels in microseconds."""

    def stack(self, values: Values, rows: np.ndarray) -> Stack:
        """Return the causes of the best kernels' times."""


@dataclass(frozen=True, slots=True)
class Family:
    """A family of operations.

    ``keys`` are BOARD/TYPE/LIBRARY with a table. ``shape`` names the columns that make a row's
    shape, by whose hash the split goes: one shape of ``fit_one_of`` is fitted. ``goals`` are
    largest mean errors in percent by key, ``corrected_goals`` with the residual; ``excluded`` is
    the rule for rows that are left out, and ``starts`` says from how many points a fit begins.
    ``work`` returns what a roofline knows of a table's rows. A key in ``others`` has parameters of
    its own.
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
        """Tell which rows are fitted."""
        return measurements.is_fitted(table, self.fit_one_of, *self.shape)

    def known(self, key: str, table: Table) -> Known:
        """Return a table's rows as a baseline sees them."""
        sizes = self.rows(key, table).sizes(np.arange(len(table)))
        return Known(sizes, self.work(key, table), table.columns["us"])

    def fit(self, key: str) -> Fitted:
        """Fit a table's parameters to the rows that the split gives to fitting. Raises NoData."""
        every = self.table(key)
        table = every.rows(self.fitted_rows(every))
        rows = self.rows(key, table)
        parameters = self.others.get(key, self.parameters)
        problem = fitting.Problem(parameters, table.columns["us"], rows.choose, rows.times)
        library = key.split("/")[2]
        where = f"{measurements.PACKAGE} {measurements.VERSION}, {library} {every.version}"
        return self.learn(key, fitting.fit(problem, where, range(self.starts)))

    def learn(self, key: str, fitted: Fitted) -> Fitted:
        """Learn a table's residual beside parameters that were fitted. Raises NoData."""
        every = self.table(key)
        table = every.rows(self.fitted_rows(every))
        rows, all_rows = self.rows(key, table), np.arange(len(table))
        stack = rows.stack(fitted.values, all_rows)
        errors = np.log(table.columns["us"] / stack.total)
        inputs = residual.inputs(stack, rows.sizes(all_rows))
        return replace(fitted, residual=residual.learn(inputs, errors, stack.total))
