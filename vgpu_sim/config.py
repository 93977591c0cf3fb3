"""The only module of this package that reads environment variables.

``tessera run`` sets ``TESSERA_SLICES_DIR`` and ``TESSERA_TOKEN`` for the client library of the
program that it starts. ``TESSERA_RUN_DIR`` is the run directory of a node's gpud.
"""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from vgpu_sim import frameworks

SLICES_DIR_VARIABLE = "TESSERA_SLICES_DIR"
TOKEN_VARIABLE = "TESSERA_TOKEN"
HCA_VARIABLE = "TESSERA_HCA"  # hcad's socket
HCA_ADDRESS_VARIABLE = "TESSERA_HCA_ADDRESS"  # its function's IP address
RUN_DIR_VARIABLE = "TESSERA_RUN_DIR"
VISIBLE_DEVICES_VARIABLE = "CUDA_VISIBLE_DEVICES"
DRIVERS_VARIABLE = "IBV_DRIVERS"
LIBRARY_PATH_VARIABLE = "LD_LIBRARY_PATH"
PTXAS_PYTHON_VARIABLE = "TESSERA_PTXAS_PYTHON"  # whose Tessera checks PTX for the program ptxas
MATH_VARIABLE = "TESSERA_MATH_LIBRARIES"  # 0: programs do not find Tessera's libcublas and others
TORCH_VARIABLE = "TESSERA_TORCH"  # 0: PyTorch does not use tessera_torch, which reads it
PYTHON_PATH_VARIABLE = "PYTHONPATH"
TRITON_PTXAS_VARIABLE = "TRITON_PTXAS_PATH"  # Triton's ptxas below compute capability 9.0
TRITON_NEWER_PTXAS_VARIABLE = "TRITON_PTXAS_BLACKWELL_PATH"  # and from 9.0 on
LINK_PATH_VARIABLE = "LIBRARY_PATH"  # where gcc and clang look for -lcuda

LIBRARIES_DIR = Path(__file__).parent / "native" / "lib"  # where the build hook puts libcuda.so.1
MATH_FOLDER = "math"  # and below it, libcublas.so.12 and others
RDMA_LIBRARIES_DIR = LIBRARIES_DIR / "rdma"  # and libibverbs.so.1
PROVIDER_PATH = LIBRARIES_DIR / "provider" / "libtessera"  # as rdma-core names it
PROGRAMS_DIR = LIBRARIES_DIR / "bin"  # and nvidia-smi, and ptxas

PRELOAD_VARIABLE = "TESSERA_PRELOAD"  # which libraries frameworks load first; unset: auto
LIBRARIES_VARIABLE = "TESSERA_LIBRARIES_DIR"  # where they find them

DEFAULT_RUN_DIR = Path("/run/tessera")
DEFAULT_STATE_DIR = Path("/var/lib/tessera")


def run_dir() -> Path:
    """Return the directory that holds the sockets of the node's gpud."""
    return Path(os.environ.get(RUN_DIR_VARIABLE) or DEFAULT_RUN_DIR)


def slices_dir() -> Path:
    """Return the directory of the slice sockets. The result is valid under ``tessera run``, in a
    pod and on a node.
    """
    return Path(os.environ.get(SLICES_DIR_VARIABLE) or DEFAULT_RUN_DIR / "slices")


def user_selects_devices() -> bool:
    """Return whether the user selects the devices that programs see."""
    return VISIBLE_DEVICES_VARIABLE in os.environ


def is_in_run() -> bool:
    """Return whether this process runs under ``tessera run``."""
    return SLICES_DIR_VARIABLE in os.environ


def private_dir_parents() -> tuple[Path, ...]:
    """Return the directories in which a ``tessera`` command may create its private directory, in
    order of preference.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return (*((Path(runtime),) if runtime else ()), Path(tempfile.gettempdir()), Path("/tmp"))


def user_cache_dir() -> Path | None:
    """Return the user's cache directory (XDG base directory specification), if there is one."""
    configured = os.environ.get("XDG_CACHE_HOME")
    if configured and Path(configured).is_absolute():
        return Path(configured) / "tessera"
    try:
        return Path.home() / ".cache" / "tessera"
    except RuntimeError:
        return None  # a uid without a home, as in many containers


def own_environment() -> Mapping[str, str]:
    """Return this process's environment."""
    return dict(os.environ)


def program_environment(slices: Path, token_hex: str, libraries: Path) -> Mapping[str, str]:
    """Return this process's environment plus the variables that locate a slice and libcuda.

    The variables let programs find libcuda at run time, and let compilers find it when they link
    with ``-lcuda``. Tessera's nvidia-smi precedes the system's in PATH, because Tessera's
    libnvidia-ml supports only a part of the functions that the system's nvidia-smi calls.
    Tessera's mathematical libraries are found unless TESSERA_MATH_LIBRARIES is 0 (ADR 149).
    PyTorch finds Tessera's eager operators (ADR 163), and every Python prepares frameworks when
    they are imported (ADR 220). Variables that frameworks need are set unless the user set them.
    Tessera's ptxas is also there, and Triton is directed to it unless the user directs Triton to
    another one.
    """
    environment = _with_libraries(os.environ, libraries)
    math = libraries / MATH_FOLDER
    if os.environ.get(MATH_VARIABLE) != "0" and math.is_dir():
        search_path = environment[LIBRARY_PATH_VARIABLE]
        environment[LIBRARY_PATH_VARIABLE] = f"{math}{os.pathsep}{search_path}"
    environment["PATH"] = f"{PROGRAMS_DIR}{os.pathsep}{environment.get('PATH') or os.defpath}"
    for variable in (TRITON_PTXAS_VARIABLE, TRITON_NEWER_PTXAS_VARIABLE):
        environment.setdefault(variable, str(PROGRAMS_DIR / "ptxas"))
    plugins = (frameworks.start_plugin(), frameworks.torch_plugin())
    paths = [str(folder) for folder in plugins if folder is not None]
    paths += filter(None, [environment.get(PYTHON_PATH_VARIABLE)])
    environment[PYTHON_PATH_VARIABLE] = os.pathsep.join(paths)
    environment.update(frameworks.settings(environment))
    environment[LIBRARIES_VARIABLE] = str(libraries)
    environment[SLICES_DIR_VARIABLE] = str(slices)
    environment[TOKEN_VARIABLE] = token_hex
    return environment


def with_ptxas_check(environment: Mapping[str, str], python: str) -> dict[str, str]:
    """Return an environment in which the program ptxas checks PTX with this Python's Tessera."""
    return {**environment, PTXAS_PYTHON_VARIABLE: python}


def with_hca(
    environment: Mapping[str, str],
    socket: Path,
    token_hex: str,
    libraries: Path,
    address: str = "",
) -> Mapping[str, str]:
    """Return an environment plus the variables that locate an HCA, its libraries and its address.

    ``libraries`` is the folder of Tessera's libibverbs, or PROVIDER_PATH; with PROVIDER_PATH, the
    system's libibverbs loads Tessera's provider from there.
    """
    if libraries == PROVIDER_PATH:
        variables = {**environment, DRIVERS_VARIABLE: str(libraries)}
    else:
        variables = _with_libraries(environment, libraries)
    return variables | {
        HCA_VARIABLE: str(socket),
        HCA_ADDRESS_VARIABLE: address,
        TOKEN_VARIABLE: token_hex,
    }


def _with_libraries(environment: Mapping[str, str], libraries: Path) -> dict[str, str]:
    """Prepend a folder to the library search paths of programs and compilers."""
    result = dict(environment)
    for variable in (LIBRARY_PATH_VARIABLE, LINK_PATH_VARIABLE):
        paths = [str(libraries), *filter(None, [result.get(variable)])]
        result[variable] = os.pathsep.join(paths)
    return result
