"""A Python that ignores PYTHONPATH is detected, in a command and in a script's first line."""

from pathlib import Path

import pytest

from vgpu_sim.cli.run.python_options import find_ignoring_option, warn_of_ignored_path


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("python -I train.py", "-I"),
        ("/usr/bin/python3.11 -uE -m train", "-E"),
        ("python3 -W ignore -X dev -I -c pass", "-I"),
        ("python -Wignore -Xdev train.py -I", ""),
        ("python train.py -E", ""),
        ("python -m train -E", ""),
        ("python -mE", ""),
        ("python --version -I", ""),
        ("python", ""),
        ("pythonic -I", ""),
        ("sh -c exit", ""),
        ("no-such-file", ""),
    ],
)
def test_the_option_of_a_command(command: str, expected: str) -> None:
    assert find_ignoring_option(command.split()) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("#!/usr/bin/python3 -sE\n", "-E"),
        ("#!/usr/bin/env -S python3 -I\n", "-I"),
        ("#!/usr/bin/env python3\n", ""),
        ("#!/bin/sh -E\n", ""),
        ("#!'\n", ""),
        ("\x7fELF", ""),
    ],
)
def test_the_option_of_a_script(tmp_path: Path, line: str, expected: str) -> None:
    script = tmp_path / "train"
    script.write_text(line + "pass\n")
    assert find_ignoring_option([str(script), "-I"]) == expected


def test_the_line_names_the_option(capsys: pytest.CaptureFixture[str]) -> None:
    warn_of_ignored_path(["python", "train.py"])
    assert capsys.readouterr().err == ""
    warn_of_ignored_path(["python", "-I", "train.py"])
    assert capsys.readouterr().err.endswith("may compute on the CPU: remove -I\n")
