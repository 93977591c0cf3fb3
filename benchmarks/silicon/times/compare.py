"""Compares measured times with predictions, by class of kernels."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import exp, log
from statistics import median
from typing import Any, Final

from benchmarks.silicon.times.predict import at_clock
from vgpu_sim.perf.kernels import Chip, Counts, estimate

_WARM_BYTES: Final = 4 << 10  # below, whether L2 is cold makes no difference
_EMPTY: Final = "empty, 1 blocks of 32"
Results = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Row:
    """One point: its measured and its predicted time in us, at the measured clock."""

    name: str
    kind: str
    measured: float
    predicted: float
    mhz: float
    bound_by: str

    @property
    def ratio(self) -> float:
        """Predicted over measured."""
        return self.predicted / self.measured

    @property
    def error(self) -> float:
        """The size of the error, the same for twice as long and for half: |ln ratio|."""
        return abs(log(self.ratio))


def is_for_fitting(name: str) -> bool:
    """True for the half of the points that a fit may use; the other half only checks it."""
    return hashlib.blake2b(name.encode(), digest_size=4).digest()[0] % 2 == 0


def measured_us(measured: Results, name: str, touched: float) -> float:
    """Return the measured time of a point: with cold caches, or back to back in a graph.

    The model assumes that L2 is cold. The time is that of one launch between events after a flush,
    less what events add to an empty kernel. If the kernel touches only a few bytes, its shortest
    time in a graph may be less.
    """
    timing = measured[name]
    cold = float(timing["cold_min"] - timing["between_events"])
    return min(cold, float(timing["warm_min"])) if touched < _WARM_BYTES else cold


def with_events(measured: Results) -> dict[str, dict[str, Any]]:
    """Return a run's results, each with the time that events add to an empty kernel of the run."""
    empty = measured[_EMPTY]
    added = empty["cold_min"] - empty["warm_min"]
    return {name: {**timing, "between_events": added} for name, timing in measured.items()}


def rows_of(
    chip: Chip, points: Iterable[Mapping[str, Any]], measured: Results, predicted: Results
) -> list[Row]:
    """Return the rows of all points that were both measured and predicted, not only from below."""
    rows = []
    for point in points:
        name = point["name"]
        timing, guess = measured.get(name, {}), predicted.get(name, {})
        if "warm_min" not in timing or "counts" not in guess or guess["at_least"]:
            continue
        counts = Counts.of(guess["counts"])
        mhz = timing["clocks"][0] or chip.ghz * 1e3
        again = estimate(at_clock(chip, mhz), counts)
        touched = counts.unique_load_bytes + counts.unique_store_bytes
        time = measured_us(measured, name, touched)
        rows.append(Row(name, point["kind"], time, again.us, mhz, again.bound_by))
    return rows


def summary(rows: Iterable[Row]) -> list[str]:
    """Return a Markdown table: one row per class, with the errors in percent."""
    kinds: dict[str, list[Row]] = {}
    listed = list(rows)
    for row in listed:
        kinds.setdefault(row.kind, []).append(row)
    lines = [
        "| class | points | median error | 90th percentile | predicted / measured | worst |",
        "|---|---|---|---|---|---|",
    ]
    for kind, class_rows in [*sorted(kinds.items()), ("all", listed)]:
        errors = sorted(row.error for row in class_rows)
        worst = max(class_rows, key=lambda row: row.error)
        lines.append(
            f"| {kind} | {len(class_rows)} | {_percent(median(errors))} %"
            f" | {_percent(errors[min(len(errors) - 1, int(0.9 * len(errors)))])} %"
            f" | {exp(median(log(row.ratio) for row in class_rows)):.2f}"
            f" | {worst.name}: {worst.ratio:.2f} |"
        )
    return lines


def _percent(error: float) -> str:
    return f"{100 * (exp(error) - 1):.0f}"


def listing(rows: Iterable[Row]) -> list[str]:
    """Return one line per point."""
    return [
        f"{row.kind:26} {row.name:52} {row.measured:10.2f} us, predicted {row.predicted:10.2f}"
        f" ({row.ratio:5.2f}) {'fit  ' if is_for_fitting(row.name) else 'check'}"
        f" {row.mhz:.0f} MHz {row.bound_by}"
        for row in rows
    ]
