"""CUTLASS's unit tests of matrix products."""

import pytest
from running import cases, run_unit


@pytest.mark.parametrize(("program", "test"), cases("gemm"))
def test_unit(program, test):
    run_unit(program, test)
