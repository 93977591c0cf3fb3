"""Compiles the C opponents and clients of a benchmark with the system's C compiler."""

import shutil
import subprocess
from pathlib import Path

SOURCES = Path(__file__).parent / "native"
OPPONENT_FLAGS = ("-O3", "-march=native", "-fopenmp", "-fPIC", "-shared")
CLIENT_FLAGS = ("-O2", "-pthread")


class CompilerMissing(Exception):
    """There is no C compiler."""


def compiler() -> str:
    """Return the C compiler's path. Raises CompilerMissing."""
    path = shutil.which("cc")
    if path is None:
        raise CompilerMissing("no C compiler (cc)")
    return path


def compile_c(source: str, output: Path, flags: tuple[str, ...], *links: str) -> Path:
    """Compile ``native/<source>`` to ``output`` and return it.

    Raises:
        CompilerMissing: there is no ``cc``.
        subprocess.CalledProcessError: the compiler failed.
    """
    command = [compiler(), "-std=gnu11", *flags, str(SOURCES / source), "-o", str(output), *links]
    subprocess.run(command, check=True)
    return output
