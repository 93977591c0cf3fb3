"""Initial PTX texts: the project's own files, random kernels, and an optional folder."""

import os
from pathlib import Path

from support.kernels.random_kernels import functions, kernels, meetings

_ROOT = Path(__file__).parents[4]
_FOLDERS = ("examples", "tests/golden/ptx", "tests/conformance/found")
_HEAD = ".version 9.4\n.target sm_100a\n.address_size 64\n"
_RANDOM = 8
MAX_BYTES = 1 << 16


def texts() -> list[str]:
    """Return the texts that are always available, in a fixed order."""
    files = [path for folder in _FOLDERS for path in sorted((_ROOT / folder).glob("*.ptx"))]
    made = [generate(seed).text for seed in range(_RANDOM) for generate in _GENERATORS]
    return [*(path.read_text(errors="replace") for path in files), *made, _every_spelling()]


def corpus() -> list[str]:
    """Return the texts of the folder TESSERA_PTX_CORPUS, if it is set."""
    folder = os.environ.get("TESSERA_PTX_CORPUS", "")
    files = sorted(Path(folder).glob("*.ptx")) if folder else []
    return [text for path in files if len(text := path.read_text()) <= MAX_BYTES]


_GENERATORS = (kernels.generate, meetings.generate, functions.generate)


def _every_spelling() -> str:
    """Return a kernel with one instruction of each recorded spelling, whose operands mostly do not
    fit.
    """
    lines = (_ROOT / "tests/golden/ptx/spellings.txt").read_text().splitlines()
    words = [line.split()[0] for line in lines if line and line[0].isalpha()]
    body = "\n".join(f" {word} %r1, %r2, %r3;" for word in words)
    return f"{_HEAD}.entry k() {{\n .reg .b32 %r<9>;\n{body}\n}}\n"
