"""Runs one contest: the contenders alternately, each after a pause; the best time of each
counts.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from benchmarks import on_slice
from benchmarks.exec import no_address_clamp
from benchmarks.exec.contest import OURS, UNCLAMPED

# OpenBLAS' threads spin for a while after their work, which must not slow the next contender.
_SETTLE_S = 0.06


@dataclass(slots=True)
class Outcome:
    """The result of a race: best seconds by contender, and absent contenders with the reasons."""

    seconds: dict[str, float] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a race. ``clamp``: also against the build without the address clamp."""

    rounds: int
    quick: bool = False
    clamp: bool = True


def race(contest: str, options: Options) -> Outcome:
    """Run a contest. Raises ProgramFailed if a client did not start or died."""
    with ExitStack() as stack:
        client = stack.enter_context(_client(contest, options))
        turns = [(client, name) for name in client.about["contenders"]]
        outcome = Outcome(
            missing={
                **client.about["missing"],
                **{name: f"WRONG RESULT: {why}" for name, why in client.about["wrong"].items()},
            },
            versions=client.about["versions"],
        )
        if options.clamp and OURS in client.about["contenders"]:
            environment = stack.enter_context(no_address_clamp.environment())
            free = stack.enter_context(_client(contest, options, environment, OURS))
            if free.about["contenders"]:
                turns.insert(1, (free, UNCLAMPED))
            else:
                outcome.missing[UNCLAMPED] = f"WRONG RESULT: {free.about['wrong'].get(OURS)}"
        for _ in range(options.rounds):
            for who, name in turns:
                time.sleep(_SETTLE_S)
                seconds = who.run(OURS if name == UNCLAMPED else name)
                outcome.seconds[name] = min(seconds, outcome.seconds.get(name, seconds))
    return outcome


class _Client:
    def __init__(self, contest: str, process: subprocess.Popen[str]) -> None:
        self._contest, self._process = contest, process
        self.about: dict[str, Any] = json.loads(self._read())

    def run(self, name: str) -> float:
        """Run a contender once; return the seconds."""
        assert self._process.stdin is not None
        print(name, file=self._process.stdin, flush=True)
        return float(self._read())

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            _, error_output = self._process.communicate()
            raise on_slice.ProgramFailed(f"{self._contest}: {error_output[-2000:]}")
        return line


@contextmanager
def _client(
    contest: str,
    options: Options,
    environment: Mapping[str, str] | None = None,
    *only: str,
) -> Iterator[_Client]:
    threads = str(on_slice.cores())
    arguments = [*(["--quick"] if options.quick else []), *(f"--only={name}" for name in only)]
    process = on_slice.start(
        [sys.executable, "-m", "benchmarks.exec.client", contest, *arguments],
        {
            "OMP_WAIT_POLICY": "passive",  # spinning threads would occupy cores that others need
            "OMP_NUM_THREADS": threads,
            "OPENBLAS_NUM_THREADS": threads,
            **(environment or {}),
        },
    )
    with process:
        try:
            yield _Client(contest, process)
        finally:
            assert process.stdin is not None
            process.stdin.close()  # the client ends at the end of its input
