"""CUTLASS's unit tests of convolutions."""

import pytest
from running import cases, run_unit


@pytest.mark.parametrize(("program", "test"), cases("conv"))
def test_unit(program, test):
    run_unit(program, test)
