"""Runs the tests of one family of random inputs with a larger number of them than ``make test``."""

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

_TESTS = Path(__file__).parents[2] / "conformance"
_COMMAND = (sys.executable, "-m", "pytest", "-q", "-p", "no:xdist")


def run_family(
    variable: str,
    units: int,
    of_unit: int,
    files: Iterable[str],
    *,
    names: str,
    success: str,
    timeout_s: int,
) -> bool:
    """Run the tests of ``files`` whose names match ``names``; return whether they passed.

    The environment variable ``variable`` has the number of units, each of which draws ``of_unit``
    inputs. A line states how many were drawn, and ``success`` or FAILED. Each test may take
    ``timeout_s`` seconds.
    """
    tests = (str(_TESTS / name) for name in files)
    done = subprocess.run(
        [*_COMMAND, "--timeout", str(timeout_s), "-k", names, *tests],
        env={**os.environ, variable: str(units)},
        check=False,
    )
    verdict = "FAILED" if done.returncode else success
    print(f"{variable}={units}: {units * of_unit}, {verdict}", flush=True)
    return done.returncode == 0
