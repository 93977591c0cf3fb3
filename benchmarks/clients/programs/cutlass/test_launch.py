"""CUTLASS's unit tests of launches of clusters."""

import pytest
from running import cases, run_unit


@pytest.mark.parametrize(("program", "test"), cases("launch"))
def test_unit(program, test):
    run_unit(program, test)
