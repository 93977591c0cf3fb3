"""Checks without importing PyTorch: Python, the wheel, the plug-in, the compiler, the caches."""

import importlib.metadata
import sys
import sysconfig
from pathlib import Path

from tessera_torch import settings
from tessera_torch.caches import trust
from tessera_torch.doctor.finding import ERROR, OK, WARNING, Finding

TRIED = "2.15"  # the version of PyTorch that Tessera's tests run
_GROUP = "torch.backends"
_DRIVER_MODULE = "cuda_utils"  # what Triton compiles with the C compiler


def name_python() -> Finding:
    """Return which Python is checked."""
    return Finding("python", OK, f"{sys.version.split()[0]}, {sys.executable}")


def check_wheel() -> Finding:
    """Check that PyTorch is installed, with CUDA 13, in a version that was tried."""
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return Finding("torch", ERROR, "not installed for this Python", "pip install torch numpy")
    # The local version (+cpu) names the variant, but PyPI's wheel has none in its metadata.
    if "+cpu" in version or "+rocm" in version:
        return Finding(
            "torch", ERROR, version, "not a wheel for CUDA: install torch from PyPI's own index"
        )
    if not version.startswith(f"{TRIED}."):
        return Finding("torch", WARNING, version, f"Tessera was tried with PyTorch {TRIED}")
    return Finding("torch", OK, version)


def check_entry_point() -> Finding:
    """Check that PyTorch will find this package by its entry point."""
    if settings.is_switched_off():
        variable = settings.SWITCH_VARIABLE
        return Finding("plug-in", ERROR, f"switched off: {variable}=0", f"unset {variable}")
    if settings.autoload_is_off():
        variable = settings.AUTOLOAD_VARIABLE
        return Finding("plug-in", ERROR, f"switched off: {variable}=0", f"unset {variable}")
    names = [entry_point.value for entry_point in importlib.metadata.entry_points(group=_GROUP)]
    if not any(name.startswith("tessera_torch:") for name in names):
        folder = Path(__file__).parents[2]
        return Finding(
            check="plug-in",
            state=ERROR,
            found=f"no entry point in group {_GROUP}",
            remedy=f"put the folder of tessera_torch on PYTHONPATH: {folder}",
        )
    return Finding("plug-in", OK, f"found in {Path(__file__).parents[1]}")


def check_compiler() -> Finding:
    """Check that Triton is installed, and a C compiler with Python's headers or Triton's cached
    module.
    """
    try:
        version = importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        return Finding("compiler", ERROR, "Triton is not installed", "pip install triton")
    name = f"{_DRIVER_MODULE}{sysconfig.get_config_var('EXT_SUFFIX')}"
    places = (settings.triton_cache(), settings.inductor_cache() / "triton" / "0")
    cached = next(
        (module_path for place in places for module_path in place.glob(f"*/{name}")), None
    )
    compiler = settings.c_compiler()
    headers = Path(sysconfig.get_paths()["include"], "Python.h")
    if compiler and headers.is_file():
        return Finding("compiler", OK, f"Triton {version}, {compiler}")
    lacking = "no C compiler" if not compiler else f"no {headers}"
    if cached:
        return Finding("compiler", OK, f"Triton {version}; {lacking}, but {cached} is there")
    return Finding(
        check="compiler",
        state=ERROR,
        found=f"Triton {version}; {lacking}",
        remedy="install gcc and Python's headers, or use a cache made by"
        " python -m tessera_torch.warm",
    )


def check_cache(name: str, folder: Path) -> Finding:
    """Check that a cache of compiled kernels can be written, and by no other user."""
    variable = settings.CACHE_VARIABLES[name]
    try:
        trust.check_cache(folder)
    except trust.NotTrusted as err:
        # Without others' right to write, what they have written would be trusted: so no chmod.
        remedy = f"remove {folder}, or set {variable} to a new folder of your own"
        return Finding("cache", ERROR, f"{name}: {err}, and files of a cache are executed", remedy)
    except OSError as err:
        remedy = f"set {variable} to a folder that this user can write"
        return Finding("cache", ERROR, f"{name}: {err}", remedy)
    return Finding("cache", OK, f"{name}: {folder}")


def check_all() -> list[Finding]:
    """Return the findings of all checks of this module."""
    caches = settings.caches().items()
    return [
        name_python(),
        check_wheel(),
        check_entry_point(),
        check_compiler(),
        *(check_cache(name, folder) for name, folder in caches),
    ]
