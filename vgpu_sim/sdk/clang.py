"""Finding a clang that can compile CUDA for PTX."""

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

from vgpu_sim.records import dataclass
from vgpu_sim.sdk.errors import CompileError

# clang 16 drops device variables of unnamed namespaces. Tested are 19 and 22.
OLDEST = 17
_NEWEST_TRIED = 24
# The newest PTX version that each clang can write; without NVIDIA's SDK it would choose an old one.
_PTX = {17: 81, 18: 83, 19: 85, 20: 86}
_INSTALL = (
    f"install clang {OLDEST} or newer with its NVPTX target, for example `apt-get install clang-19"
    " g++`, or select one with -ccbin DIRECTORY"
)
# Options of LLVM, and of each a function that its NVPTX target compiles only with it: without, it
# calls functions that it does not have, and ends with a crash.
_EXPANSIONS = {
    "-expand-div-rem-bits=64": "__int128 divide(__int128 a, __int128 b) { return a / b; }",
    "-expand-fp-convert-bits=64": "double convert(__int128 a) { return a; }",
}


@dataclass(frozen=True, slots=True)
class Clang:
    """A clang++ and its version, for example ``19``; ``resources`` has its own headers."""

    path: Path
    version: int
    text: str
    resources: Path

    @property
    def ptx(self) -> int:
        """The version of the PTX to write, for example 85 for 8.5."""
        return _PTX.get(self.version, max(_PTX.values()))

    @property
    def expansions(self) -> tuple[str, ...]:
        """The options with which LLVM expands divisions and conversions of 128-bit integers."""
        return _expansions(self.path)


@functools.cache
def _expansions(path: Path) -> tuple[str, ...]:
    """Return the options that have their effect in a clang, whatever its version."""
    options: list[str] = []
    for option, source in _EXPANSIONS.items():
        if _compiles(path, source, "-mllvm", option):
            options += "-mllvm", option
    return tuple(options)


def _candidates(chosen: str | None) -> list[Path]:
    versions = range(_NEWEST_TRIED, OLDEST - 4, -1)
    if chosen is not None:
        chosen_path = Path(chosen)
        if chosen_path.is_dir():
            names = ["clang++", *(f"clang++-{version}" for version in versions)]
            return [chosen_path / name for name in names if (chosen_path / name).exists()]
        return [Path(program)] if (program := shutil.which(chosen)) else []
    names = ["clang++", *(f"clang++-{version}" for version in versions)]
    found_paths = [Path(program) for name in names if (program := shutil.which(name))]
    for version in versions:
        installed = Path(f"/usr/lib/llvm-{version}/bin/clang++")
        if installed.exists():
            found_paths.append(installed)
    return found_paths


def _run(path: Path, *arguments: str, source: str = "") -> str | None:
    """Return what a clang prints, or None if it fails. ``source`` is its standard input."""
    command: list[str | Path] = [path, *arguments]
    try:
        run = subprocess.run(
            command, input=source, capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return run.stdout if run.returncode == 0 else None


def _ask(path: Path, *arguments: str) -> str:
    return _run(path, *arguments) or ""


def _compiles(path: Path, source: str, *options: str) -> bool:
    """Return whether a clang compiles a source of C to PTX."""
    arguments = [
        "-x", "c", "--target=nvptx64-nvidia-cuda", "-fno-crash-diagnostics", *options,
        "-S", "-", "-o", os.devnull,
    ]  # fmt: skip
    return _run(path, *arguments, source=source) is not None


def _probe(path: Path) -> Clang | None:
    text = _ask(path, "--version")
    match = re.search(r"clang version ([0-9]+)\.", text)
    if match is None:
        return None
    resources = _ask(path, "-print-resource-dir").strip()
    return Clang(path, int(match[1]), text.splitlines()[0], Path(resources or "/"))


def find(chosen: str | None = None) -> Clang:
    """Return the first suitable clang++: of ``chosen`` (a program or directory), or of PATH.

    Raises:
        CompileError: none is installed, or each one is too old or has no NVPTX target; the text
            names what was found and how to install another.
    """
    refused: list[str] = []
    for path in _candidates(chosen):
        clang = _probe(path)
        if clang is None:
            refused.append(f"{path} is not clang")
        elif clang.version < OLDEST:
            refused.append(f"{path} has version {clang.version}, which is too old")
        elif not (clang.resources / "include" / "__clang_cuda_math.h").exists():
            refused.append(f"{path} has no headers for CUDA in {clang.resources}")
        elif "nvptx64" not in _ask(path, "--print-targets"):
            refused.append(f"{path} has no NVPTX target")
        else:
            return clang
    problems = "; ".join(dict.fromkeys(refused)) or (
        f"-ccbin {chosen}: no such program" if chosen else "no clang++ in PATH"
    )
    raise CompileError(f"{problems}: {_INSTALL}")
