"""The driver functions that a client looks up by name, and which of them libcuda supports."""

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.clients.client import Client
from benchmarks.clients.environment import TESSERA, NotInstalled, install, python_of
from benchmarks.on_slice import REPOSITORY
from vgpu_sim.clients.codegen.library import Function, load

RECORD = REPOSITORY / "benchmarks" / "clients" / "recorded" / "driver" / "look_ups.json"
_LIBCUDA = REPOSITORY / "vgpu_sim" / "clients" / "libcuda"
_LINE = re.compile(r' cuGetProcAddress(?:_v2)?\(symbol="(\w+)".*cudaVersion=(\d+)')


@dataclass(frozen=True, slots=True)
class LookUps:
    """How many functions a client looked up on a commit, and the names of the unsupported ones."""

    client: str
    tessera: str
    count: int
    unsupported: tuple[str, ...]


def find_look_ups(client: Client, program: str, tessera: str) -> LookUps:
    """Run a Python program in a client's environment, and count what it looks up.

    Raises:
        NotInstalled: the client cannot be installed, or the program failed; with its output.
    """
    install(client)
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace"
        command = [*TESSERA, "run", "--board", client.board, "--"]
        process = subprocess.run(
            [*command, str(python_of(client)), "-c", program],
            env={**os.environ, "TESSERA_TRACE": str(trace), "PYTHONPATH": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        if process.returncode:
            raise NotInstalled(process.stderr[-1500:])
        named = read_trace(trace.read_text(errors="replace").splitlines())
    unsupported = find_unsupported(named, load(_LIBCUDA).functions)
    return LookUps(f"{client.name} {client.version}", tessera, len(named), unsupported)


def read_trace(lines: Iterable[str]) -> dict[str, int]:
    """Return the names that a trace has, each with the highest CUDA version that it had."""
    named: dict[str, int] = {}
    for line in lines:
        if match := _LINE.search(line):
            named[match[1]] = max(named.get(match[1], 0), int(match[2]))
    return named


def find_unsupported(named: dict[str, int], functions: Iterable[Function]) -> tuple[str, ...]:
    """Return the names whose symbol for the version is not supported, or that have none."""
    known_functions = list(functions)

    def is_supported(name: str, version: int) -> bool:
        mine = [
            function
            for function in known_functions
            if function.name == name and function.since <= version
        ]
        return bool(max(mine, key=lambda function: function.since).kind) if mine else False

    return tuple(sorted(name for name, version in named.items() if not is_supported(name, version)))


def write(look_ups: LookUps) -> None:
    """Record look-ups in the repository."""
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    RECORD.write_text(json.dumps(asdict(look_ups), indent=1) + "\n")


def read() -> LookUps:
    """Return the recorded look-ups."""
    fields = json.loads(RECORD.read_text())
    return LookUps(**{**fields, "unsupported": tuple(fields["unsupported"])})


def describe(look_ups: LookUps) -> str:
    """Say in a paragraph how many functions are supported, and which are not."""
    unsupported = look_ups.unsupported
    return (
        f"{look_ups.client} looks up {look_ups.count:,} functions of the driver by name;"
        f" {look_ups.count - len(unsupported):,} of them are supported (commit {look_ups.tessera})."
        " [CUDA support](cuda-support.md) has each one's class. The others are:\n"
        + ", ".join(f"`{name}`" for name in unsupported)
        + ".\n"
    )
