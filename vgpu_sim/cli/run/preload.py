"""``tessera run --preload``: Tessera's CUDA libraries before those that a program's packages bring.

The dynamic linker searches a library's RPATH before LD_LIBRARY_PATH, so PyTorch's wheel finds the
libraries of NVIDIA's wheels beside it. It loads no second library of a name (SONAME) that is
loaded, and LD_PRELOAD loads Tessera's first.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from vgpu_sim import config

VARIABLE: Final = "LD_PRELOAD"
_BOTH: Final = (
    *("libcudnn.so.9", "libcurand.so.10", "libcusparse.so.12", "libcusparseLt.so.0"),
    *("libcufile.so.0", "libnccl.so.2", "libnvshmem_host.so.3"),
)
MATH_LIBRARIES: Final = {
    "12": ("libcublas.so.12", "libcublasLt.so.12", "libcufft.so.11", "libcusolver.so.11", *_BOTH),
    "13": (
        *("libcublas.so.13", "libcublasLt.so.13", "libcufft.so.12", "libcusolver.so.12"),
        *("libcupti.so.13", *_BOTH),
    ),
}
"""The mathematical libraries of each major version of CUDA that programs link with."""


def with_libraries(environment: Mapping[str, str], major: str) -> dict[str, str]:
    """Return an environment in which programs load Tessera's libraries of CUDA ``major`` first.

    Libraries that the user preloads follow them.
    """
    math = config.LIBRARIES_DIR / config.MATH_FOLDER
    found: list[Path | str] = [config.LIBRARIES_DIR / f"libcudart.so.{major}"]
    if environment.get(config.MATH_VARIABLE) != "0":
        found += [math / name for name in MATH_LIBRARIES[major]]
    if own := environment.get(VARIABLE):
        found.append(own)
    return {**environment, VARIABLE: os.pathsep.join(map(str, found))}
