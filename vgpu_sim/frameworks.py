"""Variables that frameworks need on a simulated GPU, by the table of ``tessera_start`` (ADR 220).

The table is a module of the plug-in that users' Pythons load, so it is loaded from its file: a
wheel of Tessera does not have it on the import path.
"""

import functools
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

_PLUGIN = Path("plugins", "torch")  # in a wheel below this package, in a checkout beside it
_START = Path("plugins", "start")
_TABLE = Path("tessera_start", "table.py")


def torch_plugin() -> Path | None:
    """Return the folder with the packages that PyTorch and Python's start load, if it is installed
    (ADR 163).
    """
    return _find(_PLUGIN)


def start_plugin() -> Path | None:
    """Return the folder with the module that Python imports at its start, if it is installed."""
    return _find(_START)


def settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that programs need, with the values for an environment.

    A variable that is set stays; a flag is appended unless it is there.
    """
    table = _table()
    variables: dict[str, str] = table.settings(environment) if table is not None else {}
    return variables


def defaults() -> dict[str, str]:
    """Return the variables that containers get, unless they set them."""
    table = _table()
    variables: dict[str, str] = table.defaults() if table is not None else {}
    return variables


def describe() -> str:
    """Return the variables and their values for a help text."""
    table = _table()
    return str(table.describe()) if table is not None else "none"


@functools.cache
def _table() -> ModuleType | None:
    plugin = torch_plugin()
    if plugin is None:
        return None
    spec = importlib.util.spec_from_file_location("tessera_start_table", plugin / _TABLE)
    if spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _find(path: Path) -> Path | None:
    package = Path(__file__).parent
    folders = (package / path, package.parent / path)
    return next((folder for folder in folders if folder.is_dir()), None)
