"""The groups of questions, and the modules that ask them."""

import importlib
from typing import Any, Final

GROUPS: Final = {
    "facts": "facts",
    "maps": "maps",
    "occupancy": "occupancy",
    "sequences": "sequences.catalogue",
    "management": "management",
    "commands": "commands",
}


def load(name: str) -> Any:
    """Return the module of a group, which has ``questions`` and ``ask``."""
    return importlib.import_module(f"benchmarks.silicon.driver.{GROUPS[name]}")
