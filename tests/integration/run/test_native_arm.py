"""The worker for AArch64 compiles completely, and its switch of fibers runs under emulation.

Needs a cross compiler, and for the run an emulator:
``apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static``.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from vgpu_sim.native import build, catalogue

_COMPILER = shutil.which("aarch64-linux-gnu-gcc")
_EMULATOR = shutil.which("qemu-aarch64-static")
_PROGRAM = Path(__file__).parents[2] / "abi" / "programs" / "driver" / "fibers.c"
_WORKER = catalogue.RUNTIME
_FLAGS = ("-std=c11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pthread")
_INCLUDES = (f"-I{catalogue.INCLUDE}", f"-I{_WORKER}")

needs_compiler = pytest.mark.skipif(
    _COMPILER is None,
    reason="NOT RUN: no cross compiler: "
    "apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
)


def _compile(compiler: str, directory: Path, *more: str) -> Path:
    program = directory / "fibers"
    sources = (str(_PROGRAM), str(_WORKER / "base" / "fiber.c"))
    command = [compiler, *_FLAGS, *_INCLUDES, *more, *sources, "-o", str(program)]
    subprocess.run(command, check=True)
    return program


def test_fibers_find_their_registers_again_here(tmp_path: Path) -> None:
    program = _compile(build.compiler(), tmp_path)
    assert "0 wrong" in subprocess.run([program], capture_output=True, text=True, check=True).stdout


@needs_compiler
@pytest.mark.skipif(
    _EMULATOR is None, reason="NOT RUN: no emulator: apt-get install qemu-user-static"
)
def test_fibers_find_their_registers_again_on_arm(tmp_path: Path) -> None:
    assert _COMPILER is not None
    program = _compile(_COMPILER, tmp_path, "-static")
    command = [str(_EMULATOR), str(program)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert ran.stdout == "7 fibers, 1000 turns, 0 wrong\n"


@needs_compiler
def test_the_whole_worker_compiles_for_arm(tmp_path: Path) -> None:
    assert _COMPILER is not None
    sources = sorted(str(path) for path in _WORKER.rglob("*.c"))
    flags = ("-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-z,defs")
    command = [_COMPILER, *_FLAGS, *_INCLUDES, *flags, *sources, "-o", str(tmp_path / "worker.so")]
    subprocess.run(command, check=True)
