"""Kernels from other compilers run correctly through libcuda, on both backends.

The corpus is not part of the repository; TESSERA_PTX_CORPUS names its folder. Unsupported
kernels are listed here, with the reason; a supported one is compared with its oracle
(``client_kernels``).
"""

import json
import os
import re
import sys
from pathlib import Path

import pytest

from support.processes.tessera_run import run

CORPUS = os.environ.get("TESSERA_PTX_CORPUS", "")
CANNOT_YET: set[tuple[str, str]] = set()

pytestmark = pytest.mark.skipif(
    not CORPUS, reason="NOT RUN: TESSERA_PTX_CORPUS does not name a folder with .ptx files"
)


@pytest.mark.parametrize("backend", ["jit", "interp"])
def test_kernels_of_other_compilers_run_right(tmp_path: Path, backend: str) -> None:
    command = sys.executable, "-m", "support.programs.client_kernels", CORPUS
    done = run(tmp_path, *command, timeout_s=250, kept=True, backend=backend)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    reports = [json.loads(line) for line in lines if line.startswith("[")]
    outcomes = {(f, k): said for f, k, said in reports}
    printed = sorted(line for line in lines if not line.startswith("["))
    numbers = [line for line in printed if re.fullmatch(r"\d+ \d+ \d+ \d+", line)]
    assert (len(printed), len(numbers)) == (4, 2)
    assert printed[-2:] == [f"t {block}.0 n=3 f=2.500000 text" for block in range(2)]
    refused = {key for key, said in outcomes.items() if "CUDA_ERROR_NOT_SUPPORTED" in said}
    assert refused == CANNOT_YET
    wrong = {key: said for key, said in outcomes.items() if said != "right"}
    assert wrong.keys() == CANNOT_YET, done.stderr
    assert len(outcomes) >= 35
