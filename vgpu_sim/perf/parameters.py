"""Physical parameters of a model: names, units, bounds, and the fitted values for each board."""

import functools
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib import resources
from typing import Final

import numpy as np

from boards import RECORDS
from vgpu_sim.perf.errors import UnknownModel
from vgpu_sim.perf.residual import Residual
from vgpu_sim.records import dataclass

Values = Mapping[str, float]
FILES: Final = resources.files("vgpu_sim.perf") / "fitted"
# Types without measurements, and the types whose parameters they use, with their own rates and
# sizes.
_ALIKE: Final = {"fp16": "bf16", "tf32": "bf16"}
_SAME_RATE: Final = ("fp16",)
_LISTS: Final = re.compile(r"\[[^\[\]]*\]")  # innermost JSON values, written on one line each


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a model: a physical quantity with bounds for the fit."""

    name: str
    unit: str
    start: float
    low: float
    high: float
    meaning: str


@dataclass(frozen=True, slots=True)
class Fitted:
    """The result of fitting a model's parameters.

    ``covariance`` is that of the logarithms of the parameters' values, in the order of ``names``.
    ``scatter`` holds pairs: a time in microseconds, and the 90th percentile of |ln(predicted /
    measured)| for measurements near that time. It comes from cross-validation: each measurement is
    predicted by a fit that did not use the measurement's fold. ``note`` states limits of the fit.
    """

    values: dict[str, float]
    names: tuple[str, ...]
    covariance: tuple[tuple[float, ...], ...]
    scatter: tuple[tuple[float, float], ...]
    rows: int
    source: str
    note: str = ""
    residual: Residual | None = None

    def half_width(self, us: np.ndarray) -> np.ndarray:
        """Return half the width of the 90 % interval of ln(time), for times in microseconds."""
        return _interpolate(self.scatter, us)

    def corrected_half_width(self, us: np.ndarray) -> np.ndarray:
        """Return half the width of the 90 % interval of ln(time) after the residual is applied, for
        times in microseconds.
        """
        return _interpolate(self.residual.scatter if self.residual else self.scatter, us)


def _interpolate(scatter: tuple[tuple[float, float], ...], us: np.ndarray) -> np.ndarray:
    at, width = np.array(scatter).T
    return np.asarray(np.interp(np.log(us), np.log(at), width))


def starts(parameters: Iterable[Parameter]) -> dict[str, float]:
    """Return the start values of parameters, by name."""
    return {parameter.name: parameter.start for parameter in parameters}


def load(family: str, key: str) -> Fitted:
    """Return the parameters fitted for ``key`` ("BOARD/TYPE/LIBRARY") of a family.

    Raises:
        UnknownModel: no parameters were fitted for the key; the message lists the fitted keys.
    """
    table = _table(family)
    if key not in table:
        raise UnknownModel(f"no parameters were fitted for {family} on {key}; {_there(family)}")
    return table[key]


def _there(family: str) -> str:
    return f"there are parameters for {', '.join(sorted(_table(family)))}"


def nearest(family: str, board: str, dtype: str, library: str) -> Fitted:
    """Return the parameters fitted for a board. If there are none, return those of a sibling board,
    with a note that names the sibling.

    Raises:
        UnknownModel: neither exists.
    """
    measured = _donor_of(family, board)
    like = _ALIKE.get(dtype, dtype)
    key = f"{measured}/{like}/{library}"
    if key not in _table(family):
        sibling = f" nor on its sibling {measured}" if measured != board else ""
        raise UnknownModel(
            f"no parameters were fitted for {family} on {board}{sibling} ({dtype});"
            f" {_there(family)}"
        )
    fitted = load(family, key)
    notes = []
    if measured != board:
        notes.append(f"no measurements of {board}: parameters and interval are those of {measured}")
        fitted = replace(fitted, residual=None)
    if like != dtype:
        notes.append(f"{dtype} was not measured: taken to run as {like} does, at its own rate")
        fitted = fitted if dtype in _SAME_RATE else replace(fitted, residual=None)
    return replace(fitted, note="; ".join(notes))


def _donor_of(family: str, board: str) -> str:
    """Return the board whose parameters of a family this board uses, according to their records.

    A board without measurements uses those of its sibling. If the family's tables have none for
    the sibling either, it uses a donor's: parameters of streams are shares of the data sheet's
    rates.
    """
    record = RECORDS.get(board)
    if record is not None and record.performance.sibling is not None:
        record = RECORDS[record.performance.sibling]
    if record is None:
        return board
    return record.performance.lenders.get(family, record.key)


@functools.cache
def _table(family: str) -> dict[str, Fitted]:
    return read((FILES / f"{family}.json").read_text())


def read(text: str) -> dict[str, Fitted]:
    """Parse the text of a file of fits; return the fits by key."""
    return {
        key: Fitted(
            row["values"],
            tuple(row["names"]),
            tuple(map(tuple, row["covariance"])),
            tuple(map(tuple, row["scatter"])),
            row["rows"],
            row["source"],
            residual=Residual.of_json(row["residual"]) if "residual" in row else None,
        )
        for key, row in json.loads(text).items()
    }


def render(fitted: Mapping[str, Fitted]) -> str:
    """Return the text of a file of fits: sorted, with five significant digits."""

    def round_figure(value: float) -> float:
        return float(f"{value:.5g}")

    table = {
        key: {
            "values": {name: round_figure(value) for name, value in fit.values.items()},
            "names": fit.names,
            "covariance": [[float(f"{v:.2g}") for v in row] for row in fit.covariance],
            "scatter": [[round_figure(v) for v in pair] for pair in fit.scatter],
            "rows": fit.rows,
            "source": fit.source,
            **({"residual": fit.residual.as_json()} if fit.residual else {}),
        }
        for key, fit in sorted(fitted.items())
    }
    lines = json.dumps(table, indent=1, sort_keys=True)
    return _LISTS.sub(lambda match: " ".join(match[0].split()), lines) + "\n"
