"""``tessera run --preload``: which libraries programs load first."""

import os
import subprocess
from pathlib import Path

import pytest

from device_plugin.cdi.spec import MATH_LIBRARIES
from vgpu_sim import config
from vgpu_sim.cli.run import preload
from vgpu_sim.native import catalogue


@pytest.mark.parametrize("major", preload.MAJORS)
def test_one_library_precedes_the_users_own_and_loads_all_others(major: str) -> None:
    environment = preload.with_libraries({"LD_PRELOAD": "/usr/lib/own.so"}, major)
    first, own = environment["LD_PRELOAD"].split(":")
    assert own == "/usr/lib/own.so"
    traced = subprocess.run(
        ["/bin/cat", "/proc/self/maps"],
        env={**os.environ, "LD_PRELOAD": first, "LD_LIBRARY_PATH": "/nowhere"},
        capture_output=True,
        text=True,
        check=True,
    )
    paths = {line.split()[-1] for line in traced.stdout.splitlines() if ".so" in line}
    ours = {Path(path).name for path in paths if Path(path).is_relative_to(config.LIBRARIES_DIR)}
    assert ours >= {*catalogue.LINKED[int(major)], "libcuda.so.1", f"libtessera-cuda{major}.so"}
    other = {"12": "13", "13": "12"}[major]
    assert f"libcudart.so.{other}" not in ours


def test_every_mathematical_library_belongs_to_a_version() -> None:
    """Parts of cuDNN are loaded by libcudnn's users themselves."""
    known = {name for names in catalogue.LINKED.values() for name in names}
    known -= {"libcudart.so.12", "libcudart.so.13"}
    parts = ("libcudnn_", "libtessera-")
    assert known == {name for name in MATH_LIBRARIES if not name.startswith(parts)}


def test_without_mathematical_libraries_only_the_runtime_is_preloaded() -> None:
    environment = preload.with_libraries({config.MATH_VARIABLE: "0"}, "13")
    assert environment["LD_PRELOAD"] == str(config.LIBRARIES_DIR / "libcudart.so.13")


@pytest.mark.parametrize("choice", ["auto", "none"])
def test_without_a_version_no_library_is_preloaded_into_every_program(choice: str) -> None:
    assert preload.with_choice({"A": "1"}, choice) == {"A": "1", "TESSERA_PRELOAD": choice}


@pytest.mark.parametrize("major", preload.MAJORS)
def test_a_version_is_preloaded_into_every_program(major: str) -> None:
    environment = preload.with_choice({}, major)
    assert environment["TESSERA_PRELOAD"] == major
    assert environment["LD_PRELOAD"].endswith(f"libtessera-cuda{major}.so")
