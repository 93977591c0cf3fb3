"""The families that are fitted and judged, and how far each is off."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from vgpu_sim.perf import parameters
from vgpu_sim.perf.judge import attention, baselines, collective, encoder, gemm, latent, moe, stream
from vgpu_sim.perf.judge.accuracy import Accuracy
from vgpu_sim.perf.judge.family import Family
from vgpu_sim.perf.judge.measurements import Table
from vgpu_sim.perf.parameters import Fitted
from vgpu_sim.perf.stack import Stack

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
class Wrong:
    """A shape whose prediction is far off, and the cause that is suspected: the largest part."""

    shape: dict[str, object]
    measured: float
    predicted: float
    suspect: str

    @property
    def error(self) -> float:
        """Predicted over measured, less one, in percent."""
        return 100 * (self.predicted / self.measured - 1)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a family's predictions for one table compare; arrays hold the judged rows."""

    family: Family
    key: str
    accuracy: Accuracy
    measured: np.ndarray
    predicted: np.ndarray
    causes: dict[str, np.ndarray]
    worst: tuple[Wrong, ...]
    fitted: Fitted
    excluded: int
    donor: str | None
    corrected: Accuracy | None
    baselines: dict[str, float]

    @property
    def corrected_goal(self) -> float | None:
        """The largest mean error that is wanted with the residual, in percent."""
        return self.family.corrected_goals.get(self.key) if self.corrected else None

    @property
    def better_baselines(self) -> list[str]:
        """Baselines whose mean error is below that of the prediction a user gets."""
        own = (self.corrected or self.accuracy).mape
        return [name for name, mape in self.baselines.items() if mape < own]

    @property
    def goal(self) -> float | None:
        """The largest mean error that is wanted, in percent; none with another's parameters."""
        return None if self.donor else self.family.goals.get(self.key)

    @property
    def met(self) -> bool | None:
        """Whether the goals are, if there is one."""
        if self.goal is None:
            return None
        met = round(self.accuracy.mape, 1) <= self.goal
        if self.corrected and self.corrected_goal:
            met = met and round(self.corrected.mape, 1) <= self.corrected_goal
        return met


def judge(family: Family, key: str, most: int | None = None, donor: str | None = None) -> Verdict:
    """Compare predictions with rows that no fit has seen; ``most`` rows of them, evenly.

    With a ``donor`` the parameters are another board's: what a board that nobody measured gets.

    Raises:
        NoData: the measurements are not installed.
        UnknownModel: nothing was fitted for the key.
    """
    board, _, rest = key.partition("/")
    fitted = parameters.load(family.name, f"{donor or board}/{rest}")
    every = family.table(key)
    table = every.rows(~family.fitted_rows(every))
    if most is not None and len(table) > most:
        table = table.rows(np.linspace(0, len(table) - 1, most).astype(int))
    rows, all_rows = family.rows(key, table), np.arange(len(table))
    stack = rows.stack(fitted.values, all_rows)
    predicted, measured = stack.total, table.columns["us"]
    accuracy = Accuracy.of(measured, predicted, fitted.half_width(predicted))
    corrected = None
    if fitted.residual is not None and donor is None:
        times = fitted.residual.applied(stack, rows.sizes(all_rows)).total
        corrected = Accuracy.of(measured, times, fitted.corrected_half_width(times))
    worst = _worst(family, table, stack)
    return Verdict(
        *(
            family,
            key,
            accuracy,
            measured,
            predicted,
            stack.causes,
            worst,
            fitted,
            every.excluded,
            donor,
            corrected,
            _baselines(family, key, every, table) if donor is None else {},
        )
    )


def _baselines(family: Family, key: str, every: Table, unseen: Table) -> dict[str, float]:
    training = every.rows(family.fitted_rows(every))
    return baselines.errors(family.known(key, training), family.known(key, unseen))


def _worst(family: Family, table: Table, stack: Stack) -> tuple[Wrong, ...]:
    measured, predicted = table.columns["us"], stack.total
    order = np.argsort(-np.abs(np.log(predicted / measured)))[:WORST]
    return tuple(
        Wrong(
            {name: table.columns[name][[i]].tolist()[0] for name in family.shape},
            float(measured[i]),
            float(predicted[i]),
            _suspect(stack.at(int(i)), float(measured[i] - predicted[i])),
        )
        for i in order
    )


def _suspect(causes: dict[str, float], missing: float) -> str:
    """The largest cause for what is predicted too much; what is missing, no cause explains."""
    largest = max(causes, key=lambda name: causes[name])
    if missing > 0:
        return f"another kernel than the best, or {largest}"
    return largest


def fit(family: Family, keys: Iterable[str]) -> dict[str, Fitted]:
    """Fit tables. Raises NoData."""
    return {key: family.fit(key) for key in keys}
