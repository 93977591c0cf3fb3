"""``tessera run --preload``: which libraries programs load first."""

from pathlib import Path

import pytest

from device_plugin.cdi.spec import MATH_LIBRARIES
from vgpu_sim import config
from vgpu_sim.cli.run import preload


@pytest.mark.parametrize("major", ["12", "13"])
def test_each_library_exists_once_and_precedes_the_users_own(major: str) -> None:
    environment = preload.with_libraries({"LD_PRELOAD": "/usr/lib/own.so"}, major)
    *ours, own = environment["LD_PRELOAD"].split(":")
    assert own == "/usr/lib/own.so"
    assert all(Path(path).is_absolute() for path in ours)
    assert Path(ours[0]) == config.LIBRARIES_DIR / f"libcudart.so.{major}"
    names = [Path(path).name.partition(".so")[0] for path in ours]
    assert len(names) == len(set(names))
    assert {"libcublas", "libcublasLt", "libcudnn", "libnccl"} <= set(names)


def test_every_mathematical_library_belongs_to_a_version() -> None:
    """Parts of cuDNN are loaded by libcudnn's users themselves."""
    known = {name for names in preload.MATH_LIBRARIES.values() for name in names}
    assert known == {name for name in MATH_LIBRARIES if not name.startswith("libcudnn_")}


def test_without_mathematical_libraries_only_the_runtime_is_preloaded() -> None:
    environment = preload.with_libraries({config.MATH_VARIABLE: "0"}, "13")
    assert environment["LD_PRELOAD"] == str(config.LIBRARIES_DIR / "libcudart.so.13")
