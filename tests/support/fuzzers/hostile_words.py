"""``make fuzz words=1 n=1000000``: n groups of words for each function that kernels' code calls.

This runs the test of the worker's native runtime with a larger number of words; a product takes
about 2 ms under the sanitizers.
"""

import os
import subprocess
import sys
from pathlib import Path

_FOLDER = Path(__file__).parents[2] / "unit/vgpu_sim/worker_process"
_TEST = "test_words_of_kernels_lead_no_function_beyond_its_memory"


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
        "7200",
        test,
    ]
    variables = {"TESSERA_HOSTILE_WORDS": str(count), "TESSERA_HOSTILE_WORDS_SEED": str(seed)}
    return subprocess.run(command, env={**os.environ, **variables}, check=False).returncode


if __name__ == "__main__":
    given = dict(word.split("=", 1) for word in sys.argv[1:])
    sys.exit(main(int(given.get("n") or 1_000_000), int(given.get("seed") or 1)))
