"""Programs that another compiler builds with Tessera's headers and Tessera's ``-lcudart``."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from vgpu_sim.sdk import home
from vgpu_sim.sdk.driver import INCLUDE

SOURCE = Path(__file__).parents[1] / "programs/cudart/headers.cpp"
COMPILER = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
needs_compiler = pytest.mark.skipif(
    COMPILER is None, reason="NOT RUN: no compiler of C++ (apt-get install g++)"
)


def link(program: Path, headers: Path, folder: Path) -> None:
    """Compile and link as the documentation states, in an environment without Tessera's paths."""
    plain = {"PATH": os.environ["PATH"]}
    command = [COMPILER, "-std=c++11", f"-I{headers}", str(SOURCE), "-o", str(program)]
    command += [f"-L{folder}", "-lcudart"]
    linking = subprocess.run(command, env=plain, capture_output=True, text=True, check=False)
    assert linking.returncode == 0, linking.stderr


def check(program: Path, environment: dict[str, str]) -> None:
    execution = subprocess.run(
        [program], env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert (execution.returncode, execution.stdout) == (0, "failures 0\n"), execution.stderr


@needs_compiler
def test_the_library_without_version_is_the_headers_one(tmp_path, libraries, environment) -> None:
    """``-I"$(tessera cc --include-dir)" -L"$(tessera libdir)" -lcudart``"""
    declared = re.search(r"CUDART_VERSION (\d+)", (INCLUDE / "cuda_runtime_api.h").read_text())
    assert declared
    major = int(declared[1]) // 1000
    assert (libraries / "libcudart.so").resolve().name == f"libcudart.so.{major}"
    link(tmp_path / "program", INCLUDE, libraries)
    check(tmp_path / "program", environment)


@needs_compiler
def test_a_toolkits_folder_links_without_the_driver(
    tmp_path, monkeypatch, libraries, environment
) -> None:
    """``-I$CUDA_HOME/include -L$CUDA_HOME/lib64 -lcudart``: the linker finds what that needs."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = home.make()
    link(tmp_path / "program", folder / "include", folder / "lib64")
    check(tmp_path / "program", environment)
