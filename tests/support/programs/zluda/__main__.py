"""Runs ZLUDA's cases on the available device:
``python -m support.programs.zluda CHECKOUT [CASE...]``.
"""

import json
import sys
from pathlib import Path

import numpy as np
from cuda.bindings import driver

from support.programs.client_kernels.gpu import DriverError, Gpu, Program, call
from support.programs.zluda.table import Case, Values, cases

_SHARED_BYTES = 1024  # as ZLUDA launches all of them


def outcome(gpu: Gpu, case: Case) -> str:
    """Return ``right``, or a description of the error."""
    try:
        program = gpu.load(case.path)
        if case.expected is None:
            return "right"
        found = _run(program, case, np.zeros_like(case.expected))
    except DriverError as error:
        return str(error)
    if np.array_equal(found, case.expected):
        return "right"
    return f"wrong: {found[:4].tolist()} for {case.expected[:4].tolist()}"


def _run(program: Program, case: Case, out: Values) -> Values:
    """Return the kernel's output. If the case has no input, the output buffer serves as input
    too.
    """
    pointer = call(driver.cuMemAlloc, out.nbytes)
    call(driver.cuMemsetD8, pointer, 0, out.nbytes)
    own = np.uint64(int(pointer))
    first = own if case.given is None else case.given
    program.run(case.name, first, own, block=(case.threads,), shared=_SHARED_BYTES)
    call(driver.cuMemcpyDtoH, out.ctypes.data, pointer, out.nbytes)
    call(driver.cuMemFree, pointer)
    return out


def main(checkout: Path, wanted: list[str]) -> None:
    gpu = Gpu()
    for case in cases(checkout):
        if not wanted or case.name in wanted:
            print(json.dumps([case.name, outcome(gpu, case)]), flush=True)


main(Path(sys.argv[1]), sys.argv[2:])
