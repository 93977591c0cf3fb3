"""Runs hostile callers one after the other, beside a neighbour."""

import collections
import contextlib
import math
import mmap
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

LIBRARIES = {
    "libcuda": "libcuda.so.1",
    "libcudart12": "libcudart.so.12",
    "libcudart13": "libcudart.so.13",
}
CALLS_OF_A_PROCESS = 6000
# An allocation of 4 GiB writes all of it (posix_fallocate): seconds, and minutes at low priority
# on a machine with much other work.
STILL_S = 300
START_S = 300  # until the first call: on a machine with much other work, a context takes long
# What a client prints if its worker ended in a way that a caller must not cause.
_DEFECTS = ("worker is gone", "protocol")


@dataclass
class Report:
    """What has happened so far."""

    calls: int = 0
    processes: int = 0
    crashes: collections.Counter[str] = field(default_factory=collections.Counter)
    """How often each function ended its caller by a signal."""
    defects: list[str] = field(default_factory=list)
    examples: dict[str, str] = field(default_factory=dict)
    """A crashing call of each function."""


class Neighbour:
    """A program of another owner that computes at the same time."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        command = [sys.executable, "-m", f"{__package__}.neighbour"]
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout
        self._ready = self._process.stdout.readline()

    def finish(self) -> str:
        """End it and return what it has found."""
        output, _ = self._process.communicate(timeout=STILL_S)
        return output.strip()


@contextlib.contextmanager
def _progress(folder: Path) -> Iterator[tuple[Path, mmap.mmap]]:
    path = folder / "progress"
    path.write_bytes(bytes(1 << 16))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as view:
        yield path, view


def _is_still(process: "subprocess.Popen[bytes]", view: mmap.mmap) -> bool:
    """Wait for the process; return whether its progress stands still."""
    last, since = b"", time.monotonic()
    while process.poll() is None:
        time.sleep(0.05)
        now = view[:64]
        if now != last:
            last, since = now, time.monotonic()
        elif time.monotonic() - since > (STILL_S if any(now) else START_S):
            return True
    return False


def _run_one(
    report: Report, name: str, seed: int, calls: int, environment: Mapping[str, str], path: Path
) -> None:
    with tempfile.TemporaryDirectory() as text, _progress(Path(text)) as (place, view):
        folder = Path(text)
        words = name, str(path), str(seed), str(calls), str(place)
        with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
            process = subprocess.Popen(
                [sys.executable, "-m", f"{__package__}.caller", *words],
                env=environment,
                cwd=folder,
                stdout=out,
                stderr=err,
            )
            still = _is_still(process, view)
            if still:
                process.kill()
            status = process.wait()
        note = view[: max(0, view.find(b"\n"))].decode(errors="replace")  # none before a call
        lines = (folder / "err").read_text(errors="replace").splitlines()
        output = (folder / "out").read_text(errors="replace").splitlines()
    made, _, symbol = note.partition(" ")
    symbol = symbol.partition(" ")[0]
    report.processes += 1
    report.calls += calls if note == "done" else int(made or 0)
    where = f"{name} seed {seed}: {note[:400]}"
    if still:
        report.defects.append(f"no progress: {where}")
    elif status < 0:
        report.crashes[symbol] += 1
        report.examples.setdefault(symbol, where)
    elif status:
        report.defects.append(f"exit status {status}: {where}: {lines[-3:]}")
    report.defects += [f"{name} seed {seed}: {line}" for line in output]
    report.defects += [
        f"{line} ({where})" for line in lines if any(part in line for part in _DEFECTS)
    ]


def run(
    environment: Mapping[str, str],
    libraries: Path,
    seed: int,
    calls: int,
    of_a_process: int = CALLS_OF_A_PROCESS,
    seconds: float = math.inf,
) -> Report:
    """Make ``calls`` hostile calls, a part of them in each library; begin none after ``seconds``."""
    paths = [str(Path(__file__).parents[3]), str(Path(__file__).parents[4])]
    with_paths = {**environment, "PYTHONPATH": ":".join(paths)}
    report = Report()
    neighbour = Neighbour(with_paths)
    names = list(LIBRARIES)
    end = time.monotonic() + seconds
    while report.calls < calls and time.monotonic() < end:
        name = names[report.processes % len(names)]
        some = min(of_a_process, max(1, calls - report.calls))
        _run_one(
            report, name, seed + report.processes, some, with_paths, libraries / LIBRARIES[name]
        )
        if report.processes % 50 == 0:
            ended, found = sum(report.crashes.values()), len(report.defects)
            print(f"{report.calls} calls, {ended} crashes, {found} defects", flush=True)
    computed = neighbour.finish()
    if "right" not in computed:
        report.defects.append(f"neighbour: {computed or 'ended'}")
    return report
