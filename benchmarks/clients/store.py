"""Outcomes on disk, one file for each test file, so that a run can be resumed, also within a file.

Each has the commit on which its tests ran.
"""

import fcntl
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.clients.client import Client
from benchmarks.clients.environment import folder_of
from benchmarks.clients.outcomes import FileRun, Outcome


class AlreadyRunning(Exception):
    """Another process runs this client's suite."""


class Store:
    """The outcomes of one client's run, below ``out/clients/NAME/results``.

    Raises:
        AlreadyRunning: another process has this client's store.
    """

    def __init__(self, client: Client) -> None:
        self._folder = folder_of(client) / "results"
        self._folder.mkdir(parents=True, exist_ok=True)
        self._lock = (self._folder / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            message = f"{client.name}: another run is in progress; wait for it or end it"
            raise AlreadyRunning(message) from error

    def close(self) -> None:
        """Let other processes run the suite."""
        self._lock.close()

    def clear(self) -> None:
        """Forget all outcomes."""
        for pattern in ("*.json", "*.part"):
            for path in self._folder.glob(pattern):
                path.unlink()

    def has(self, name: str) -> bool:
        """Return whether a test file has been run."""
        return self._path(name).exists()

    def put(self, name: str, outcomes: list[Outcome], commit: str) -> None:
        """Keep the outcomes of a test file, which ran on a commit."""
        record = {"commit": commit, "outcomes": [asdict(outcome) for outcome in outcomes]}
        self._path(name).write_text(json.dumps(record, indent=0))
        self._path(name).with_suffix(".part").unlink(missing_ok=True)

    def put_part(self, name: str, run: FileRun) -> None:
        """Keep what is known of a test file that has not ended."""
        record = {
            "tests": run.tests,
            "outcomes": [asdict(outcome) for outcome in run.outcomes.values()],
        }
        self._path(name).with_suffix(".part").write_text(json.dumps(record, indent=0))

    def part(self, name: str) -> FileRun | None:
        """Return what an interrupted run found of a test file, or None."""
        path = self._path(name).with_suffix(".part")
        if not path.exists():
            return None
        record = json.loads(path.read_text())
        return FileRun(
            record["tests"],
            {outcome.test: outcome for outcome in map(_outcome, record["outcomes"])},
        )

    def outcomes(self) -> Iterator[Outcome]:
        """Read the outcomes of all test files."""
        for path in sorted(self._folder.glob("*.json")):
            yield from map(_outcome, json.loads(path.read_text())["outcomes"])

    def commits(self) -> list[str]:
        """Return the commits on which the test files ran, the first one first."""
        paths = sorted(self._folder.glob("*.json"), key=lambda path: path.stat().st_mtime)
        return list(dict.fromkeys(json.loads(path.read_text())["commit"] for path in paths))

    def _path(self, name: str) -> Path:
        return self._folder / (name.replace("/", "__") + ".json")


def _outcome(fields: dict[str, Any]) -> Outcome:
    return Outcome(**{**fields, "calls": tuple(fields["calls"])})
