"""Common tools, unmodified, on a slice and on a whole GPU."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mig.geometry import board
from support.processes import nvml_views

BIN = Path(sys.executable).parent


@pytest.fixture(scope="module")
def rig(libraries, run_dirs):
    with nvml_views.rig(run_dirs) as running:
        yield running


def run_tool(libraries: Path, slices: Path, *command: str) -> str:
    """Return a tool's output; skip if the tool is not installed."""
    tool = BIN / command[0]
    if not tool.exists():
        pytest.skip(f"{command[0]} is not installed: `make venv` brings it")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("TESSERA_")},
        "TESSERA_SLICES_DIR": str(slices),
        "LD_LIBRARY_PATH": str(libraries),
        "COLUMNS": "120",
        "LINES": "60",
    }
    done = subprocess.run(
        [tool, *command[1:]], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def test_nvitop_shows_the_slice_and_what_it_holds(libraries, rig, tmp_path):
    slices = rig.mount(tmp_path / "s", rig.slices["2g.20gb"])
    shown = run_tool(libraries, slices, "nvitop", "--once", "--ascii")
    assert "Driver Version: 580.0.1" in shown
    assert "2g.20gb @ GI/CI: 4/0" in shown
    mib = board(nvml_views.BOARD).profile("2g.20gb").memory_bytes >> 20
    assert f"{mib / 1024:.2f}GiB" in shown or f"{mib}MiB" in shown
    assert "00000000:01:00.0" in shown


def test_nvitop_shows_a_whole_gpu(libraries, rig, tmp_path):
    shown = run_tool(libraries, rig.mount(tmp_path / "s", rig.whole), "nvitop", "--once", "--ascii")
    assert "00000000:02:00.0" in shown
    assert "Disabled" in shown
    assert "700W" in shown


def test_gpustat_shows_a_whole_gpu(libraries, rig, tmp_path):
    shown = run_tool(libraries, rig.mount(tmp_path / "s", rig.whole), "gpustat", "--no-color")
    assert "NVIDIA H100 80GB HBM3" in shown
    assert "/ 81559 MB" in shown
