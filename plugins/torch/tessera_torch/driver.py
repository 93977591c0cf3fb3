"""Whose driver the process has loaded.

The answer needs no call into the driver: ``cuInit`` before a fork would make CUDA unusable in the
child. PyTorch's libraries are linked with the CUDA runtime, and Tessera's runtime with libcuda, so
after ``import torch`` Tessera's libcuda is among the files that are mapped. Its file has the name
of the variable that locates the slices; NVIDIA's does not.
"""

import mmap
from collections.abc import Iterable

LIBRARY = "libcuda.so"
MARK = b"TESSERA_SLICES_DIR"


def mapped_drivers(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the paths of the driver's libraries in lines of ``/proc/self/maps``."""
    paths = (line.split(maxsplit=5)[-1].strip() for line in lines if LIBRARY in line)
    return tuple(dict.fromkeys(path for path in paths if path.startswith("/")))


def has_mark(path: str) -> bool:
    """Return whether a library is Tessera's. Raises OSError."""
    with (
        open(path, "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        return content.find(MARK) >= 0


def find() -> tuple[str, ...]:
    """Return the paths of the libcuda that this process has loaded. Raises OSError."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        return mapped_drivers(maps)


def is_tessera() -> bool:
    """Return whether this process has loaded Tessera's libcuda, and no other."""
    try:
        paths = find()
        return bool(paths) and all(has_mark(path) for path in paths)
    except (OSError, ValueError):
        return False
