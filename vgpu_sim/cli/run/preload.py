"""``tessera run --preload``: Tessera's CUDA libraries before those that a program's packages bring.

With ``auto`` each Python of the run loads them when it imports a framework, for the version of CUDA
for which the framework's package was built (ADR 220). This module implements ``12`` and ``13``.

The dynamic linker searches a library's RPATH before LD_LIBRARY_PATH, so PyTorch's wheel finds the
libraries of NVIDIA's wheels beside it. It loads no second library of a name (SONAME) that is
loaded, and LD_PRELOAD loads Tessera's first: one library that needs all others (ADR 168).
"""

import os
from collections.abc import Mapping
from typing import Final

from vgpu_sim import config

VARIABLE: Final = "LD_PRELOAD"
MAJORS: Final = ("12", "13")
"""The major versions of CUDA that programs link with."""
AUTO: Final = "auto"
CHOICES: Final = (AUTO, *MAJORS, "none")


def with_choice(environment: Mapping[str, str], choice: str) -> dict[str, str]:
    """Return an environment in which programs load the libraries of a choice of ``--preload``."""
    chosen = {**environment, config.PRELOAD_VARIABLE: choice}
    return with_libraries(chosen, choice) if choice in MAJORS else chosen


def with_libraries(environment: Mapping[str, str], major: str) -> dict[str, str]:
    """Return an environment in which programs load Tessera's libraries of CUDA ``major`` first.

    Libraries that the user preloads follow them.
    """
    if environment.get(config.MATH_VARIABLE) != "0":
        first = config.LIBRARIES_DIR / config.MATH_FOLDER / f"libtessera-cuda{major}.so"
    else:
        first = config.LIBRARIES_DIR / f"libcudart.so.{major}"
    paths = (str(first), environment.get(VARIABLE))
    return {**environment, VARIABLE: os.pathsep.join(filter(None, paths))}
