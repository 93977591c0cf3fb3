"""Distance between the chosen plans and the best ones that a search of all legal plans finds."""

import json
import os
import subprocess
import sys

from benchmarks import on_slice
from benchmarks.exec.catalogue import CONTESTS
from benchmarks.report import Row, Section

NAME = "choice"
GOAL = 1.15
_LIMIT_S = 300


def measure(quick: bool) -> Section:
    """Search for the best plan of every kernel, each contest in a new process."""
    rows: list[Row] = []
    for name in ["vecadd-64K"] if quick else CONTESTS:
        rows += _contest(name)
    return Section(NAME, tuple(rows))


def _contest(name: str) -> list[Row]:
    path = os.pathsep.join([on_slice.PYTHONPATH, str(on_slice.REPOSITORY / "tests")])
    command = [sys.executable, "-m", "benchmarks.exec.plans", name, "--json"]
    try:
        process = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=True,
        )
    except subprocess.TimeoutExpired:
        return [Row(NAME, name, 0, "x", GOAL, missing=f"the search took more than {_LIMIT_S} s")]
    except subprocess.CalledProcessError as err:
        why = (err.stderr.strip().splitlines() or [f"status {err.returncode}"])[-1][:100]
        return [Row(NAME, name, 0, "x", GOAL, missing=why)]
    return [
        Row(NAME, f"{name}, {kernel}: {chosen}, best {best}", ratio, "x", GOAL)
        for kernel, chosen, best, ratio in map(json.loads, process.stdout.splitlines())
    ]
