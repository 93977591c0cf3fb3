"""A thread that polls an empty completion queue yields its CPU to hcad."""

from support.programs.verbs_tools import run_verbs_program


def test_who_polls_in_vain_for_long_sleeps_in_between(tmp_path):
    done = run_verbs_program(tmp_path, "hca_doze")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "first no later yes\n"
