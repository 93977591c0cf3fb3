"""Calls of verbs at their limits: what is taken, what is refused, and what a refusal leaves."""

import pytest
from verbs_tools import run_verbs_program


@pytest.mark.parametrize("program", ["hca_posting", "hca_creation", "hca_describe"])
def test_each_call_ends_as_it_must(tmp_path, program):
    done = run_verbs_program(tmp_path, program)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr[-2000:]
