"""NVIDIA's ``ptxas`` as a reference for legal PTX: the one in Triton's wheel, or
``TESSERA_PTXAS``.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

INSTALL = "pip install 'triton>=3.9' (or set TESSERA_PTXAS to a ptxas of CUDA 13.4)"
DIED = "the assembler died"
_INSIDE = Path("backends", "nvidia", "bin", "ptxas-blackwell")
_FOUND = re.compile(r"line (\d+); (?:error|fatal)\s*: (.*)")
_CRASHED = "Internal compiler error"
_OLDEST_CODE = 75  # kernels for older targets are assembled for this one
_MOST_AT_ONCE = 400


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel to assemble: its file's target (``90a``) and version, and its text."""

    target: str
    version: tuple[int, int]
    text: str


HEADER = ".version {}.{}\n.target sm_{}\n.address_size 64\n"


def whole_file(kernel: Kernel) -> str:
    """Return a file with one kernel."""
    return HEADER.format(*kernel.version, kernel.target) + kernel.text.replace("KERNEL", "k")


def find() -> Path | None:
    """Return the assembler's path; None if there is none."""
    named = os.environ.get("TESSERA_PTXAS")
    if named:
        return Path(named)
    triton = importlib.util.find_spec("triton")
    if triton is None or triton.origin is None:
        return None
    path = Path(triton.origin).parent / _INSIDE
    return path if path.exists() else None


def release(ptxas: Path) -> str:
    """Return the assembler's version, such as ``V13.4.59``."""
    said = subprocess.run([ptxas, "--version"], capture_output=True, text=True, check=True)
    found = re.search(r"V[0-9.]+", said.stdout)
    return found[0] if found else "unknown"


class Assembler:
    """Assembles many kernels in one file: rejected ones are identified by line and left out, until
    the assembler accepts the rest as a whole.
    """

    def __init__(self, ptxas: Path) -> None:
        self.ptxas = ptxas

    def refusals(self, kernels: Sequence[Kernel]) -> list[str]:
        """Return for each kernel the first error that was found in it; "" if it was accepted."""
        refusals = [""] * len(kernels)
        groups: dict[tuple[str, tuple[int, int]], list[int]] = defaultdict(list)
        for index, kernel in enumerate(kernels):
            groups[kernel.target, kernel.version].append(index)
        with tempfile.TemporaryDirectory() as folder:
            for members in groups.values():
                for start in range(0, len(members), _MOST_AT_ONCE):
                    chosen = members[start : start + _MOST_AT_ONCE]
                    self._bisect(kernels, chosen, refusals, Path(folder))
        return refusals

    def _bisect(
        self, kernels: Sequence[Kernel], members: list[int], refusals: list[str], folder: Path
    ) -> None:
        while members:
            text, owners = _bundle(kernels, members)
            taken, said = self._assemble(text, kernels[members[0]].target, folder)
            if taken:
                return
            faults = {
                owners[int(line)]: message
                for line, message in reversed(_FOUND.findall(said))
                if int(line) in owners
            }
            if not faults and len(members) == 1:
                last = [DIED] if _CRASHED in said else said.strip().splitlines()
                faults = {members[0]: (last or [DIED])[-1]}
            if not faults:  # the message contains no line
                half = len(members) // 2
                self._bisect(kernels, members[:half], refusals, folder)
                self._bisect(kernels, members[half:], refusals, folder)
                return
            for index, message in faults.items():
                refusals[index] = message
            members = [index for index in members if index not in faults]

    def _assemble(self, text: str, target: str, folder: Path) -> tuple[bool, str]:
        source = folder / "forms.ptx"
        source.write_text(text)
        number = int(target.rstrip("af"))
        arch = f"sm_{target}" if number >= _OLDEST_CODE else f"sm_{_OLDEST_CODE}"
        command = [self.ptxas, "-arch", arch, "-O0", "-w", source, "-o", folder / "forms.cubin"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode == 0, done.stdout + done.stderr


def _bundle(kernels: Sequence[Kernel], members: Sequence[int]) -> tuple[str, dict[int, int]]:
    """Return one file with all of them, and a map from each line to its kernel."""
    first = kernels[members[0]]
    parts = [HEADER.format(*first.version, first.target)]
    line = parts[0].count("\n") + 1
    owners = {}
    for index in members:
        # `KERNEL` is part of every name in the file, so that no name occurs twice.
        text = kernels[index].text.replace("KERNEL", f"k{index}")
        lines = text.count("\n")
        owners.update(dict.fromkeys(range(line, line + lines), index))
        line += lines
        parts.append(text)
    return "".join(parts), owners


def require() -> Path:
    """Return the assembler's path.

    Raises:
        SystemExit: there is none; the message states how to install it.
    """
    found = find() or (Path(which) if (which := shutil.which("ptxas-blackwell")) else None)
    if found is None:
        raise SystemExit(f"there is no ptxas: {INSTALL}")
    return found
