"""The examples of frameworks compute under ``tessera run``; skipped where a wheel is not installed.

TESSERA_TEST_TORCH_PYTHON names a Python with PyTorch and Triton, TESSERA_TEST_JAX_PYTHON one with JAX.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

from support.processes.tessera_run import tessera

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples" / "frameworks"
_GUIDE = (ROOT / "docs" / "first-kernel.md").read_text()
CASES = {
    "triton/sum_rows.py": ("TESSERA_TEST_TORCH_PYTHON", "triton", "64 sums verified on "),
    "tensorflow/train.py": (
        "TESSERA_TEST_TENSORFLOW_PYTHON",
        "tensorflow",
        "losses of the GPU and of the CPU agree",
    ),
    "jax/gradient.py": ("TESSERA_TEST_JAX_PYTHON", "jax", "gradient of 16384 numbers verified on "),
}


def test_every_example_of_the_guide_is_run() -> None:
    named = re.findall(r"python examples/frameworks/(\S+\.py)", _GUIDE)
    assert sorted(named) == sorted(CASES)


@pytest.mark.parametrize("name", CASES)
def test_the_guides_command_verifies_its_results(name: str) -> None:
    variable, package, said = CASES[name]
    python = os.environ.get(variable)
    if python is None:
        pytest.skip(f"NOT RUN: {variable} names no Python with {package}")
    found = re.search(rf"tessera run (.*) -- python examples/frameworks/{re.escape(name)}", _GUIDE)
    assert found is not None
    done = subprocess.run(
        [*tessera("run", *found[1].split()), "--", python, str(EXAMPLES / name)],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(said)
