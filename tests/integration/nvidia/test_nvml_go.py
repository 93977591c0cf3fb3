"""NVIDIA's Go bindings (go-nvml), which the device plugin, GFD and mig-parted use."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from mig.geometry import board
from support.kept import native_parts
from support.processes import nvml_views
from vgpu_sim.hal.management.nvml import MANAGEMENT_SOCKET_NAME
from vgpu_sim.native import build

SOURCE = Path(nvml_views.__file__).parents[1] / "programs" / "go_nvml"
BUILD_SECONDS = 280


@pytest.fixture(scope="module")
def program_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled program; needs Go, and the module in its cache or its proxy."""
    go = shutil.which("go", path=f"{os.environ.get('PATH', '')}:/usr/local/go/bin")
    if go is None:
        pytest.skip("no Go: NVIDIA's bindings for it are not tried")
    program = tmp_path_factory.mktemp("go") / "program"
    done = subprocess.run(
        [go, "build", "-o", str(program), "."],
        cwd=SOURCE,
        env=os.environ | {"GOFLAGS": "-mod=readonly", "CGO_ENABLED": "1"},
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
    )
    if done.returncode and ("dial tcp" in done.stderr or "proxy" in done.stderr):
        pytest.skip(f"go-nvml cannot be had here: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return program


@pytest.mark.slow
def test_go_programs_see_what_gpud_has(program_path: Path, tmp_path: Path) -> None:
    native_parts.build_once("libnvidia-ml.so.1")
    chosen = board(nvml_views.BOARD)
    with nvml_views.rig(tmp_path) as rig:
        node = str(rig.node.run_dir / MANAGEMENT_SOCKET_NAME)
        found = run_program(program_path, TESSERA_MANAGEMENT_SOCKET=node)
        for gpu in rig.inventory().gpus:
            assert ["gpu", gpu.uuid, str(int(gpu.mig_enabled)), gpu.pci_bus_id] in found
        for instance in rig.gpu(rig.divided).instances:
            values = (instance.gi_id, instance.multiprocessors, instance.memory_bytes)
            assert ["mig", instance.uuid, *map(str, values)] in found
        for profile in chosen.profiles:
            size = profile.memory_bytes >> 20
            row = ["profile", str(profile.driver_id), str(profile.compute_slices), str(size)]
            assert found.count(row) == 2, "of each GPU"
        mounted = rig.mount(tmp_path / "slices", rig.slices["2g.20gb"])
        mine = run_program(program_path, TESSERA_SLICES_DIR=str(mounted))
        assert [row[1] for row in mine if row[0] in ("gpu", "mig")] == [
            rig.divided,
            rig.slices["2g.20gb"],
        ]


def run_program(program_path: Path, **variables: str) -> list[list[str]]:
    """Return the program's output, split into words."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TESSERA_")}
    environment = kept | {"LD_LIBRARY_PATH": str(build.LIBRARIES), **variables}
    done = subprocess.run(
        [program_path], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return [line.split() for line in done.stdout.splitlines()]
