"""The test files that reach each line of C, so that a mutation runs only these.

A source that has changed since the recording counts as not recorded; a new test file is assumed
to reach it.
"""

import hashlib
import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Reach:
    """The hash of each source's text, and for each line where code begins the tests that execute
    it.
    """

    sources: dict[str, str] = field(default_factory=dict)
    lines: dict[str, dict[int, set[str]]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def reaching(self, path: Path, text: str, line: int) -> set[str] | None:
        """Return the recorded tests that reach a line of a source; None if it was not recorded."""
        name = str(path)
        if self.sources.get(name) != _hash(text):
            return None
        beginnings = sorted(self.lines.get(name, {}))
        before = bisect_right(beginnings, line)
        return self.lines[name][beginnings[before - 1]] if before else None

    def knows(self, test: str) -> bool:
        """Return whether a test file was recorded."""
        return test in self.seconds

    def add(self, test: str, seconds: float, reached: Mapping[str, Iterable[int]]) -> None:
        """Record the lines that a test file reaches, replacing its earlier record."""
        self.seconds[test] = round(seconds, 1)
        for lines in self.lines.values():
            for tests in lines.values():
                tests.discard(test)
        for name, numbers in reached.items():
            for number in numbers:
                self.lines[name][number].add(test)

    def begin(self, texts: Mapping[str, str], beginnings: Mapping[str, Iterable[int]]) -> None:
        """Register the current sources; records of changed ones are deleted."""
        for name, text in texts.items():
            if self.sources.get(name) != _hash(text):
                self.sources[name] = _hash(text)
                self.lines[name] = {}
            for number in beginnings.get(name, ()):
                self.lines[name].setdefault(number, set())

    def write(self, path: Path) -> None:
        """Write the records to a file."""
        lines = {
            name: {number: sorted(tests) for number, tests in found.items()}
            for name, found in self.lines.items()
        }
        whole = {"sources": self.sources, "lines": lines, "seconds": self.seconds}
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(whole), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> "Reach":
        """Read the records from a file; empty if there is none."""
        if not path.exists():
            return cls()
        whole = json.loads(path.read_text(encoding="utf-8"))
        lines = {
            name: {int(number): set(tests) for number, tests in found.items()}
            for name, found in whole["lines"].items()
        }
        return cls(whole["sources"], lines, whole["seconds"])


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
