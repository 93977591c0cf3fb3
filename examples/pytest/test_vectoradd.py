"""Tests of a CUDA program on simulated GPUs: `pip install tessera cuda-core pytest && pytest`.

The fixture comes from Tessera's pytest plugin. Without the marker, a test gets the board of
`--tessera-board`.
"""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[1] / "vectoradd.py"


def test_vectors_are_added(tessera_gpu):
    process = tessera_gpu.run(sys.executable, str(PROGRAM))
    assert "results verified" in process.stdout


@pytest.mark.tessera(board="a100-80gb", slice="1g.10gb")
def test_a_slice_is_enough(tessera_gpu):
    # while the test runs, every program that it starts finds the slice
    process = subprocess.run([sys.executable, PROGRAM], capture_output=True, text=True, check=True)
    assert "A100" in process.stdout
    assert "results verified" in process.stdout


@pytest.mark.tessera(board="h100-80gb", count=2)
def test_two_gpus_are_listed(tessera_gpu):
    assert tessera_gpu.run("nvidia-smi", "-L").stdout.count("GPU ") == 2


@pytest.mark.tessera(board="h100-80gb", own=True)  # the fault concerns no other test
def test_the_program_reports_a_gpu_that_fell_off_the_bus(tessera_gpu):
    tessera_gpu.run("tessera", "fault", "inject", "--gpu", "0", "--off-bus")
    process = tessera_gpu.run(sys.executable, str(PROGRAM), check=False)
    assert process.returncode == 2
