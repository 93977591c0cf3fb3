"""Vectors of flags as LLVM text: those that are known now are folded while the text is written.

LLVM would fold them too, but not what has been written for lanes that are not there.
"""

from collections.abc import Sequence
from typing import Final

_SPLATS: Final = {"splat (i1 true)": True, "splat (i1 false)": False, "zeroinitializer": False}


def known(flags: str, lanes: int) -> tuple[bool, ...] | None:
    """Return a vector's flags if they are known now."""
    if flags in _SPLATS:
        return (_SPLATS[flags],) * lanes
    if not flags.startswith("<"):
        return None
    return tuple(flag == "i1 true" for flag in flags[1:-1].split(", "))


def written(flags: Sequence[bool]) -> str:
    """Return known flags as text: always the same for the same ones."""
    if all(flags):
        return "splat (i1 true)"
    if not any(flags):
        return "zeroinitializer"
    return "<" + ", ".join(f"i1 {'true' if flag else 'false'}" for flag in flags) + ">"


def leading(flags: str, lanes: int) -> int | None:
    """Return how many lanes are set, where those are the first ones, or none, and known now."""
    found = known(flags, lanes)
    if found is None:
        return None
    count = sum(found)
    return count if all(found[:count]) else None
