"""The outcome of each test of a file, from the lines that the reporter wrote."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one test ended, and the driver calls that failed meanwhile (``name=code``)."""

    test: str
    outcome: str
    headline: str = ""
    message: str = ""
    output: str = ""
    calls: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(slots=True)
class FileRun:
    """What is known of one test file: its tests, their outcomes, and whether it ended."""

    tests: list[str] = field(default_factory=list)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    has_ended: bool = False

    def pending(self) -> list[str]:
        """Return the tests without an outcome, in order."""
        return [test for test in self.tests if test not in self.outcomes]

    def count(self) -> dict[str, int]:
        """Count the outcomes."""
        return dict(Counter(outcome.outcome for outcome in self.outcomes.values()))


def read_run(lines: Iterable[str], ended_by: str = "crashed") -> FileRun:
    """Read the lines of one process; a test that was started and not finished gets ``ended_by``."""
    run = FileRun()
    started: str | None = None
    for line in lines:
        event = json.loads(line)
        kind = event.pop("event")
        if kind == "collected":
            run.tests = event["tests"]
        elif kind in ("broken", "left out"):
            _add(run, event | {"outcome": "error" if kind == "broken" else "skipped"})
        elif kind == "started":
            started = event["test"]
        elif kind == "finished":
            started = None
            _add(run, event)
        elif kind == "ended":
            run.has_ended = True
    if started is not None:
        _add(run, {"test": started, "outcome": ended_by})
    return run


def _add(run: FileRun, event: Mapping[str, Any]) -> None:
    run.outcomes[event["test"]] = Outcome(**{**event, "calls": tuple(event.get("calls", ()))})
