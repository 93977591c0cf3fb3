"""Awkward block shapes and sizes: time per element relative to the best, and to lane-by-lane
code.
"""

import json
import os
import sys

from benchmarks import on_slice
from benchmarks.report import Row, Section

NAME = "shapes"
BEST = "32x8"
GOALS = {"24x8": 2.0, "12x16": 4.0, "7x33": 4.0, "1000": 1.5, "1023": 1.5}
ALONE = "lane by lane"


def measure(quick: bool) -> Section:
    """Race the textbook product and the stencil in all shapes. Raises ProgramFailed."""
    rounds = "2" if quick else "15"
    path = os.pathsep.join([on_slice.PYTHONPATH, str(on_slice.REPOSITORY / "tests")])
    command = [sys.executable, "-m", "benchmarks.exec.shapes_client", rounds]
    figures = json.loads(on_slice.run(command, {"PYTHONPATH": path}))
    rows = []
    for kernel, times in figures["worker"].items():
        best = min(times[BEST], times["8x32"], times["16x16"])
        for name, goal in GOALS.items():
            text = f"{kernel}, {name}, per element of the best"
            rows.append(Row(NAME, text, times[name] / best, "x", goal))
    for name, ratio in figures["alone"].items():
        rows.append(Row(NAME, f"{name}, {ALONE} / chosen", ratio, "x", 1.0, at_least=True))
    return Section(NAME, tuple(rows))
