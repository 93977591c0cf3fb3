"""``tessera cc --cuda-home`` prints a folder laid out as CUDA's toolkit."""

import subprocess
from pathlib import Path

import pytest

from vgpu_sim import config
from vgpu_sim.sdk import home
from vgpu_sim.sdk.driver import INCLUDE
from vgpu_sim.sdk.errors import CompileError


def test_the_folder_has_the_compiler_the_headers_and_the_libraries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = home.make()
    assert (made / "include").resolve() == INCLUDE.resolve()
    libraries = {link.name: link.resolve() for link in (made / "lib64").iterdir()}
    runtime = (config.LIBRARIES_DIR / "libcudart.so.12").resolve()
    driver = (config.LIBRARIES_DIR / "libcuda.so.1").resolve()
    assert libraries == {
        "libcudart.so": runtime,
        "libcudart.so.12": runtime,
        "libcuda.so": driver,
        "libcuda.so.1": driver,
    }
    shown = subprocess.run([made / "bin" / "nvcc", "--help"], capture_output=True, text=True)
    assert shown.stdout.startswith("Usage: tessera cc"), shown.stderr
    assert home.make() == made
    assert [one.name for one in made.parent.iterdir()] == [made.name]


def test_a_folder_that_another_process_made_meanwhile_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    rename = Path.rename

    def rename_late(begun: Path, made: Path) -> Path:
        (made / "bin").mkdir(parents=True)
        return rename(begun, made)

    monkeypatch.setattr(Path, "rename", rename_late)
    made = home.make()
    assert [one.name for one in made.parent.iterdir()] == [made.name]


def test_a_user_without_a_home_gets_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "user_cache_dir", lambda: None)
    with pytest.raises(CompileError, match="--cuda-home needs a home directory"):
        home.make()
