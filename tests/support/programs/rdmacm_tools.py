"""Debian's unmodified programs for rdma_cm, in pairs on one fabric."""

import shutil
import subprocess
from pathlib import Path
from typing import Self

import pytest

from support.oracles.rdmacm_calls import Ended, has_raced
from support.processes.gpud_process import wait_until
from support.processes.tessera_run import environment
from support.programs.verbs_tools import run_hca

INSTALL = "apt-get install rdmacm-utils perftest"


def skip_without(program: str) -> pytest.MarkDecorator:
    """Skip the test with a message if a program is not installed."""
    missing = shutil.which(program) is None
    return pytest.mark.skipif(missing, reason=f"NOT RUN: no {program}: {INSTALL}")


class Serving:
    """A server in a separate run; the constructor returns once it has made the call ``awaited``."""

    def __init__(
        self, temporary: Path, fabric: str, *command: str, awaited: str = "rdma_listen"
    ) -> None:
        self.temporary, self.fabric = temporary, fabric
        trace = self.trace = temporary / f"{fabric}.trace"
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

        try:
            assert wait_until(listens, 60)
        except BaseException:
            self.process.kill()
            self.process.communicate()
            raise

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
            env=environment(self.temporary) | {"TESSERA_TRACE": str(self.asking)},
            cwd=self.temporary,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
        )
        return Ended(done.returncode, done.stdout)

    @property
    def asking(self) -> Path:
        """The trace of the programs that ``client`` runs."""
        return self.trace.with_suffix(".asking")

    def end(self, seconds: float = 60) -> Ended:
        """Wait for the server's end."""
        said, _ = self.process.communicate(timeout=seconds)
        return Ended(self.process.returncode, said)


def perftest(temporary: Path, command: tuple[str, ...], tries: int = 6) -> str:
    """Run a program of perftest with ``-R`` as server and client; return the client's output."""
    for one in range(tries):
        with Serving(temporary, f"cm{one}", *command) as serving:
            client_run = serving.client(*command, "localhost")
            if client_run.status != 0 and has_raced(
                serving.trace.read_text(), serving.asking.read_text()
            ):
                continue
            assert client_run.status == 0, client_run.said
            served = serving.end()
            assert served.status == 0, served.said
            return client_run.said
    raise AssertionError(f"perftest's server has listened too late {tries} times")


def both(temporary: Path, server: tuple[str, ...], client: tuple[str, ...]) -> tuple[str, str]:
    """Run a server and a client; both must end with status 0."""
    with Serving(temporary, "cm", *server) as serving:
        client_run = serving.client(*client)
        served = serving.end() if client_run.status == 0 else None
    assert client_run.status == 0, client_run.said
    assert served is not None
    assert served.status == 0, served.said
    return served.said, client_run.said
