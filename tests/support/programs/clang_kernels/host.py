"""An oracle: the same functions, compiled for this machine and called once per thread."""

import ctypes
import subprocess
from pathlib import Path

import numpy as np

from support.programs.client_kernels.gpu import Argument, Program

HERE = Path(__file__).parent
BLOCK, GRID = 32, 2


class Structure(ctypes.Structure):
    """``Large`` in kernels.cu."""

    _fields_ = (
        ("a", ctypes.c_double),
        ("v", ctypes.c_int * 7),
        ("c", ctypes.c_uint8),
        ("s", ctypes.c_int16),
        ("f", ctypes.c_float * 3),
    )


def build(compiler: str, output: Path) -> None:
    """Compile the oracle."""
    command = [compiler, "-std=c++17", "-O1", "-ffp-contract=off", "-fwrapv", "-shared", "-fPIC"]
    subprocess.run([*command, str(HERE / "oracle.cpp"), "-o", str(output)], check=True)


class Host:
    """The oracle's functions."""

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library))

    def compare(self, program: Program, name: str, *arguments: Argument) -> None:
        """Compare the arrays that a kernel writes with those that the host's functions write, bit
        by bit.
        """
        found = program.run(name, *arguments, grid=(GRID,), block=(BLOCK,))
        copies = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        passed = [_passed(argument) for argument in copies]
        function = getattr(self._library, name)
        function.restype = None
        for block in range(GRID):
            for thread in range(BLOCK):
                self._library.at(block, thread, BLOCK)
                function(*passed)
        wanted = [copy for copy in copies if isinstance(copy, np.ndarray)]
        for have, want in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(have.view(np.uint8), want.view(np.uint8), err_msg=name)


def _passed(argument: Argument) -> object:
    if isinstance(argument, np.ndarray):
        return ctypes.c_void_p(argument.ctypes.data)
    if isinstance(argument, bytes):
        return Structure.from_buffer_copy(argument)
    return ctypes.c_int(int(argument))
