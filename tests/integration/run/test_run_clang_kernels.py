"""Kernels that an open compiler generates from C++ run correctly, on both backends: structures by
value, jump tables, recursion, virtual functions, new and delete, atomics, halves, warps, inline
assembly.

The oracle is the same source, compiled for this machine (``clang_kernels``), or numpy.
"""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from support.processes.tessera_run import REPOSITORY, run
from support.programs.clang_kernels import host

SUPPORT = REPOSITORY / "tests" / "support"
COMPILER = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")

pytestmark = pytest.mark.skipif(
    COMPILER is None, reason="NOT RUN: no compiler of C++ (apt-get install g++)"
)


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("oracle") / "oracle.so"
    assert COMPILER is not None
    host.build(COMPILER, library)
    return library


@pytest.mark.parametrize(
    ("file", "backend"),
    [("O0", "jit"), ("O0", "interp"), ("O1g", "jit"), ("O3", "jit"), ("O3", "interp")],
)
def test_kernels_of_clang_run_right(tmp_path: Path, oracle: Path, file: str, backend: str) -> None:
    ptx = SUPPORT / "programs" / "clang_kernels" / f"{file}.ptx"
    command = sys.executable, "-m", "support.programs.clang_kernels", str(ptx), str(oracle)
    done = run(tmp_path, *command, timeout_s=250, kept=True, backend=backend)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    outcomes = dict(json.loads(line) for line in lines if line.startswith("["))
    wrong = {name: said for name, said in outcomes.items() if said != "right"}
    assert wrong == {}, done.stderr
    kernels = re.findall(r"\.entry (\w+)\(", ptx.read_text())
    assert sorted(outcomes) == sorted(kernels), done.stderr
    printed = [line for line in lines if not line.startswith("[")]
    assert printed == ["3 1.500000 text -3"], done.stderr
