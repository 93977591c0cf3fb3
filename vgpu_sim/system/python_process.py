"""Starts a Tessera module as a process, with this interpreter and this import path.

A child must import the same files as its parent, wherever those are, and nothing from the
current directory. Variables of the user's program (LD_LIBRARY_PATH, LD_PRELOAD, PYTHON*) are not
passed on.
"""

import os
import sys


def interpreter() -> str:
    """Return the path of the interpreter that can import Tessera."""
    return sys.executable


def module_command(module: str, *arguments: str) -> list[str]:
    """Return the argument vector that runs a Tessera module as a process."""
    return [sys.executable, "-P", "-m", module, *arguments]


def module_environment() -> dict[str, str]:
    """Return the complete environment for the process that ``module_command`` runs."""
    paths = [os.path.abspath(entry) for entry in sys.path if entry]
    return {
        "PATH": os.defpath,
        "LANG": "C.UTF-8",
        "PYTHONPATH": os.pathsep.join(paths),
    }
