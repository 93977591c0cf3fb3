"""``tessera ptx run``: one kernel from the command line, as PTX, as a container, as modified
ISA.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.processes.tessera_run import EXAMPLES

_TESSERA = (sys.executable, "-m", "vgpu_sim.cli.main")
_SAXPY = str(EXAMPLES / "saxpy.ptx")
_ARGUMENTS = ("--block", "32", "f32:2", "f32[20]:iota", "f32[20]:0.5", "u32:20")


def _run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [*_TESSERA, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)


def test_the_interpreter_runs_a_kernel_and_its_buffers_are_shown() -> None:
    done = _run("ptx", "run", _SAXPY, "--backend", "interp", *_ARGUMENTS)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first.startswith("buffer 0, f32: 0, 1, 2, 3, ")
    assert second.startswith("buffer 1, f32: 0.5, 2.5, 4.5, 6.5, ")
    assert second.endswith("... (20 in all)")


def test_a_clone_in_the_current_directory_does_not_hide_what_is_installed(tmp_path: Path) -> None:
    """The user has installed Tessera and is in a clone of the repository, in which nothing is
    built.
    """
    package = tmp_path / "vgpu_sim"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('this is the clone')")
    command = [sys.executable, "-P", "-m", "vgpu_sim.cli.main", "ptx", "run", _SAXPY, *_ARGUMENTS]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=200
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("buffer 0, f32: 0, 1, 2, 3, ")


def test_a_stage_can_be_replaced_and_what_comes_of_it_loads(tmp_path: Path) -> None:
    """ISA is written, changed, and assembled to an offline object that runs on the JIT."""
    listing, changed, binary = (tmp_path / name for name in ("a.isa", "b.isa", "b.bin"))
    assert _run("ptx", "compile", _SAXPY, "-o", str(listing)).returncode == 0
    text = listing.read_text()
    fma = re.search(r"(FMA.RN.F32 +r\d+, )(r\d+), r\d+", text)
    assert fma is not None
    changed.write_text(text.replace(fma[0], f"{fma[1]}{fma[2]}, {fma[2]}"))  # a * a + y
    assert _run("isa", "asm", str(changed), "-o", str(binary)).returncode == 0
    done = _run("ptx", "run", str(binary), *_ARGUMENTS)
    assert done.returncode == 0, done.stderr
    assert "buffer 1, f32: 4.5, 4.5, 4.5, 4.5, " in done.stdout


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ((_SAXPY, "s32:1"), 2, "arguments, not 1"),
        ((_SAXPY, "x32:1", "f32[4]", "f32[4]", "u32:1"), 2, "is not an argument such as"),
        ((_SAXPY, "f32:x", "f32[4]", "f32[4]", "u32:1"), 2, "is not a number of type f32"),
        ((_SAXPY, "f32:1", "f32[4]", "f32[4]", "u8:256"), 2, "does not fit u8"),
        ((_SAXPY, "--kernel", "no", "s32:1"), 2, "no kernel 'no'"),
        ((__file__, "s32:1"), 2, "test_ptx_run.py:"),
    ],
)
def test_what_cannot_be_run(arguments: tuple[str, ...], status: int, said: str) -> None:
    done = _run("ptx", "run", *arguments)
    assert (done.returncode, said in done.stderr) == (status, True), done.stderr
