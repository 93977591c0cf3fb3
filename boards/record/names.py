"""Names of boards and of other things that users type: which one is meant, or what to type."""

import difflib
from collections.abc import Collection, Iterable, Sequence
from typing import Final

_MOST_SUGGESTED: Final = 4
_SIMILAR: Final = 0.5


class UnknownNameError(LookupError):
    """No name, or more than one, is meant; the message suggests names."""


def resolve(kind: str, name: str, known_names: Collection[str]) -> str:
    """Return the known name that ``name`` means: itself in any case, or the only one that begins
    with it and a hyphen.

    A shorter beginning would be a guess: an H20 is a product of its own, and not an ``h200``.

    Raises:
        UnknownNameError: there is none, or more than one.
    """
    lower_name = name.lower()
    if lower_name in known_names:
        return lower_name
    begun = (
        [known_name for known_name in known_names if known_name.startswith(f"{lower_name}-")]
        if lower_name
        else []
    )
    if len(begun) == 1:
        return begun[0]
    raise UnknownNameError(describe_unknown(kind, name, known_names))


def describe_unknown(kind: str, name: str, known_names: Collection[str]) -> str:
    """Return the message for an unknown name: with similar names, or else with all names."""
    near = suggest(name, known_names)
    if near:
        return f"no {kind} {name!r}{did_you_mean(near)}"
    return f"no {kind} {name!r} (known: {', '.join(known_names)})"


def suggest(name: str, known_names: Iterable[str]) -> Sequence[str]:
    """Return the known names that begin with ``name``, or else the most similar one."""
    names, lower_name = list(known_names), name.lower()
    begun = [known_name for known_name in names if lower_name and known_name.startswith(lower_name)]
    return begun[:_MOST_SUGGESTED] or difflib.get_close_matches(lower_name, names, 1, _SIMILAR)


def did_you_mean(names: Sequence[str]) -> str:
    """Return the end of a message that suggests names, such as "; did you mean a, b or c?"."""
    if not names:
        return ""
    *earlier_names, last = names
    listed = f"{', '.join(earlier_names)} or {last}" if earlier_names else last
    return f"; did you mean {listed}?"
