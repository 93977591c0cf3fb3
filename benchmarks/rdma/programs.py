"""RDMA of unmodified programs under ``tessera run``: latency, connections, and hcad's cost.

``python -m benchmarks.rdma.programs``. Debian's perftest and rdmacm-utils are the clients, each
figure comes from one run; connections are counted from the first id to the last established one.
Missing tools are reported, and their rows are NOT MEASURED.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks.report import Row, Section, machine, table

CONNECTIONS: Final = 400
LATENCY_WRITES: Final = "1000"
_PINNED_CORES: Final = 3  # two polling programs, and the engine between them
_WATCH_S: Final = 5.0
_SETTLE_S: Final = 3.0  # seconds in which a member of the fabric has started
_LIMIT_S: Final = 60.0
_PORT: Final = 18515
_STEPS_UNTIL_CONNECTED: Final = (
    "create id",
    "resolve addr",
    "resolve route",
    "create qp",
    "connect",
)


class NotMeasured(Exception):
    """The reason why there is no figure."""


def _command(fabric: str, *program: str) -> list[str]:
    code = "from vgpu_sim.cli.main import main; main(prog_name='tessera')"
    return [sys.executable, "-c", code, "run", "--hca", "--fabric", fabric, "--", *program]


@contextmanager
def _serving(fabric: str, run: str, *program: str) -> Iterator[None]:
    """Run a server on a fabric for the duration of the block."""
    server = subprocess.Popen(
        _command(fabric, *program),
        env=os.environ | {"XDG_RUNTIME_DIR": run},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
    )
    try:
        yield
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(_LIMIT_S)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _run_client(fabric: str, run: str, *program: str) -> str:
    """Return a client's output. Raises NotMeasured."""
    client = subprocess.Popen(
        _command(fabric, *program),
        env=os.environ | {"XDG_RUNTIME_DIR": run},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, complaint = client.communicate(timeout=_LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(client.pid, signal.SIGKILL)  # end the program too, since it would poll forever
        client.communicate()
        raise NotMeasured(f"{program[0]} took more than {_LIMIT_S:.0f} s") from None
    if client.returncode != 0:
        raise NotMeasured(f"{program[0]} ended with {client.returncode}: {complaint[-80:]!r}")
    return output


def _require_tool(tool: str, package: str) -> None:
    if shutil.which(tool) is None:
        raise NotMeasured(f"no {tool}: apt-get install {package}")


def _hcad(run: str, fabric: str) -> int:
    """Return the hcad process of a fabric below a directory."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"hca.daemon" in words and any(
                word.startswith(run.encode()) and word.endswith(fabric.encode()) for word in words
            ):
                return int(entry.name)
    raise NotMeasured("no hcad serves")


def _until(check: Callable[[], bool], event: str) -> None:
    end = time.monotonic() + _LIMIT_S
    while not check():
        if time.monotonic() > end:
            raise NotMeasured(f"{event} does not come")
        time.sleep(0.02)


def _listens() -> bool:
    rows = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()]
    rows += [line.split() for line in Path("/proc/self/net/tcp6").read_text().splitlines()]
    return any(row[1].endswith(f":{_PORT:04X}") and row[3] == "0A" for row in rows)


def _latency_us(run: str, pinned: bool) -> float:
    _require_tool("ib_write_lat", "perftest")
    cores = sorted(os.sched_getaffinity(0))
    if pinned and len(cores) < _PINNED_CORES:
        raise NotMeasured(f"needs {_PINNED_CORES} cores: two programs poll, and an engine")
    programs = [("ib_write_lat", "-F", "-s", "8", "-n", LATENCY_WRITES)] * 2
    if pinned:
        programs = [("taskset", "-c", str(core), *programs[0]) for core in cores[:2]]
    with _serving("lat", run, *programs[0]):
        _until(_listens, "ib_write_lat")
        output = _run_client("lat", run, *programs[1], "127.0.0.1")
    row = re.search(rf"^ 8 +{LATENCY_WRITES} +[0-9.]+ +[0-9.]+ +([0-9.]+)", output, re.MULTILINE)
    if row is None:
        raise NotMeasured(f"ib_write_lat says {output[-80:]!r}")
    return float(row[1])


def _connects(run: str) -> tuple[float, float]:
    """Return connections per second, and hcad's CPU time for one in milliseconds."""
    _require_tool("cmtime", "rdmacm-utils")
    count = str(CONNECTIONS)
    with _serving("cm", run, "cmtime", "-c", count):
        _until(lambda: _serves(run, "cm"), "hcad")
        time.sleep(_SETTLE_S)  # the program does not report when it listens
        hcad = _hcad(run, "cm")
        start_cpu_s = _cpu_s(hcad)
        output = _run_client("cm", run, "cmtime", "-c", count, "-s", "127.0.0.1")
        spent = _cpu_s(hcad) - start_cpu_s
    taken_ms = 0.0
    for step in _STEPS_UNTIL_CONNECTED:
        row = re.search(rf"^{step} *: +([0-9.]+)", output, re.MULTILINE)
        if row is None:
            raise NotMeasured(f"cmtime says {output[-80:]!r}")
        taken_ms += float(row[1])
    return CONNECTIONS / taken_ms * 1e3, spent / CONNECTIONS * 1e3


def _idle(run: str) -> tuple[float, float]:
    """Return an idle hcad's proportional set size in MiB, and its CPU time in ms per second."""
    with _serving("idle", run, "sleep", "60"):
        _until(lambda: _serves(run, "idle"), "hcad")
        time.sleep(_SETTLE_S)
        hcad = _hcad(run, "idle")
        start_cpu_s = _cpu_s(hcad)
        time.sleep(_WATCH_S)
        busy_ms = (_cpu_s(hcad) - start_cpu_s) * 1e3 / _WATCH_S
        for line in Path(f"/proc/{hcad}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024, busy_ms
    raise NotMeasured("no Pss")


def _serves(run: str, fabric: str) -> bool:
    try:
        return _hcad(run, fabric) > 0
    except NotMeasured:
        return False


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure() -> Section:
    """Measure all programs. Raises OSError."""
    rows: list[Row] = []

    def add(
        names: tuple[tuple[str, str, float | None, bool], ...],
        act: Callable[[], tuple[float, ...]],
    ) -> None:
        try:
            figures, why = act(), ""
        except NotMeasured as err:
            figures, why = (0.0,) * len(names), str(err)
        for (name, unit, goal, is_minimum), figure in zip(names, figures, strict=True):
            rows.append(Row("programs", name, figure, unit, goal, at_least=is_minimum, missing=why))

    with tempfile.TemporaryDirectory() as run:
        lat = "8-byte write, ib_write_lat, typical"
        add(((f"{lat}, pinned", "us", 2.0, False),), lambda: (_latency_us(run, pinned=True),))
        add(
            ((f"{lat}, shared cores", "us", 10.0, False),),
            lambda: (_latency_us(run, pinned=False),),
        )
        add(
            (
                (f"connects, cmtime -c {CONNECTIONS}", "/s", 2000.0, True),
                ("hcad's CPU time for one, both sides", "ms", None, False),
            ),
            lambda: _connects(run),
        )
        add(
            (
                ("idle hcad, proportional set size", "MiB", 50.0, False),
                ("idle hcad, CPU time", "ms/s", 1.0, False),
            ),
            lambda: _idle(run),
        )
    return Section("rdma, programs", tuple(rows))


if __name__ == "__main__":
    print(machine(), flush=True)
    section = measure()
    print(table([section]))
    sys.exit(any(row.verdict not in ("met", "") for row in section.rows))
