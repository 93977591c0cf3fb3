"""Runs unit tests of CUTLASS that nvcc compiled to PTX, each in a process of its own."""

import functools
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from units import PROGRAMS, NotCompiled, Toolkit, has_googletest

TARGET = os.environ["CUTLASS_TARGET"]
TESSERA = json.loads(os.environ["TESSERA_COMMAND"])
FOLDER = Path(os.environ["TESSERA_CLIENT_RESULTS"]).parent / "programs"
LIMIT_S = 900
RAN = re.compile(r"^\[==========\] [1-9]\d* tests? from .* ran\.", re.MULTILINE)
FAILURE = re.compile(r"^.*: Failure\n((?:.*\n){1,4})", re.MULTILINE)
ERROR = re.compile(
    r"^.*(?:CUDA error|cudaError|Error Internal|unsupported|tessera:).*$", re.MULTILINE
)


@functools.cache
def _toolkit():
    process = subprocess.run([*TESSERA, "libdir"], capture_output=True, text=True, check=True)
    return Toolkit(
        Path(os.environ["CUTLASS"]), Path(os.environ["CUTLASS_CUDA"]), Path(process.stdout.strip())
    )


@functools.cache
def _build(program):
    """Return a program, or why there is none."""
    if not has_googletest():
        return "googletest's headers are missing: install libgtest-dev"
    try:
        return _toolkit().build(TARGET, program, FOLDER)
    except NotCompiled as error:
        return "not compiled: " + str(error).replace("'", "`")


def cases(kind):
    """Return the tests of the programs whose names begin with ``kind``."""
    return [
        pytest.param(program, test, id=f"{file.removesuffix('.cu')}:{test}")
        for program, files in PROGRAMS[TARGET].items()
        if program.startswith(kind)
        for file in files
        for test in _toolkit().tests(file)
    ]


def run_unit(program, test):
    """Run one test of a program, which is compiled before its first test."""
    built = _build(program)
    if isinstance(built, str):
        pytest.fail(built, pytrace=False)
    command = [str(built), f"--gtest_filter={test}"]
    try:
        process = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=LIMIT_S
        )
    except subprocess.TimeoutExpired:
        pytest.fail(f"exceeds {LIMIT_S} s", pytrace=False)
    print(process.stdout[-3000:], process.stderr[-3000:])
    if "[  SKIPPED ]" in process.stdout:
        pytest.skip("the test skips itself")
    if not process.returncode and not RAN.search(process.stdout):
        pytest.skip("not compiled for this target")
    if process.returncode < 0:
        pytest.fail(f"ended by signal {-process.returncode}", pytrace=False)
    whole = process.stdout + process.stderr
    if process.returncode and (error := ERROR.search(whole)):
        pytest.fail(error[0].strip().replace("'", "`"), pytrace=False)
    failure = FAILURE.search(process.stdout)
    failure_text = " ".join(failure[1].split()) if failure else whole[-300:]
    assert not process.returncode, f"not equal: {failure_text}"
