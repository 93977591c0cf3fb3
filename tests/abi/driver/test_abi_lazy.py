"""Large modules, whose kernels are compiled when a program looks them up."""

import json
import os
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[1] / "programs" / "driver" / "lazy.py"
LAZY, EAGER = 2, 1
OK, INVALID_PTX, INVALID_HANDLE, NOT_FOUND, NOT_SUPPORTED = 0, 218, 400, 500, 801


def run(environment: dict[str, str], **more: str) -> tuple[dict[str, object], str]:
    done = subprocess.run(
        [sys.executable, str(PROGRAM)],
        env={**environment, **more, "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def test_kernels_are_loaded_when_they_are_looked_up(environment):
    found, log = run(environment)
    threads = found.pop("threads")
    free, limited = found.pop("registers")
    assert free > 60
    assert limited == 38
    assert found == {
        "mode": LAZY,
        "broken": OK,
        "small": [64, 48],
        "parameters": 2,
        "same": True,
        "statuses": [NOT_SUPPORTED, NOT_SUPPORTED, INVALID_PTX, NOT_FOUND],
        "global": OK,
        "count_of_broken": INVALID_PTX,
        "count": 3,
        "names": ["small", "other"],
        "kernels": 3,
        "kernel": "other",
        "launched": OK,
    }
    assert set(threads) <= {OK, INVALID_HANDLE, NOT_SUPPORTED}
    assert log.count("kernel refused cannot be used yet (CUDA error 801)") >= 1
    assert "instruction 'pmevent' is not supported yet" in log
    assert "kernel broken() not loaded (CUDA error 218)" in log
    assert "undeclared" in log


def test_a_program_can_have_all_kernels_compiled_at_once(environment):
    found, log = run(environment, CUDA_MODULE_LOADING="EAGER")
    assert found == {"mode": EAGER, "broken": INVALID_PTX}
    assert "module not loaded (CUDA error 218)" in log
