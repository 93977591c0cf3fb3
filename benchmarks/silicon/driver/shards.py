"""Answers groups of questions in worker processes, so that a crash costs one answer.

A worker writes one line of JSON when it begins a question and one with the answer. The supervisor
starts another worker behind the question that a worker did not survive.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CONTEXT_LOST = 77
"""Exit status of a worker whose context no longer works: the next questions need a new one."""

Ask = Callable[[str], Any]


@dataclass(slots=True)
class Shard:
    """The part ``index`` of ``count`` of a group, and the worker that answers it."""

    group: str
    index: int
    count: int
    folder: Path
    silence_s: float
    skip: int = 0
    process: subprocess.Popen[bytes] | None = None
    ended: dict[str, str] = field(default_factory=dict)
    seen: tuple[int, float] = (0, 0.0)

    @property
    def path(self) -> Path:
        return self.folder / f"{self.group}.{self.index}.jsonl"

    def start(self) -> None:
        """Start a worker behind the questions that were begun."""
        part = f"{self.index}/{self.count}"
        command = [sys.executable, "-m", "benchmarks.silicon.driver", "answer", self.group]
        errors = (self.folder / f"{self.group}.{self.index}.err").open("ab")
        with errors:
            self.process = subprocess.Popen(
                [*command, part, str(self.skip), str(self.path)],
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                start_new_session=True,
            )
        self.seen = (self.size(), time.monotonic())

    def size(self) -> int:
        """Return how many bytes the workers have written."""
        return self.path.stat().st_size if self.path.exists() else 0

    def is_finished(self) -> bool:
        """Look after the worker; return whether all questions were begun and ended."""
        if self.process is None:
            return True
        status = self.process.poll()
        now_s = time.monotonic()
        if status is None:
            if self.size() != self.seen[0]:
                self.seen = (self.size(), now_s)
            elif now_s - self.seen[1] > self.silence_s:
                self.end("hung")
                self.start()
            return False
        if status == 0:
            self.process = None
            return True
        if not self.end("" if status == CONTEXT_LOST else describe(status)):
            self.process = None
            return True
        self.start()
        return False

    def end(self, reason: str) -> bool:
        """Stop the worker and skip what it began; return whether it had begun anything new."""
        if self.process is not None and self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has not made its session yet
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.kill()
            self.process.wait()
        begun = [row["begin"] for row in read_lines(self.path) if "begin" in row]
        if reason and begun:
            self.ended[begun[-1]] = reason
        moved = len(begun) > self.skip
        self.skip = len(begun)
        return moved


def describe(status: int) -> str:
    """Return how a worker ended: a signal's name, or its exit status."""
    return signal.Signals(-status).name if status < 0 else f"exit {status}"


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the complete lines of a worker's file."""
    if not path.exists():
        return []
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


def supervise(shards: list[Shard], until: float) -> None:
    """Run shards until all are answered or the monotonic clock shows ``until``."""
    for shard in shards:
        shard.start()
    running_shards = list(shards)
    while running_shards and time.monotonic() < until:
        running_shards = [shard for shard in running_shards if not shard.is_finished()]
        time.sleep(0.05)
    for shard in running_shards:
        shard.end("out of time")


def gather(shards: Iterable[Shard]) -> dict[str, Any]:
    """Return the answers by question; a question without answer has the reason."""
    answers: dict[str, Any] = {}
    for shard in shards:
        for row in read_lines(shard.path):
            if "key" in row:
                answers[row["key"]] = row["value"]
            else:
                answers.setdefault(row["begin"], "no answer")
        answers |= {key: f"ended: {why}" for key, why in shard.ended.items()}
    return answers


def remaining(names: list[str]) -> list[str]:
    """Return the questions that are not in the file SILICON_DONE, to continue a recording."""
    path = os.environ.get("SILICON_DONE")
    answered_names = set(Path(path).read_text(encoding="utf-8").splitlines()) if path else set()
    return [name for name in names if name not in answered_names]


def answer(names: list[str], ask: Ask, part: str, skip: int, path: Path) -> int:
    """Answer a part of a group's questions in this process; return its exit status."""
    index, count = (int(word) for word in part.split("/"))
    with path.open("a", encoding="utf-8", buffering=1) as out:
        for name in names[index::count][skip:]:
            out.write(json.dumps({"begin": name}) + "\n")
            try:
                value = ask(name)
            except ContextLost as lost:
                out.write(json.dumps({"key": name, "value": lost.value}) + "\n")
                return CONTEXT_LOST
            out.write(json.dumps({"key": name, "value": value}) + "\n")
    return 0


class ContextLost(Exception):
    """An answer after which this process can no longer use its context."""

    def __init__(self, value: Any) -> None:
        super().__init__("the context no longer works")
        self.value = value
