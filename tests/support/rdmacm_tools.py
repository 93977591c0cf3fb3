"""Debian's unmodified programs of rdma_cm, two by two on one fabric."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pytest
from gpud_process import wait_until
from tessera_run import environment
from verbs_tools import run_hca

INSTALL = "apt-get install rdmacm-utils perftest"


def needed(program: str) -> pytest.MarkDecorator:
    """Skip, and say so, where a program is not installed."""
    missing = shutil.which(program) is None
    return pytest.mark.skipif(missing, reason=f"NOT RUN: no {program}: {INSTALL}")


@dataclass
class Ended:
    """What a program printed, and its status."""

    status: int
    said: str


class Serving:
    """A program that serves, in a run of its own, once it has made the call that is awaited."""

    def __init__(
        self, temporary: Path, fabric: str, *command: str, awaited: str = "rdma_listen"
    ) -> None:
        self.temporary, self.fabric = temporary, fabric
        trace = temporary / f"{fabric}.trace"
        self.process = subprocess.Popen(
            run_hca(temporary, *command, fabric=fabric),
            env=environment(temporary) | {"TESSERA_TRACE": str(trace)},
            cwd=temporary,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

        def listens() -> bool:
            ended = self.process.poll() is not None
            return ended or (trace.exists() and f" {awaited}(" in trace.read_text())

        assert wait_until(listens, 60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def client(self, *command: str, seconds: float = 90) -> Ended:
        """Run a program on the same fabric to its end."""
        done = subprocess.run(
            run_hca(self.temporary, *command, fabric=self.fabric),
            env=environment(self.temporary),
            cwd=self.temporary,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
        )
        return Ended(done.returncode, done.stdout)

    def end(self, seconds: float = 60) -> Ended:
        """Wait for its end."""
        said, _ = self.process.communicate(timeout=seconds)
        return Ended(self.process.returncode, said)


def both(temporary: Path, server: tuple[str, ...], client: tuple[str, ...]) -> tuple[str, str]:
    """Run two programs against each other; both must end with status 0."""
    with Serving(temporary, "cm", *server) as serving:
        asked = serving.client(*client)
        served = serving.end() if asked.status == 0 else None
    assert asked.status == 0, asked.said
    assert served is not None
    assert served.status == 0, served.said
    return served.said, asked.said
