"""Golden output of ``tessera mig``: each ``*.txt`` contains a command, its output and its exit
status.

After an intended change run ``rewrite`` from the repository root and review the difference:

    python -c "import runpy; runpy.run_path('tests/golden/mig/test_mig_golden.py')['rewrite']()"
"""

import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from vgpu_sim.cli.main import main

CASES = sorted(Path(__file__).parent.glob("*.txt"))


def transcript(line):
    """Run one command line; return the command, its output and its exit status as text."""
    result = CliRunner().invoke(main, shlex.split(line)[1:], prog_name="tessera")
    assert result.exception is None or isinstance(result.exception, SystemExit)
    parts = [f"$ {line}\n", result.stdout]
    if result.stderr:
        parts += ["--- stderr\n", result.stderr]
    return "".join([*parts, f"--- exit {result.exit_code}\n"])


def command_of(path):
    return path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("$ ")


def rewrite():
    for path in CASES:
        path.write_text(transcript(command_of(path)), encoding="utf-8")


def test_there_are_cases():
    assert CASES


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_output(path):
    assert transcript(command_of(path)) == path.read_text(encoding="utf-8")
