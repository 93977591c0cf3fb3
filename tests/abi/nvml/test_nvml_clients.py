"""The suite of NVML's clients that `make clients` runs: here with the versions of the tests."""

import sys
from pathlib import Path

from benchmarks.on_slice import run

PROGRAMS = Path(__file__).parents[3] / "benchmarks" / "clients" / "programs"


def test_pynvml_nvitop_and_gpustat_pass_on_a_slice() -> None:
    pytest = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    printed = run([*pytest, "-c", PROGRAMS / "pytest.ini", PROGRAMS / "nvml"])
    assert "5 passed" in printed
