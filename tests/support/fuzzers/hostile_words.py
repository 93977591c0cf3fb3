"""``make fuzz words=1 n=1000000``: n words for each function that kernels' code calls.

This runs the test of the worker's native runtime with a larger number of words. Under the
sanitizers a product, which has 16 words, takes about 2 ms, and each other call much less.
"""

import os
import subprocess
import sys
from pathlib import Path

from support.watches import rotation

COUNT, SEED = "TESSERA_HOSTILE_WORDS", "TESSERA_HOSTILE_WORDS_SEED"
"""The variables by which the test has its number of words and its seed."""

_FUNCTIONS = 6
_START_S = 1800  # in idle time, beside tests that use all cores
_WORD_S = 0.001  # eight times that of a product on an idle machine
_FOLDER = Path(__file__).parents[2] / "unit/vgpu_sim/worker_process"
_TEST = "test_words_of_kernels_lead_no_function_beyond_its_memory"


def limit_s(count: int) -> float:
    """Return how long a function may take for a number of words."""
    return _START_S + count * _WORD_S


def seed_of_day() -> int:
    """Return the seed of the tests' words, which is another one each day."""
    return rotation.number_of_day()


def main(count: int, seed: int) -> int:
    """Return 0 if the sanitizers report nothing."""
    test = f"{_FOLDER / 'test_worker_native.py'}::{_TEST}"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-s",
        "-p",
        "no:xdist",
        "--timeout",
        str(_FUNCTIONS * int(limit_s(count))),
        test,
    ]
    variables = {COUNT: str(count), SEED: str(seed)}
    return subprocess.run(command, env={**os.environ, **variables}, check=False).returncode


if __name__ == "__main__":
    given = dict(word.split("=", 1) for word in sys.argv[1:])
    sys.exit(main(int(given.get("n") or 1_000_000), int(given.get("seed") or seed_of_day())))
