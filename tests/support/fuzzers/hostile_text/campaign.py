"""Runs of a target on many texts, resumed where the last one stopped.

``FOLDER/STAGE`` holds the texts that reached new code, the failures, and ``state.json``: the total
number of inputs. Children share the texts. They are replaced at intervals, and when one dies, which
is a failure.
"""

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.fuzzers.hostile_text.targets import STAGES

RUNS_OF_A_CHILD = {"parse": 50_000, "isa": 10_000, "llvm": 2_000}
GOALS = {"parse": 2_000_000, "isa": 100_000, "llvm": 10_000}
CHILD = ("support.fuzzers.hostile_text.guidance",)
_TESTS = Path(__file__).parents[3]
_POLLED_SECONDS = 0.1
_KEPT_OF_A_LOG = 20_000


@dataclass
class State:
    """The totals of all runs; ``seconds`` are the sum over all children."""

    runs: int = 0
    children: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    deaths: int = 0
    reached: dict[str, int] = field(default_factory=dict)

    def add(self, said: dict[str, Any]) -> None:
        """Add a child's report."""
        self.runs += said["runs"]
        self.cpu_seconds += said.get("cpu_seconds", 0.0)
        for name, count in said["reached"].items():
            self.reached[name] = self.reached.get(name, 0) + count


class Campaign:
    """Guided runs of one stage in ``jobs`` processes; ``say`` receives lines to print."""

    def __init__(
        self, stage: str, folder: Path, say: Callable[[str], None] = print, jobs: int = 1
    ) -> None:
        if stage not in STAGES:
            raise ValueError(f"no stage {stage!r}: one of {', '.join(STAGES)}")
        self._stage = stage
        self._folder = folder / "text" / stage
        self._folder.mkdir(parents=True, exist_ok=True)
        self._say = say
        self._jobs = jobs
        self.state = self._resumed()

    def run(self, n: int, minutes: float) -> State:
        """Run ``n`` more inputs or for ``minutes``, whichever ends first."""
        until = time.monotonic() + minutes * 60
        end = self.state.runs + n
        children: list[_Child] = []
        try:
            while True:
                left = end - self.state.runs - sum(child.runs for child in children)
                idle = self._jobs - len(children)
                if idle and left > 0 and time.monotonic() < until:
                    runs = min(RUNS_OF_A_CHILD[self._stage], math.ceil(left / idle))
                    children.append(self._start(runs))
                    continue
                if not children:
                    return self.state
                time.sleep(_POLLED_SECONDS)
                for child in [c for c in children if c.has_ended(until)]:
                    children.remove(child)
                    self._add_results(child)
        finally:
            for child in children:
                child.end()
                self._add_results(child)

    def list_findings(self) -> list[Path]:
        """Return the files of all failures in any run."""
        folder = self._folder / "found"
        return sorted(folder.iterdir()) if folder.is_dir() else []

    def summary(self) -> str:
        """Return the totals of all runs in one line."""
        state = self.state
        reached = ", ".join(f"{count} {name}" for name, count in sorted(state.reached.items()))
        texts = sum(1 for _ in (self._folder / "corpus").glob("*"))
        failed = {path.stem for path in self.list_findings()}
        runs = max(state.runs, 1)
        return (
            f"{self._stage}: {state.runs} of {GOALS[self._stage]} inputs ({reached}), "
            f"{texts} texts kept, {len(failed)} kinds of failure, {state.deaths} children died, "
            f"{state.runs / max(state.seconds, 1e-9):.0f}/s of each job, "
            f"{state.cpu_seconds / runs * 1000:.1f} ms of CPU time each"
        )

    def _start(self, runs: int) -> "_Child":
        self.state.children += 1
        return _Child(self._stage, self._folder, runs, self.state.children)

    def _add_results(self, child: "_Child") -> None:
        """Add the results of a child that has ended, and record how it died if it did."""
        self.state.seconds += time.monotonic() - child.began
        said = child.last_report()
        if said is not None:
            self.state.add(said)
        if child.died:
            self.state.deaths += 1
            (self._folder / "found").mkdir(exist_ok=True)
            kept = self._folder / "found" / f"child-{child.number}.log"
            kept.write_bytes(child.log.read_bytes()[-_KEPT_OF_A_LOG:])
            self._say(f"child {child.number} ended with {child.status}: {kept}")
        child.clear()
        self._save()
        self._say(self.summary())

    def _resumed(self) -> State:
        path = self._folder / "state.json"
        return State(**json.loads(path.read_text())) if path.exists() else State()

    def _save(self) -> None:
        new = self._folder / "state.new"
        new.write_text(json.dumps(vars(self.state)))
        os.replace(new, self._folder / "state.json")


class _Child:
    """A process that runs a number of inputs and records how many it has run; an input may crash
    it.
    """

    def __init__(self, stage: str, folder: Path, runs: int, number: int) -> None:
        self.runs, self.number = runs, number
        self.began = time.monotonic()
        self.log = folder / f"child-{number}.log"
        self._report = folder / f"child-{number}.json"
        self._ended_by_us = False
        command = [sys.executable, "-m", *CHILD, stage, str(folder), str(runs), str(number)]
        paths = os.environ | {"PYTHONPATH": os.pathsep.join((str(_TESTS), *sys.path))}
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=paths)

    def has_ended(self, until: float) -> bool:
        """Return whether it has ended; after ``until`` it is killed, but not in its first
        second.
        """
        if self._process.poll() is None and time.monotonic() > max(until, self.began + 1):
            self.end()
        return self._process.poll() is not None

    def end(self) -> None:
        """Kill it in any state; the runs that it has recorded count."""
        self._ended_by_us = self._process.poll() is None
        self._process.kill()
        self._process.wait()

    @property
    def status(self) -> int:
        """The exit status, or the negated signal number."""
        return int(self._process.wait())

    @property
    def died(self) -> bool:
        """Return whether it failed or crashed by itself."""
        return self.status != 0 and not self._ended_by_us

    def last_report(self) -> dict[str, Any] | None:
        """Return its last report, None if there is none."""
        if not self._report.exists():
            return None
        said: dict[str, Any] = json.loads(self._report.read_text())
        return said

    def clear(self) -> None:
        """Remove its files."""
        self.log.unlink()
        self._report.unlink(missing_ok=True)
