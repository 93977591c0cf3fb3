"""The only module of this package that reads environment variables."""

import functools
import getpass
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

SWITCH_VARIABLE = "TESSERA_TORCH"  # 0: PyTorch is left as it is
FALLBACK_VARIABLE = "TESSERA_TORCH_FALLBACK"  # cpu: what has no kernel runs on the CPU
CHECK_VARIABLE = "TESSERA_TORCH_CHECK_INDICES"  # 0: indices are not checked
LOG_VARIABLE = "TESSERA_TORCH_LOG"  # 1: a line for each kernel, and counts at the end
SHARED_VARIABLE = "TESSERA_TORCH_CACHE"  # a folder that `python -m tessera_torch.warm --into` made
AUTOLOAD_VARIABLE = "TORCH_DEVICE_BACKEND_AUTOLOAD"  # PyTorch's own; 0: it loads no plug-in
CHECK_PTX_VARIABLE = "TESSERA_PTXAS_PYTHON"  # whose Tessera checks PTX for the program ptxas
CACHE_VARIABLES: Final = {"Inductor": "TORCHINDUCTOR_CACHE_DIR", "Triton": "TRITON_CACHE_DIR"}

PTXAS: Final = Path("/usr/local/bin/ptxas")  # where a slice mounts Tessera's


def keep_fused_multiply_add() -> None:
    """Choose Triton's default of today, so that it does not warn of its change."""
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")


def direct_triton(libcuda: str) -> None:
    """Let Triton find libcuda, ptxas and a cache that can be written, unless the user names them.

    The node agent sets the first two for containers, except with ResourceClaims (ADR 168).
    """
    os.environ.setdefault("TRITON_LIBCUDA_PATH", str(Path(libcuda).parent))
    if PTXAS.is_file():
        for variable in ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"):
            os.environ.setdefault(variable, str(PTXAS))
    os.environ.setdefault(CACHE_VARIABLES["Triton"], str(triton_cache()))


@contextmanager
def without_ptx_check() -> Iterator[None]:
    """Let ptxas check no PTX, as in pods: starting Python takes half the time of a small kernel.

    The driver checks a kernel that it loads. The variable stays in its place in the environment,
    because another thread may read it meanwhile.
    """
    earlier_setting = os.environ.get(CHECK_PTX_VARIABLE)
    if not earlier_setting:
        yield
        return
    os.environ[CHECK_PTX_VARIABLE] = ""
    try:
        yield
    finally:
        os.environ[CHECK_PTX_VARIABLE] = earlier_setting


def is_switched_off() -> bool:
    """Return whether the user wants no operators of this package."""
    return os.environ.get(SWITCH_VARIABLE) == "0"


def falls_back_to_cpu() -> bool:
    """Return whether operators without a kernel run on the CPU."""
    return os.environ.get(FALLBACK_VARIABLE) == "cpu"


@functools.cache
def checks_indices() -> bool:
    """Return whether indices are checked on the host; the variable is read once."""
    return os.environ.get(CHECK_VARIABLE) != "0"


def logs() -> bool:
    """Return whether each compilation is logged."""
    return os.environ.get(LOG_VARIABLE, "0") not in ("", "0")


def autoload_is_off() -> bool:
    """Return whether PyTorch loads no plug-ins."""
    return os.environ.get(AUTOLOAD_VARIABLE, "1") == "0"


def c_compiler() -> str | None:
    """Return the C compiler that Triton uses, as Triton looks for it."""
    named = os.environ.get("CC")
    return shutil.which(named) if named else shutil.which("gcc") or shutil.which("clang")


def triton_cache() -> Path:
    """Return the folder of Triton's compiled files: below a home that can be written, as Triton
    chooses, else below Inductor's.
    """
    if named := os.environ.get(CACHE_VARIABLES["Triton"]):
        return Path(named)
    home = Path(os.environ.get("TRITON_HOME") or os.path.expanduser("~"), ".triton", "cache")
    existing = next(folder for folder in (home, *home.parents) if folder.exists())
    return home if os.access(existing, os.W_OK | os.X_OK) else inductor_cache() / "triton"


def inductor_cache() -> Path:
    """Return the folder of Inductor's compiled files."""
    if named := os.environ.get(CACHE_VARIABLES["Inductor"]):
        return Path(named)
    try:
        user = re.sub(r'[\\/:*?"<>|]', "_", getpass.getuser())
    except (KeyError, OSError):  # a uid without a name, as in many containers
        user = f"uid_{os.getuid()}"
    return Path(tempfile.gettempdir(), f"torchinductor_{user}")


def caches() -> dict[str, Path]:
    """Return the folders from which compiled files are executed."""
    return {"Inductor": inductor_cache(), "Triton": triton_cache()}


def chosen_caches() -> set[str]:
    """Return the names of the caches whose folders no variable names."""
    return {name for name, variable in CACHE_VARIABLES.items() if not os.environ.get(variable)}


def direct_cache(name: str, folder: Path) -> None:
    """Use another folder in this process and its children."""
    os.environ[CACHE_VARIABLES[name]] = str(folder)


def cache_to_share() -> Path | None:
    """Return the folder of kernels that were compiled ahead, if the user names one."""
    named = os.environ.get(SHARED_VARIABLE)
    return Path(named) if named else None


def fix_caches() -> dict[str, Path]:
    """Return the caches' folders, and keep Inductor from moving Triton's later."""
    folders = caches()
    for name, variable in CACHE_VARIABLES.items():
        os.environ.setdefault(variable, str(folders[name]))
    return folders


def environment_of_caches(folders: Mapping[str, Path]) -> dict[str, str]:
    """Return this process's environment with other caches, and without a shared one."""
    directed = {variable: str(folders[name]) for name, variable in CACHE_VARIABLES.items()}
    return {**os.environ, **directed, SHARED_VARIABLE: ""}
