"""``tessera run`` as a user starts it: a separate process, in a directory outside the checkout."""

import contextlib
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.kept import store
from support.processes.gpud_process import wait_until
from vgpu_sim.cli.clients.admin import AdminClient
from vgpu_sim.system import processes

REPOSITORY = Path(__file__).parents[3]
EXAMPLES = REPOSITORY / "examples"
LIBCUDA = REPOSITORY / "vgpu_sim" / "native" / "lib" / "libcuda.so.1"
_STARTS_WITHIN_S = 120  # on a slow and busy machine
# Launches kernels until its standard input ends, then verifies.
COMPUTES = (sys.executable, str(Path(__file__).parents[1] / "scripts" / "compute_until_signal.py"))


def tessera(*arguments: str) -> list[str]:
    """Return the argument vector of the ``tessera`` command of this checkout."""
    code = "from vgpu_sim.cli.main import main; main(prog_name='tessera')"
    return [sys.executable, "-c", code, *arguments]


def to_its_end(
    temporary: Path, *arguments: str, timeout_s: float = 60
) -> subprocess.CompletedProcess[str]:
    """Run the ``tessera`` command to its end, in a directory outside the checkout; return its
    output.
    """
    return subprocess.run(
        tessera(*arguments),
        env=environment(temporary),
        cwd=temporary,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def run_command(
    *command: str,
    board: str = "h100-80gb",
    profile: str = "1g.10gb",
    backend: str = "interp",
    options: tuple[str, ...] = (),
) -> list[str]:
    """Return the argument vector of one ``tessera run``."""
    fixed = ("--board", board, "--slice", profile, "--backend", backend)
    return tessera("run", *fixed, *options, "--", *command)


def environment(temporary: Path) -> dict[str, str]:
    """Return an environment in which the run's directory is below ``temporary``."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TESSERA_")}
    kept.pop("XDG_RUNTIME_DIR", None)
    kept.pop("LD_LIBRARY_PATH", None)
    return kept | {
        "TMPDIR": str(temporary),
        "XDG_CACHE_HOME": str(temporary / "cache"),
        "PYTHONPATH": str(REPOSITORY),
        "PYTHONUNBUFFERED": "1",  # so that tests see each line at once
    }


def run(
    temporary: Path, *command: str, timeout_s: float = 60, kept: bool = False, **kind: object
) -> subprocess.CompletedProcess[str]:
    """Run a command on a slice to its end; it can import the tests' shared modules.

    With ``kept``, its cache of modules and objects is one that all such runs use, whose entries
    name the sources of the compiler and of the JIT that made them.
    """
    paths = f"{REPOSITORY}:{REPOSITORY / 'tests'}"
    caches = {"XDG_CACHE_HOME": str(store.FOLDER / "runs")} if kept and store.FOLDER else {}
    return subprocess.run(
        run_command(*command, **kind),  # type: ignore[arg-type]
        env=environment(temporary) | {"PYTHONPATH": paths} | caches,
        cwd=temporary,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def start(temporary: Path, *command: str) -> subprocess.Popen[str]:
    """Start a command on a slice; ``communicate`` ends its standard input."""
    return subprocess.Popen(
        run_command(*command),
        env=environment(temporary) | {"PYTHONPATH": f"{REPOSITORY}:{EXAMPLES}"},
        cwd=temporary,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@dataclass(frozen=True)
class Parts:
    """The processes of one run, with the start times that make pids unique."""

    gpud: int
    zygote: int
    workers: tuple[int, ...]
    born: tuple[tuple[int, int | None], ...]

    def any_left(self) -> bool:
        return any(processes.start_ticks(pid) == ticks for pid, ticks in self.born)


def parts_when_computing(temporary: Path, running: subprocess.Popen[str]) -> Parts:
    """Wait until the run below a directory has launched kernels; return its processes.

    gpud receives launch counts once a second, so the program must run until it gets a signal.
    """

    def contexts() -> list[dict[str, Any]]:
        assert running.poll() is None, running.communicate()
        found: list[dict[str, Any]] = []
        with contextlib.suppress(OSError):  # gpud is still starting
            for run_dir in temporary.glob("tessera-*"):
                with AdminClient(run_dir) as admin:
                    for gpu in admin.call("inventory")["gpus"]:
                        found += (one for slice_ in gpu["instances"] for one in slice_["contexts"])
        return [context for context in found if context["launches"]]

    workers = tuple(context["pid"] for context in wait_until(contexts, _STARTS_WITHIN_S))
    (gpud,) = (
        pid for pid, command in processes_naming(str(temporary)) if "vgpu_sim.gpud" in command
    )
    children = Path(f"/proc/{gpud}/task/{gpud}/children").read_text().split()
    (zygote,) = map(int, children)
    pids = (gpud, zygote, *workers)
    return Parts(gpud, zygote, workers, tuple((pid, processes.start_ticks(pid)) for pid in pids))


def processes_naming(text: str) -> list[tuple[int, str]]:
    """Return (pid, command line) of all processes whose command line or environment contains a
    text.
    """
    needle, found = text.encode(), []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            everything = command + (entry / "environ").read_bytes()
        except OSError:
            continue
        if needle in everything:
            found.append((int(entry.name), command.replace(b"\0", b" ").decode(errors="replace")))
    return found
