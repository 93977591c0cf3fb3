"""The only module of this package that reads and sets environment variables."""

from __future__ import annotations

import os

SLICES_VARIABLE = "TESSERA_SLICES_DIR"
PRELOAD_VARIABLE = "TESSERA_PRELOAD"  # auto, none, 12 or 13, as in `tessera run --preload`
LIBRARIES_VARIABLE = "TESSERA_LIBRARIES_DIR"  # set by `tessera run`
MATH_VARIABLE = "TESSERA_MATH_LIBRARIES"  # 0: only Tessera's runtime
REPORTED_VARIABLE = "TESSERA_REPORTED"  # frameworks of which this process or a parent has reported

_SLICES = "/run/tessera/slices"  # in a pod
_LIBRARIES = "/usr/lib/tessera"


def slices_folder() -> str:
    """Return the folder with this process's slices, if it has any."""
    return os.environ.get(SLICES_VARIABLE) or _SLICES


def preloads() -> bool:
    """Return whether this process loads Tessera's libraries when it imports a framework."""
    return os.environ.get(PRELOAD_VARIABLE, "auto") == "auto"


def library(major: str) -> str:
    """Return the library that loads all of Tessera's for a version of CUDA, or only the runtime."""
    folder = os.environ.get(LIBRARIES_VARIABLE)
    if os.environ.get(MATH_VARIABLE) != "0":
        return os.path.join(folder or _LIBRARIES, "math", f"libtessera-cuda{major}.so")
    runtime = f"libcudart.so.{major}"
    return os.path.join(folder, runtime) if folder else runtime


def get(name: str) -> str | None:
    """Return the value of a variable of the user."""
    return os.environ.get(name)


def put(name: str, value: str) -> None:
    """Set a variable for this process and those that it starts."""
    os.environ[name] = value


def mark_as_reported(module: str) -> bool:
    """Return whether a framework was not reported before, and mark it as reported."""
    reported = list(filter(None, os.environ.get(REPORTED_VARIABLE, "").split(",")))
    if module in reported:
        return False
    os.environ[REPORTED_VARIABLE] = ",".join([*reported, module])
    return True
