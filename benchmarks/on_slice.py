"""Runs a program as ``tessera run`` does, with a whole GPU of its own."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from vgpu_sim.hal.observe.modelled_report import WALL

REPOSITORY = Path(__file__).parents[1]
PYTHONPATH = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "operator")])
BOARD, WHOLE = "h100-80gb", "7g.80gb"
_TESSERA = "from vgpu_sim.cli.main import main; main()"


class ProgramFailed(Exception):
    """The program did not end with status 0."""


def cores() -> int:
    """Return how many cores this process may use; opponents get the same ones."""
    return len(os.sched_getaffinity(0))


def run(
    command: Sequence[str | Path],
    environment: Mapping[str, str] | None = None,
    backend: str = "jit",
    clock: str = WALL,
) -> str:
    """Run a command on a slice with a thread for each core and return its output.

    Raises:
        ProgramFailed: with the end of its output.
    """
    with start(command, environment, backend, clock) as process:
        printed, error_output = process.communicate()
    if process.returncode:
        raise ProgramFailed(
            f"{Path(command[0]).name}: {process.returncode}: {error_output[-2000:]}"
        )
    return printed


def start(
    command: Sequence[str | Path],
    environment: Mapping[str, str] | None = None,
    backend: str = "jit",
    clock: str = WALL,
) -> subprocess.Popen[str]:
    """Start a command on a slice with a thread for each core, its three streams in pipes."""
    tessera = [
        sys.executable,
        "-c",
        _TESSERA,
        "run",
        "--board",
        BOARD,
        "--slice",
        WHOLE,
        "--backend",
        backend,
        "--threads",
        str(cores()),
        "--clock",
        clock,
        "--",
    ]
    return subprocess.Popen(
        [*tessera, *map(str, command)],
        env={**os.environ, "PYTHONPATH": PYTHONPATH, **(environment or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
