"""Detects a Python that ignores PYTHONPATH, by which frameworks are prepared (ADR 220)."""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

_PYTHON: Final = re.compile(r"python(\d+(\.\d+)*)?")
_WITH_VALUE: Final = "WX"  # options of Python with a value; after -c, -m and a script come others
_MOST_BYTES: Final = 256


def warn_of_ignored_path(command_line: Sequence[str]) -> None:
    """Print a line if a command is a Python that does not prepare frameworks."""
    option = find_ignoring_option(command_line)
    if option:
        click.echo(
            f"tessera run: python {option} ignores PYTHONPATH, so frameworks are not prepared and"
            f" may compute on the CPU: remove {option}",
            err=True,
        )


def find_ignoring_option(command_line: Sequence[str]) -> str:
    """Return the option of a command by which Python ignores PYTHONPATH ("" if there is none).

    The command is a Python, or a script whose first line names one.
    """
    name, *arguments = command_line
    if _PYTHON.fullmatch(Path(name).name):
        return _find(arguments)
    try:
        with open(name, "rb") as script:
            line = script.readline(_MOST_BYTES).decode(errors="replace")
        words = shlex.split(line[2:]) if line.startswith("#!") else []
    except (OSError, ValueError):
        return ""
    positions = [at for at, word in enumerate(words) if _PYTHON.fullmatch(Path(word).name)]
    return _find(words[positions[0] + 1 :]) if positions else ""


def _find(arguments: Sequence[str]) -> str:
    words = iter(arguments)
    for word in words:
        if not word.startswith("-") or word.startswith("--") or word == "-":
            return ""
        for letter in word[1:]:
            if letter in "IE":
                return f"-{letter}"
            if letter in "cm":
                return ""
            if letter in _WITH_VALUE:
                if word.endswith(letter):
                    next(words, None)
                break
    return ""
