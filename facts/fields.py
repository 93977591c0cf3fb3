"""Fields of a document of facts: their bounds, and the validation of untrusted values.

A field is declared by ``text``, ``number`` or ``flag``, which set its bounds. The bounds are the
same in the schema of GPU objects and in gpud's checks.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_KEY: Final = "facts"


class FactsError(ValueError):
    """An invalid document of facts; names the field and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of a number, or of a text's length in characters."""

    kind: type
    least: int
    most: int
    description: str

    def problem(self, value: object) -> str:
        """Return what is wrong with a value; empty if it is valid."""
        if type(value) is not self.kind:
            return f"is not {self.kind.__name__}"
        if isinstance(value, str):
            if not self.least <= len(value) <= self.most:
                return f"has not {self.least} to {self.most} characters"
            return "" if value.isprintable() else "has a character that cannot be printed"
        if isinstance(value, int) and not self.least <= value <= self.most:
            return f"is not from {self.least} to {self.most}"
        return ""


def text(default: str, longest: int, description: str) -> Any:
    """Declare a dataclass field for a text of printable characters.

    The text has at most ``longest`` characters. It may be empty only if ``default`` is empty.
    """
    return _declare(default, Bounds(str, min(1, len(default)), longest, description))


def number(default: int, minimum: int, maximum: int, description: str) -> Any:
    """Declare a dataclass field for an integer from ``minimum`` to ``maximum``."""
    return _declare(default, Bounds(int, minimum, maximum, description))


def flag(description: str) -> Any:
    """Declare a dataclass field for a Boolean, which is false unless a pool sets it."""
    return _declare(False, Bounds(bool, 0, 1, description))


def bounds_of(field: "dataclasses.Field[Any]") -> Bounds:
    """Return the bounds of a declared field."""
    bounds: Bounds = field.metadata[_KEY]
    return bounds


def check(fields: Mapping[str, "dataclasses.Field[Any]"], document: Mapping[str, object]) -> None:
    """Check an untrusted document against the declared fields.

    Raises:
        FactsError: a field is unknown, of another type or beyond its bounds.
    """
    for name, value in document.items():
        if name not in fields:
            raise FactsError(f"unknown fact {name[:64]!r}: known are {', '.join(sorted(fields))}")
        if problem := bounds_of(fields[name]).problem(value):
            raise FactsError(f"{name} {problem}")


def _declare(default: object, bounds: Bounds) -> Any:
    assert not bounds.problem(default)
    return dataclasses.field(default=default, metadata={_KEY: bounds})
