"""A run of the fuzzer over a sequence of kernels, with its position, findings and speed.

All state is in one folder: ``state.json`` with the position in each sequence, and a folder for
each kernel that failed.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from support.fuzzers.fuzzing import shrink, trial, workers
from support.fuzzers.fuzzing.trial import Finding, Report
from support.fuzzers.fuzzing.workers import Task, Workers

_SEQUENCE = 1 << 32  # kernels of one sequence
_SHRUNK_PER_SIGNATURE = 2


def kernel_seed(sequence: int, index: int) -> int:
    """Return the seed of a sequence's kernel."""
    return sequence * _SEQUENCE + index


@dataclass(frozen=True)
class Options:
    """The extent of a run: ``n`` kernels of a sequence or ``minutes``, whichever ends first."""

    sequence: int
    n: int
    minutes: float
    jobs: int
    plan_count: int = 0  # besides the default plan; 0: a single plan, selected by the seed
    shrink_seconds: float = 60.0
    meet: bool = False  # kernels whose threads synchronize at barriers
    calls: bool = False  # kernels with functions and local arrays
    folder: Path | None = None  # None: nothing is resumed or stored


class Subject(Protocol):
    """The kind of programs that a campaign examines, and how they are stored and shrunk."""

    @property
    def name(self) -> str:
        """The suffix of a sequence's number in the state."""

    def workers(self, jobs: int, max_stage_seconds: float) -> Workers: ...

    def tasks(self, seeds: Iterator[int]) -> Iterator[Any]: ...

    def describe(self, task: Any) -> str:
        """Return a description of a task's launch."""

    def save(self, task: Any, place: Path) -> None:
        """Write the files of a task that failed."""

    def shrunk(self, pool: Workers, task: Any, finding: Finding, place: Path) -> str:
        """Write a smaller task that fails in the same way; return a description with its size."""


class Kernels:
    """Random kernels of PTX (``random_kernels``)."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self.name = "-meet" if options.meet else "-calls" if options.calls else ""

    def workers(self, jobs: int, max_stage_seconds: float) -> Workers:
        return Workers(jobs, max_stage_seconds)

    def tasks(self, seeds: Iterator[int]) -> Iterator[Task]:
        options = self._options
        return workers.tasks(seeds, options.plan_count, meet=options.meet, calls=options.calls)

    def describe(self, task: Task) -> str:
        return f"block {task.kernel.block}"

    def save(self, task: Task, place: Path) -> None:
        (place / "kernel.ptx").write_text(task.kernel.text)

    def shrunk(self, pool: Workers, task: Task, finding: Finding, place: Path) -> str:
        fails = shrink.still_fails(pool, finding, (trial.plan_named(finding.plan),))
        kernel = replace(task.kernel, plan=finding.plan)
        small = shrink.shrink(kernel, fails, self._options.shrink_seconds)
        (place / "shrunk.ptx").write_text(small.text)
        return f"{len(small.code.splitlines())} lines: {place / 'shrunk.ptx'}"


@dataclass
class Totals:
    """The totals of this run; ``before`` is the number of kernels in earlier runs of the
    sequence.
    """

    kernels: int = 0
    runs: int = 0
    faulted: int = 0
    seconds: float = 0.0
    refused: Counter[str] = field(default_factory=Counter)
    unordered: int = 0
    failed: dict[int, list[Finding]] = field(default_factory=dict)
    before: int = 0

    def add(self, report: Report) -> None:
        self.kernels += 1
        self.runs += report.runs
        self.faulted += report.faulted
        self.unordered += bool(report.unordered)
        if report.refused:
            self.refused[report.refused] += 1
        if report.findings:
            self.failed[report.seed] = report.findings

    def summary(self) -> str:
        rate = self.kernels / self.seconds * 60 if self.seconds else 0.0
        parts = [
            f"{self.kernels} kernels",
            f"{self.runs} native runs",
            f"{len(self.failed)} failed",
            f"{rate:.0f} kernels/min",
            f"{self.faulted} ended by a fault",
            *(f"{count} not run ({what})" for what, count in self.refused.items()),
        ]
        if self.before:
            parts.insert(1, f"{self.before + self.kernels} in all runs")
        if self.unordered:
            parts.append(f"{self.unordered} without one meaning")
        return ", ".join(parts)


class Campaign:
    """A run with ``options``; ``say`` receives lines to print."""

    def __init__(
        self,
        options: Options,
        say: Callable[[str], None] = print,
        subject: Subject | None = None,
    ) -> None:
        self._options = options
        self._subject: Subject = subject or Kernels(options)
        self._name = f"{options.sequence}{self._subject.name}"
        self._say = say
        self._totals = Totals()
        self._signatures: Counter[str] = Counter()
        self._pending: set[int] = set()
        self._next = self._totals.before = self._resumed()

    def run(self) -> Totals:
        """Examine kernels until the budget is spent, then shrink those that failed."""
        options, began = self._options, time.monotonic()
        until = began + options.minutes * 60
        printed = began
        failed: list[tuple[Any, Report]] = []
        first = self._next
        try:
            with self._subject.workers(options.jobs, workers.MAX_STAGE_SECONDS) as pool:
                todo = self._subject.tasks(self._seeds(first + options.n))

                def spent() -> bool:  # at least one kernel, however slow the machine
                    return self._totals.kernels > 0 and time.monotonic() > until

                for task, report in pool.examine(todo, spent):
                    self._pending.discard(report.seed)
                    self._totals.add(report)
                    self._totals.seconds = time.monotonic() - began
                    if report.findings:
                        failed.append((task, report))
                        self._found(task, report)
                    if time.monotonic() > printed + 30:
                        printed = time.monotonic()
                        self._say(self._totals.summary())
                        self._save()
        finally:
            self._save()
        self._totals.seconds = time.monotonic() - began
        if options.folder is not None and options.shrink_seconds > 0:
            self._shrink(failed)
        return self._totals

    def _seeds(self, end: int) -> Iterator[int]:
        while self._next < end:
            seed = kernel_seed(self._options.sequence, self._next)
            self._pending.add(seed)
            self._next += 1
            yield seed

    def _found(self, task: Any, report: Report) -> None:
        for finding in report.findings:
            self._signatures[finding.signature()] += 1
        finding = report.findings[0]
        said = finding.detail.partition("\n")[0][:160]
        self._say(f"kernel {report.seed}, {self._subject.describe(task)}: {finding.kind}: {said}")
        if self._options.folder is None:
            return
        place = self._options.folder / str(report.seed)
        place.mkdir(parents=True, exist_ok=True)
        self._subject.save(task, place)
        findings = [f"{f.kind}\nplan: {f.plan}\n{f.detail}\n" for f in report.findings]
        (place / "report.txt").write_text("\n".join(findings))

    def _shrink(self, failed: list[tuple[Any, Report]]) -> None:
        shrunk: Counter[str] = Counter()
        assert self._options.folder is not None
        with self._subject.workers(1, max_stage_seconds=60) as pool:
            for task, report in failed:
                finding = report.findings[0]
                signature = finding.signature()
                if shrunk[signature] >= _SHRUNK_PER_SIGNATURE:
                    continue
                shrunk[signature] += 1
                place = self._options.folder / str(report.seed)
                self._say(f"shrunk to {self._subject.shrunk(pool, task, finding, place)}")

    def signatures(self) -> Counter[str]:
        """Return the number of findings of each kind."""
        return self._signatures

    # --- position in a sequence ---

    def _resumed(self) -> int:
        return int(self._state().get(self._name, 0))

    def _state(self) -> dict[str, int]:
        folder = self._options.folder
        if folder is None or not (folder / "state.json").exists():
            return {}
        state: dict[str, int] = json.loads((folder / "state.json").read_text())
        return state

    def _save(self) -> None:
        """Store the first unfinished kernel as the position at which the next run resumes."""
        if self._options.folder is None:
            return
        self._options.folder.mkdir(parents=True, exist_ok=True)
        unfinished = min((seed % _SEQUENCE for seed in self._pending), default=self._next)
        state = self._state() | {self._name: unfinished}
        target = self._options.folder / "state.json"
        temporary = target.with_suffix(".new")
        temporary.write_text(json.dumps(state))
        os.replace(temporary, target)
