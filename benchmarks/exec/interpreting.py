"""Lane-instructions per second of the interpreter, for the textbook matrix product."""

import re
import sys
from collections.abc import Sequence

from benchmarks import on_slice
from benchmarks.exec.contest import KERNELS
from benchmarks.report import Row, Section

NAME = "interpreter"
GOAL = 5e6
_ORDER = 64
_UNROLLED = 4  # by clang


def instructions(ptx: str, order: int) -> int:
    """Return how many PTX instructions each lane executes in the kernel's hottest loop."""
    body = max(_loops(ptx), key=len)
    return len(body) * (order // _UNROLLED)


def _loops(ptx: str) -> Sequence[list[str]]:
    """Return the instructions of each block that jumps to its own label."""
    loops = []
    for label, text in re.findall(r"^(\$?\w+):(.*?)(?=^\$?\w+:|\Z)", ptx, re.MULTILINE | re.DOTALL):
        lines = [line.strip() for line in text.splitlines()]
        lines = [line for line in lines if line.endswith(";")]
        ends = [i for i, line in enumerate(lines) if line.split()[-1] == f"{label};"]
        if ends:
            loops.append(lines[: ends[0] + 1])
    return loops


def measure(quick: bool) -> Section:
    """Time a launch on the interpreter, the best of several. Raises ProgramFailed."""
    path = KERNELS / "sgemm_naive.ptx"
    words = ["sgemm_naive", _ORDER, 2 if quick else 8]
    command = [sys.executable, "-m", "benchmarks.exec.interpreting_client", path, *words]
    seconds = float(on_slice.run([str(word) for word in command], backend="interp"))
    lanes = _ORDER * _ORDER
    rate = lanes * instructions(path.read_text(), _ORDER) / seconds
    return Section(NAME, (Row(NAME, "lane-instructions", rate / 1e6, "M/s", GOAL / 1e6, True),))
