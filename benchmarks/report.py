"""Results as values, as a table for users and as JSON for programs."""

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Row:
    """One measured figure; without a ``goal`` it is only printed.

    ``at_least``: the goal is a lower bound, otherwise an upper one; ``missing``: the reason why
    there is no figure.
    """

    section: str
    name: str
    measured: float
    unit: str
    goal: float | None = None
    at_least: bool = False
    missing: str = ""

    @property
    def verdict(self) -> str:
        """The verdict on the goal: met, MISSED, NOT MEASURED, or empty without a goal."""
        if self.missing:
            return "NOT MEASURED"
        if self.goal is None:
            return ""
        met = self.measured >= self.goal if self.at_least else self.measured <= self.goal
        return "met" if met else "MISSED"

    @property
    def goal_text(self) -> str:
        """The goal as text."""
        if self.goal is None:
            return ""
        return f"{'>=' if self.at_least else '<='} {self.goal:g} {self.unit}"


@dataclass(frozen=True, slots=True)
class Section:
    """The rows of one section; ``skipped`` is the reason why it was not run."""

    name: str
    rows: tuple[Row, ...] = ()
    skipped: str = ""


def machine() -> str:
    """Return the machine's class in one line."""
    model = platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    cores = len(os.sched_getaffinity(0))
    load = os.getloadavg()[0]
    return (
        f"{cores} cores of {model}, Linux {platform.release()}, Python "
        f"{platform.python_version()}, load {load:.2f}"
    )


def table(sections: Sequence[Section]) -> str:
    """Return all results as a table, misses included."""
    lines = [("", "measured", "goal", "verdict")]
    for section in sections:
        lines.append(
            (f"{section.name}:", section.skipped and f"NOT RUN, {section.skipped}", "", "")
        )
        lines += [
            (f"  {row.name}", _measured_text(row), row.goal_text, _verdict(row))
            for row in section.rows
        ]
    widths = [max(len(line[0]) for line in lines)]
    widths += [max(len(line[i]) for line in lines if not line[1].startswith("NOT")) for i in (1, 2)]
    return "\n".join(
        f"{name:{widths[0]}}  {measured:{widths[1]}}  {goal:{widths[2]}}  {verdict}".rstrip()
        for name, measured, goal, verdict in lines
    )


def document(sections: Sequence[Section]) -> str:
    """Return all results as JSON."""
    return json.dumps(
        {
            "machine": machine(),
            "sections": [
                {
                    "name": section.name,
                    "skipped": section.skipped,
                    "rows": [{**asdict(row), "verdict": row.verdict} for row in section.rows],
                }
                for section in sections
            ],
        },
        indent=2,
    )


def _measured_text(row: Row) -> str:
    return "-" if row.missing else f"{_figure(row.measured)} {row.unit}"


def _verdict(row: Row) -> str:
    return f"{row.verdict}, {row.missing}" if row.missing else row.verdict


def _figure(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
