"""The C opponent: the same algorithm with OpenMP, compiled for this machine at the start."""

import ctypes
import subprocess
from pathlib import Path

import numpy as np

from benchmarks.compile_c import compiler
from benchmarks.exec.contest import KERNELS, Buffers, Call, Work

FLAGS = ("-std=gnu11", "-O3", "-march=native", "-ffast-math", "-fopenmp", "-fPIC", "-shared")
_PAGE = 4096


def build(source: str, folder: Path) -> Path:
    """Compile ``kernels/<source>.c``. Raises CompilerMissing, CalledProcessError."""
    library = folder / f"{Path(source).name}.so"
    command = [compiler(), *FLAGS, str(KERNELS / f"{source}.c"), "-o", str(library), "-lm"]
    subprocess.run(command, check=True)
    return library


def version() -> str:
    """Return the C compiler's version line and the flags. Raises CompilerMissing."""
    process = subprocess.run([compiler(), "--version"], capture_output=True, text=True, check=True)
    return f"{process.stdout.splitlines()[0]}, {' '.join(FLAGS)}"


def align_to_pages(buffers: Buffers) -> Buffers:
    """Copy arrays to page boundaries, as device memory and OpenCL buffers are."""
    copies = {}
    for name, array in buffers.items():
        room = np.empty(array.nbytes + _PAGE, np.uint8)
        start = -room.ctypes.data % _PAGE
        copies[name] = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
        copies[name][...] = array
    return copies


_C_TYPES: dict[str, type] = {
    "i4": ctypes.c_int32,
    "u4": ctypes.c_uint32,
    "i8": ctypes.c_int64,
    "u8": ctypes.c_uint64,
    "f4": ctypes.c_float,
    "f8": ctypes.c_double,
}


def work(library: Path, call: Call, buffers: Buffers) -> Work:
    """Return a call of the function on these buffers (a pointer for each name)."""
    function = ctypes.CDLL(str(library))[call.function]
    function.restype = None
    arguments = [
        # data_as keeps the array alive as long as its address
        buffers[a].ctypes.data_as(ctypes.c_void_p)
        if isinstance(a, str)
        else _C_TYPES[a.dtype.str[1:]](a.item())
        for a in call.arguments
    ]

    def once() -> None:
        function(*arguments)

    return once
