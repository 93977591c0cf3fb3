"""The table of frameworks: which CUDA a package is built for, and which variables it needs.

``frameworks.json`` is the table. ``tessera run`` and the node agent read the same file.
"""

from __future__ import annotations

import glob
import json
import os
import re
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

TABLE = os.path.join(os.path.dirname(__file__), "frameworks.json")
MAJORS = ("12", "13")


class Framework(NamedTuple):
    """A framework. ``file`` of its package is matched against ``cuda`` together with its path."""

    module: str
    name: str
    file: str
    cuda: str


class Variable(NamedTuple):
    """A variable that is set if it is unset, or to which a flag is appended if that is absent."""

    name: str
    value: str
    append: bool
    frameworks: tuple[str, ...]


def read() -> tuple[dict[str, Framework], tuple[Variable, ...]]:
    """Return the frameworks by their modules, and the variables. Raises OSError, ValueError."""
    with open(TABLE, encoding="utf-8") as file:
        document: dict[str, Any] = json.load(file)
    frameworks = {
        module: Framework(module, row["name"], row["file"], row["cuda"])
        for module, row in document["frameworks"].items()
    }
    variables = tuple(
        Variable(row["name"], row["value"], row["append"], tuple(row["frameworks"]))
        for row in document["variables"]
    )
    return frameworks, variables


def new_value(variable: Variable, current: str | None) -> str:
    """Return the value of a variable whose value is ``current`` now (None if it is unset)."""
    if not variable.append:
        return variable.value if current is None else current
    flag = variable.value.partition("=")[0]
    flags = (current or "").split()
    if any(option.partition("=")[0] == flag for option in flags):
        return current or ""
    return " ".join(filter(None, (current, variable.value)))


def settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with the values that programs in an environment need."""
    _, variables = read()
    return {
        variable.name: new_value(variable, environment.get(variable.name)) for variable in variables
    }


def defaults() -> dict[str, str]:
    """Return the variables that need no other value, to be replaced by those of a container."""
    _, variables = read()
    return {variable.name: variable.value for variable in variables if not variable.append}


def describe() -> str:
    """Return the variables and their values for a list in a help text."""
    _, variables = read()
    return ", ".join(f"{variable.name}={variable.value}" for variable in variables)


def find_cuda(framework: Framework, path: list[str] | None = None) -> tuple[bool, str]:
    """Return whether the framework is installed, and the major version of CUDA that the installed
    package is built for ("" without CUDA).
    """
    for entry in sys.path if path is None else path:
        if not os.path.isdir(os.path.join(entry, framework.module)):
            continue
        for file in sorted(glob.glob(os.path.join(glob.escape(entry), framework.file))):
            with open(file, encoding="utf-8", errors="replace") as content:
                text = file + "\n" + content.read(1 << 16)
            match = re.search(framework.cuda, text, re.MULTILINE)
            if match:
                return True, match[1]
        return True, ""
    return False, ""
