"""Verbs calls at their limits: what is accepted and refused, and the state after a refusal."""

import pytest

from support.programs.verbs_tools import run_verbs_program


@pytest.mark.parametrize("program", ["hca_posting", "hca_creation", "hca_describe"])
def test_each_call_ends_as_it_must(tmp_path, program):
    done = run_verbs_program(tmp_path, program)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr[-2000:]


def test_each_field_of_a_flow_finds_its_frames(tmp_path):
    done = run_verbs_program(tmp_path, "hca_frames")
    if done.returncode == 77:
        pytest.skip("NOT RUN: raw packets need CAP_NET_RAW")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr[-2000:]
