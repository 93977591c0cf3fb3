"""Vectors of flags as LLVM text: constant ones are folded while the text is written.

LLVM would fold them too, but not the code that was already written for inactive lanes.
"""

from collections.abc import Sequence
from typing import Final

_SPLATS: Final = {"splat (i1 true)": True, "splat (i1 false)": False, "zeroinitializer": False}


def parse_constant(flags: str, lanes: int) -> tuple[bool, ...] | None:
    """Return the flags if the vector of flags is constant, else None."""
    if flags in _SPLATS:
        return (_SPLATS[flags],) * lanes
    if not flags.startswith("<"):
        return None
    return tuple(flag == "i1 true" for flag in flags[1:-1].split(", "))


def format_constant(flags: Sequence[bool]) -> str:
    """Return constant flags as text, in a canonical form."""
    if all(flags):
        return "splat (i1 true)"
    if not any(flags):
        return "zeroinitializer"
    return "<" + ", ".join(f"i1 {'true' if flag else 'false'}" for flag in flags) + ">"


def prefix_length(flags: str, lanes: int) -> int | None:
    """Return the number of set flags in a vector. Return None unless the vector is constant and the
    set flags are a prefix of it.
    """
    constant_flags = parse_constant(flags, lanes)
    if constant_flags is None:
        return None
    count = sum(constant_flags)
    return count if all(constant_flags[:count]) else None
