"""The C programs of ``tests/abi/programs``, compiled on the machine that runs the tests."""

import subprocess
from pathlib import Path

from support.kept import native_parts
from vgpu_sim.native import build, catalogue

PROGRAMS = {path.stem: path for path in (Path(__file__).parents[2] / "abi/programs").glob("*/*.c")}


def compile_program(directory: Path, name: str, *flags: str) -> Path:
    """Compile one of the programs into a directory and return its path."""
    output = directory / name
    command = [build.compiler(), "-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"]
    command += ["-pthread", f"-I{catalogue.CLIENTS / 'libcuda'}", f"-I{catalogue.GENERATED}"]
    command += [str(PROGRAMS[name])]
    subprocess.run([*command, "-o", str(output), *flags], check=True)
    return output


def linked_with_lcuda(directory: Path, name: str) -> Path:
    """Compile a program and link it with a freshly built library by ``-lcuda``, as its author
    would.
    """
    native_parts.build_once("libcuda.so.1")
    return compile_program(directory, name, f"-L{build.LIBRARIES}", "-lcuda")
