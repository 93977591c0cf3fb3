"""ZLUDA's PTX test cases run correctly through libcuda, on both backends.

They are read from a checkout, which is not part of the repository; TESSERA_ZLUDA names it. Cases
that fail are listed here, with the reason.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.processes.tessera_run import run
from support.programs.zluda.table import COMMIT, INSTALL

CHECKOUT = os.environ.get("TESSERA_ZLUDA", "")
OTHER_BOARD = ("vector8", "vector8_extract")  # .target sm_120
NOT_RIGHT = {
    **dict.fromkeys(OTHER_BOARD, "cuModuleLoadData: CUDA_ERROR_NO_BINARY_FOR_GPU"),
    # vote without .sync for sm_70 in PTX 6.5, which NVIDIA's own assembler refuses
    "vote_ballot_nosync": "cuModuleLoadData: CUDA_ERROR_INVALID_PTX",
}
CASES = 189

pytestmark = pytest.mark.skipif(not CHECKOUT, reason=f"NOT RUN: {INSTALL}")


def test_the_checkout_is_the_one_that_the_list_is_of() -> None:
    if not Path(CHECKOUT, ".git").exists():
        pytest.skip("NOT RUN: no git checkout, whose commit could be compared")
    head = ["git", "-C", CHECKOUT, "rev-parse", "HEAD"]
    assert subprocess.run(head, capture_output=True, text=True, check=True).stdout.strip() == COMMIT


@pytest.mark.parametrize("backend", ["jit", "interp"])
def test_cases_of_zluda_run_right(tmp_path: Path, backend: str) -> None:
    command = sys.executable, "-m", "support.programs.zluda", CHECKOUT
    done = run(tmp_path, *command, timeout_s=250, kept=True, backend=backend)
    assert done.returncode == 0, done.stderr
    outcomes = dict(map(json.loads, done.stdout.splitlines()))
    assert {name: said for name, said in outcomes.items() if said != "right"} == NOT_RIGHT
    assert len(outcomes) == CASES


@pytest.mark.parametrize("backend", ["jit", "interp"])
def test_cases_of_a_younger_board_run_right(tmp_path: Path, backend: str) -> None:
    command = sys.executable, "-m", "support.programs.zluda", CHECKOUT, *OTHER_BOARD
    board = {"board": "rtx-pro-6000", "profile": "1g.24gb"}
    done = run(tmp_path, *command, timeout_s=60, backend=backend, **board)
    assert done.returncode == 0, done.stderr
    assert dict(map(json.loads, done.stdout.splitlines())) == dict.fromkeys(OTHER_BOARD, "right")
