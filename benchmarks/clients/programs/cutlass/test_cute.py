"""CUTLASS's unit tests of CuTe."""

import pytest
from running import cases, run_unit


@pytest.mark.parametrize(("program", "test"), cases("cute"))
def test_unit(program, test):
    run_unit(program, test)
