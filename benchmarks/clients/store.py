"""Outcomes on disk, one file for each test file, so that a run can be resumed.

Each has the commit on which its tests ran.
"""

import fcntl
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from benchmarks.clients.client import Client
from benchmarks.clients.environment import folder_of
from benchmarks.clients.outcomes import Outcome


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

    def clear(self) -> None:
        """Forget all outcomes."""
        for path in self._folder.glob("*.json"):
            path.unlink()

    def has(self, name: str) -> bool:
        """Return whether a test file has been run."""
        return self._path(name).exists()

    def put(self, name: str, outcomes: list[Outcome], commit: str) -> None:
        """Keep the outcomes of a test file, which ran on a commit."""
        kept = {"commit": commit, "outcomes": [asdict(one) for one in outcomes]}
        self._path(name).write_text(json.dumps(kept, indent=0))

    def outcomes(self) -> Iterator[Outcome]:
        """Read the outcomes of all test files."""
        for path in sorted(self._folder.glob("*.json")):
            for fields in json.loads(path.read_text())["outcomes"]:
                yield Outcome(**{**fields, "calls": tuple(fields["calls"])})

    def commits(self) -> list[str]:
        """Return the commits on which the test files ran, the first one first."""
        paths = sorted(self._folder.glob("*.json"), key=lambda path: path.stat().st_mtime)
        return list(dict.fromkeys(json.loads(path.read_text())["commit"] for path in paths))

    def _path(self, name: str) -> Path:
        return self._folder / (name.replace("/", "__") + ".json")
