"""The families of operations that are fitted and validated, and their errors."""

from collections.abc import Iterable
from typing import Final

import numpy as np

from vgpu_sim.perf import parameters
from vgpu_sim.perf.parameters import Fitted
from vgpu_sim.perf.stack import Stack
from vgpu_sim.perf.validation import (
    attention,
    baselines,
    collective,
    encoder,
    gemm,
    latent,
    moe,
    stream,
)
from vgpu_sim.perf.validation.accuracy import Accuracy
from vgpu_sim.perf.validation.family import Family
from vgpu_sim.perf.validation.measurements import Table
from vgpu_sim.records import dataclass

FAMILIES: Final = {
    family.name: family
    for family in (
        gemm.FAMILY,
        attention.CONTEXT,
        attention.GENERATION,
        encoder.FAMILY,
        latent.CONTEXT,
        latent.GENERATION,
        moe.FAMILY,
        collective.FAMILY,
        stream.FAMILY,
    )
}
WORST: Final = 20


@dataclass(frozen=True, slots=True)
class Outlier:
    """A shape with a large error, and the suspected cause: the largest part of the predicted
    time.
    """

    shape: dict[str, object]
    measured: float
    predicted: float
    suspect: str

    @property
    def error(self) -> float:
        """The relative error in percent: 100 * (predicted / measured - 1)."""
        return 100 * (self.predicted / self.measured - 1)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of validating the predictions for one table. Its arrays hold the rows that were
    not used for fitting.
    """

    family: Family
    key: str
    accuracy: Accuracy
    measured: np.ndarray
    predicted: np.ndarray
    causes: dict[str, np.ndarray]
    worst: tuple[Outlier, ...]
    fitted: Fitted
    excluded: int
    donor: str | None
    corrected: Accuracy | None
    baselines: dict[str, float]

    @property
    def corrected_goal(self) -> float | None:
        """The largest accepted mean error, in percent, of the predictions that include the fitted
        residual; None if there is no such goal.
        """
        return self.family.corrected_goals.get(self.key) if self.corrected else None

    @property
    def better_baselines(self) -> list[str]:
        """The baselines whose mean error is below that of the prediction that users get."""
        own = (self.corrected or self.accuracy).mape
        return [name for name, mape in self.baselines.items() if mape < own]

    @property
    def goal(self) -> float | None:
        """The largest accepted mean error in percent; None if the parameters are those of another
        board.
        """
        return None if self.donor else self.family.goals.get(self.key)

    @property
    def met(self) -> bool | None:
        """True if the errors meet all goals; None if there is no goal."""
        if self.goal is None:
            return None
        met = round(self.accuracy.mape, 1) <= self.goal
        if self.corrected and self.corrected_goal:
            met = met and round(self.corrected.mape, 1) <= self.corrected_goal
        return met


def validate(
    family: Family, key: str, row_limit: int | None = None, donor: str | None = None
) -> Verdict:
    """Compare predictions with measured rows that were not used for fitting. At most
    ``row_limit`` of these rows are used, spread evenly over the table.

    ``key`` names the table. ``donor`` is the name of another board. If it is given, predictions use
    the parameters fitted for that board, as they would for a board without measurements.

    Raises:
        NoData: the measurements are not installed.
        UnknownModel: no parameters were fitted for the key.
    """
    board, _, table_key = key.partition("/")
    fitted = parameters.load(family.name, f"{donor or board}/{table_key}")
    every = family.table(key)
    table = every.rows(~family.fitted_rows(every))
    if row_limit is not None and len(table) > row_limit:
        table = table.rows(np.linspace(0, len(table) - 1, row_limit).astype(int))
    rows, all_rows = family.rows(key, table), np.arange(len(table))
    stack = rows.stack(fitted.values, all_rows)
    predicted, measured = stack.total, table.columns["us"]
    accuracy = Accuracy.of(measured, predicted, fitted.half_width(predicted))
    corrected = None
    if fitted.residual is not None and donor is None:
        times = fitted.residual.apply(stack, rows.sizes(all_rows)).total
        corrected = Accuracy.of(measured, times, fitted.corrected_half_width(times))
    worst = _worst(family, table, stack)
    return Verdict(
        family=family,
        key=key,
        accuracy=accuracy,
        measured=measured,
        predicted=predicted,
        causes=stack.causes,
        worst=worst,
        fitted=fitted,
        excluded=every.excluded,
        donor=donor,
        corrected=corrected,
        baselines=_baselines(family, key, every, table) if donor is None else {},
    )


def _baselines(family: Family, key: str, every: Table, unseen: Table) -> dict[str, float]:
    training = every.rows(family.fitted_rows(every))
    return baselines.errors(family.baseline_rows(key, training), family.baseline_rows(key, unseen))


def _worst(family: Family, table: Table, stack: Stack) -> tuple[Outlier, ...]:
    measured, predicted = table.columns["us"], stack.total
    order = np.argsort(-np.abs(np.log(predicted / measured)))[:WORST]
    return tuple(
        Outlier(
            {name: table.columns[name][[i]].tolist()[0] for name in family.shape},
            float(measured[i]),
            float(predicted[i]),
            _suspect(stack.at(int(i)), float(measured[i] - predicted[i])),
        )
        for i in order
    )


def _suspect(causes: dict[str, float], missing: float) -> str:
    """Return the largest cause if a prediction is too high. If a prediction is too low, no cause is
    suspected.
    """
    largest = max(causes, key=lambda name: causes[name])
    if missing > 0:
        return f"another kernel than the best, or {largest}"
    return largest


def fit(family: Family, keys: Iterable[str]) -> dict[str, Fitted]:
    """For each key, fit the model's parameters to the key's table of measurements. Return the
    fitted parameters by key. Raises NoData.
    """
    return {key: family.fit(key) for key in keys}
