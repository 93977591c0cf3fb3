"""Runs of a target over so many texts, resumed where the last one stopped.

``FOLDER/STAGE`` holds the texts that reached new code, what failed, and ``state.json``: how many
inputs there were in all. Children are replaced now and then, and when one dies, which is a failure.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from hostile_text.targets import STAGES

RUNS_OF_A_CHILD = {"parse": 50_000, "isa": 5_000, "llvm": 400}
GOALS = {"parse": 2_000_000, "isa": 100_000, "llvm": 10_000}
CHILD = ("hostile_text.guided",)
_SUPPORT = Path(__file__).parents[1]


@dataclass
class State:
    """What was done so far, all runs together."""

    runs: int = 0
    children: int = 0
    seconds: float = 0.0
    deaths: int = 0
    reached: dict[str, int] = field(default_factory=dict)

    def add(self, runs: int, reached: dict[str, int]) -> None:
        self.runs += runs
        for name, count in reached.items():
            self.reached[name] = self.reached.get(name, 0) + count


class Campaign:
    """Guided runs of one stage; ``say`` hears lines for people."""

    def __init__(self, stage: str, folder: Path, say: Callable[[str], None] = print) -> None:
        if stage not in STAGES:
            raise ValueError(f"no stage {stage!r}: one of {', '.join(STAGES)}")
        self._stage = stage
        self._folder = folder / "text" / stage
        self._folder.mkdir(parents=True, exist_ok=True)
        self._say = say
        self.state = self._resumed()

    def run(self, n: int, minutes: float) -> State:
        """Run ``n`` more inputs or for so long, whichever ends first."""
        until = time.monotonic() + minutes * 60
        end = self.state.runs + n
        while self.state.runs < end and time.monotonic() < until:
            runs = min(RUNS_OF_A_CHILD[self._stage], end - self.state.runs)
            self._child(runs, until)
            self._save()
            self._say(self.summary())
        return self.state

    def found(self) -> list[Path]:
        """Return what failed in any run."""
        folder = self._folder / "found"
        return sorted(folder.iterdir()) if folder.is_dir() else []

    def summary(self) -> str:
        state = self.state
        reached = ", ".join(f"{count} {name}" for name, count in sorted(state.reached.items()))
        texts = sum(1 for _ in (self._folder / "corpus").glob("*"))
        failed = {path.stem for path in self.found()}
        return (
            f"{self._stage}: {state.runs} of {GOALS[self._stage]} inputs ({reached}), "
            f"{texts} texts kept, {len(failed)} kinds of failure, {state.deaths} children died, "
            f"{state.runs / max(state.seconds, 1e-9):.0f}/s"
        )

    def _child(self, runs: int, until: float) -> None:
        report = self._folder / "child.json"
        report.unlink(missing_ok=True)
        began = time.monotonic()
        self.state.children += 1
        command = [sys.executable, "-m", *CHILD, self._stage]
        command += [str(self._folder), str(runs), str(self.state.children)]
        with (self._folder / "child.log").open("wb") as log:
            paths = os.environ | {"PYTHONPATH": os.pathsep.join((str(_SUPPORT), *sys.path))}
            child = subprocess.Popen(command, stdout=log, stderr=log, env=paths)
            ended_by_us = False
            try:
                child.wait(max(until - time.monotonic(), 1.0))
            except subprocess.TimeoutExpired:
                ended_by_us = True
            finally:
                child.kill()
                child.wait()
        self.state.seconds += time.monotonic() - began
        if report.exists():
            said = json.loads(report.read_text())
            self.state.add(said["runs"], said["reached"])
        if child.returncode != 0 and not ended_by_us:
            self.state.deaths += 1
            (self._folder / "found").mkdir(exist_ok=True)
            kept = self._folder / "found" / f"child-{self.state.children}.log"
            kept.write_bytes((self._folder / "child.log").read_bytes()[-20_000:])
            self._say(f"child {self.state.children} ended with {child.returncode}: {kept}")

    def _resumed(self) -> State:
        path = self._folder / "state.json"
        return State(**json.loads(path.read_text())) if path.exists() else State()

    def _save(self) -> None:
        new = self._folder / "state.new"
        new.write_text(json.dumps(vars(self.state)))
        os.replace(new, self._folder / "state.json")
