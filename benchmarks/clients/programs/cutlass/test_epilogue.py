"""CUTLASS's unit tests of what follows a product."""

import pytest
from running import cases, run_unit


@pytest.mark.parametrize(("program", "test"), cases("epilogue"))
def test_unit(program, test):
    run_unit(program, test)
