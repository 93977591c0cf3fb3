"""CUTLASS's unit tests of pipelines between specialized warps."""

import pytest
from running import cases, run_unit


@pytest.mark.parametrize(("program", "test"), cases("specialized"))
def test_unit(program, test):
    run_unit(program, test)
