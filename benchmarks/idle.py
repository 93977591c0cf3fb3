"""Cost of gpud and its zygote on an idle node: memory and CPU time."""

import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.on_slice import BOARD, ProgramFailed
from benchmarks.report import Row, Section
from vgpu_sim.cli.clients.admin import AdminClient
from vgpu_sim.gpud.model import new_gpu_uuid
from vgpu_sim.system import python_process

NAME = "idle"
_WATCH_S = 10.0
_START_S = 30.0


def _family(pid: int) -> list[int]:
    """Return a process and its descendants."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parents[int(entry.name)] = int(_after_name(int(entry.name))[1])
            except OSError:
                continue
    family = [pid]
    for member in family:  # the list grows during the walk
        family += [child for child, parent in parents.items() if parent == member]
    return family


def _after_name(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _pss_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise ProgramFailed(f"no Pss of process {pid}")


def _cpu_s(pid: int) -> float:
    fields = _after_name(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _connect(run_dir: Path, process: subprocess.Popen[bytes]) -> AdminClient:
    deadline = time.monotonic() + _START_S
    while True:
        try:
            return AdminClient(run_dir, 10)
        except OSError as err:
            if process.poll() is not None or time.monotonic() > deadline:
                raise ProgramFailed(f"gpud does not serve: {err}") from err
        time.sleep(0.05)


def _settle(pids: list[int]) -> None:
    """Wait until start-up work (imports, the first compilation) is done."""
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        start_cpu_s = sum(map(_cpu_s, pids))
        time.sleep(2)
        if sum(map(_cpu_s, pids)) - start_cpu_s < 0.02:
            return


def measure() -> Section:
    """Start gpud as on a node, with seven slices, and measure it. Raises ProgramFailed."""
    with tempfile.TemporaryDirectory(prefix="t-") as name:
        run_dir = Path(name) / "run"
        command = python_process.module_command(
            "vgpu_sim.gpud",
            "--run-dir",
            str(run_dir),
            "--state-dir",
            str(Path(name) / "state"),
        )
        with subprocess.Popen(
            command, env=python_process.module_environment(), stderr=subprocess.DEVNULL
        ) as process:
            try:
                with _connect(run_dir, process) as admin:
                    gpu = new_gpu_uuid()
                    admin.call(
                        "configure",
                        gpus=[{"uuid": gpu, "index": 0, "board": BOARD}],
                        budget_bytes=0,
                    )
                    instances = [
                        admin.call("create_instance", gpu_uuid=gpu, profile="1g.10gb", start=start)
                        for start in range(7)
                    ]
                    pids = _family(process.pid)
                    _settle(pids)
                    start_cpu_s = sum(map(_cpu_s, pids))
                    time.sleep(_WATCH_S)
                    cpu_ms_per_s = (sum(map(_cpu_s, pids)) - start_cpu_s) / _WATCH_S * 1000
                    pss = sum(map(_pss_bytes, pids))
                    for instance in instances:  # their control groups are removed with them
                        admin.call("destroy_instance", uuid=instance["uuid"])
            finally:
                process.send_signal(signal.SIGTERM)
    return Section(
        NAME,
        (
            Row(NAME, f"PSS of gpud and zygote ({len(pids)} processes)", pss / 2**20, "MiB", 150),
            Row(NAME, "CPU time", cpu_ms_per_s, "ms/s", 5),
        ),
    )
