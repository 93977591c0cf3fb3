"""Names of boards and of other things that users type: which one is meant, or what to type."""

import difflib
from collections.abc import Collection, Iterable, Sequence
from typing import Final

_MOST_SUGGESTED: Final = 4
_SIMILAR: Final = 0.5


class UnknownNameError(LookupError):
    """No name, or more than one, is meant; the message suggests names."""


def resolve(kind: str, name: str, known: Collection[str]) -> str:
    """Return the known name that ``name`` means: itself in any case, or the only one that begins
    with it and a hyphen.

    A shorter beginning would be a guess: an H20 is a product of its own, and not an ``h200``.

    Raises:
        UnknownNameError: there is none, or more than one.
    """
    wanted = name.lower()
    if wanted in known:
        return wanted
    begun = [one for one in known if one.startswith(f"{wanted}-")] if wanted else []
    if len(begun) == 1:
        return begun[0]
    raise UnknownNameError(describe_unknown(kind, name, known))


def describe_unknown(kind: str, name: str, known: Collection[str]) -> str:
    """Return the message for an unknown name: with similar names, or else with all names."""
    near = suggest(name, known)
    if near:
        return f"no {kind} {name!r}{did_you_mean(near)}"
    return f"no {kind} {name!r} (known: {', '.join(known)})"


def suggest(name: str, known: Iterable[str]) -> Sequence[str]:
    """Return the known names that begin with ``name``, or else the most similar one."""
    names, wanted = list(known), name.lower()
    begun = [one for one in names if wanted and one.startswith(wanted)]
    return begun[:_MOST_SUGGESTED] or difflib.get_close_matches(wanted, names, 1, _SIMILAR)


def did_you_mean(names: Sequence[str]) -> str:
    """Return the end of a message that suggests names, such as "; did you mean a, b or c?"."""
    if not names:
        return ""
    *others, last = names
    listed = f"{', '.join(others)} or {last}" if others else last
    return f"; did you mean {listed}?"
