"""Programs of PyTorch's stock wheel under ``tessera run``.

TESSERA_TEST_TORCH_PYTHON names a Python with the wheel, also one with NVIDIA's libraries.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_VARIABLE = "TESSERA_TEST_TORCH_PYTHON"


def run_program(program: str, *arguments: str, devices: int = 1, **variables: str) -> str:
    """Run a program of PyTorch on whole GPUs; return what it prints.

    Skips the test if no Python with PyTorch is named.
    """
    python = os.environ.get(_VARIABLE)
    if not python or not Path(python).exists():
        pytest.skip(f"{_VARIABLE} names no Python with PyTorch")
    main = "from vgpu_sim.cli.main import main; main()"
    board = ["--board", "h100-80gb", "--count", str(devices), "--preload", "13"]
    command = [sys.executable, "-c", main, "run", *board, "--", python, "-c", program, *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **variables}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
