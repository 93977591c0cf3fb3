"""A new board is one more file in ``boards``: every reader then has it.

The file is ``x900.py``, copied into a copy of the boards; programs import that folder first.
"""

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import boards
from boards import RECORDS

ROOT = Path(__file__).parents[3]
KEY = "x900"
PROFILES = ["1g.8gb", "1g.8gb+me", "2g.16gb", "4g.32gb"]
COMMAND = "from vgpu_sim.cli.main import main; main()"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("with-one-more")
    ours = Path(boards.__file__).parent
    shutil.copytree(ours, root / "boards", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy2(Path(__file__).with_name(f"{KEY}.py"), root / "boards")
    return root


def run(folder: Path, *arguments: str) -> str:
    """Run Python with the copy of the boards instead of the original; return its output."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},  # also for the processes that it starts
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def tessera(folder: Path, *arguments: str) -> str:
    return run(folder, "-c", COMMAND, *arguments)


def test_only_the_copy_has_the_board(folder: Path) -> None:
    listed = run(folder, "-c", "import boards; print(boards.__file__, *boards.RECORDS)").split()
    assert Path(listed[0]).is_relative_to(folder)
    assert set(listed[1:]) - set(RECORDS) == {KEY}


def test_it_is_listed_at_its_place(folder: Path) -> None:
    rows = json.loads(tessera(folder, "mig", "boards", "--json"))
    keys = [row["key"] for row in rows]
    assert keys.index("h200") + 1 == keys.index(KEY) == keys.index("b200") - 1
    (row,) = (row for row in rows if row["key"] == KEY)
    assert (row["product"], row["sms"], row["profiles"]) == ("NVIDIA X900", 64, PROFILES)


def test_mig_divides_it(folder: Path) -> None:
    printed = tessera(folder, "mig", "profiles", "--board", KEY)
    assert [line.split()[0] for line in printed.splitlines()[1:]] == PROFILES
    plan = ["mig", "plan", "--board", KEY, "--have", "1g.8gb@3", "--want", "2g.16gb,1g.8gb"]
    printed = tessera(folder, *plan)
    assert "2g.16gb@0" in printed
    assert "1g.8gb@2" in printed


def test_it_is_predicted_from_its_own_data_sheet(folder: Path) -> None:
    shape = ["-m", "16", "-n", "8192", "-k", "8192", "--json"]
    rows = json.loads(
        tessera(folder, "perf", "predict", "gemm", "--board", f"{KEY},h100-80gb", *shape)
    )
    mine, siblings = rows
    # Weights of 128 MiB: DRAM limits both boards, at 1,000 GB/s here and 3,350 GB/s there.
    assert mine["us"] > 2 * 8192 * 8192 / 1000e3
    assert 2 < mine["us"] / siblings["us"] < 4
    assert "those of h100-80gb" in mine["note"]


def test_nvidia_smi_shows_its_sensors_and_clocks(folder: Path) -> None:
    fields = {
        "name": "NVIDIA X900",
        "memory.total": "32768 MiB",
        "power.limit": "250.00 W",
        "power.draw": "33.00 W",
        "clocks.max.sm": "1600 MHz",
        "clocks.sm": "300 MHz",
    }
    query = [f"--query-gpu={','.join(fields)}", "--format=csv,noheader"]
    printed = tessera(folder, "run", "--board", KEY, "--", "nvidia-smi", *query)
    (row,) = csv.reader(printed.splitlines(), skipinitialspace=True)
    assert row == [*fields.values()]


def test_the_charts_generated_files_have_it(folder: Path) -> None:
    """Run the generators that CONTRIBUTING lists, with the same commands."""
    run(folder, "-m", "gpu_operator.api.migparted_defaults", "mig-config.yaml")
    run(folder, "-m", "gpu_operator.api.v1alpha1.crd", "crds")
    run(folder, "-m", "device_plugin.dra.classes", "device-classes.yaml")
    ours = ROOT / "charts" / "tessera" / "files"
    assert "h200, x900, b200" in " ".join((folder / "crds" / "gpupools.yaml").read_text().split())
    layouts, before = (
        yaml.safe_load((at / "mig-config.yaml").read_text())["mig-configs"] for at in (folder, ours)
    )
    assert "all-1g.8gb" in set(layouts) - set(before)
    classes, before = (
        {one["name"] for one in yaml.safe_load((at / "device-classes.yaml").read_text())}
        for at in (folder, ours)
    )
    assert "mig-1g.8gb.tessera.dev" in classes - before
