"""How one of our modules is started as a process: this interpreter, this import path, no surprises.

A child must import what its parent imports, wherever that came from, and nothing from the current
directory. Variables of the user's program (LD_LIBRARY_PATH, LD_PRELOAD, PYTHON*) are not passed on.
"""

import os
import sys


def module_command(module: str, *arguments: str) -> list[str]:
    """Return the argument vector that runs a module."""
    return [sys.executable, "-P", "-m", module, *arguments]


def module_environment() -> dict[str, str]:
    """Return the whole environment for it."""
    paths = [os.path.abspath(entry) for entry in sys.path if entry]
    return {
        "PATH": os.defpath,
        "LANG": "C.UTF-8",
        "PYTHONPATH": os.pathsep.join(paths),
    }
