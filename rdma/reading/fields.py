"""Reads an object's dict field by field, and names the field of whatever is wrong with it.

Objects are hostile: every string, list and number is bounded here, and a field that nobody asks for
is an error, so that a word with a typing mistake never allows anything.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NoReturn

from rdma.errors import PolicyError
from rdma.reading import quantity

MAX_ITEMS: Final = 1024
MAX_TEXT: Final = 1024
_LABEL_NAME: Final = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_SUBDOMAIN: Final = r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?"
LABEL_KEY: Final = re.compile(f"(?:{_SUBDOMAIN}/)?{_LABEL_NAME}", re.ASCII)
LABEL_VALUE: Final = re.compile(f"(?:{_LABEL_NAME})?", re.ASCII)
NAME: Final = re.compile(_SUBDOMAIN, re.ASCII)


class Fields:
    """A dict at a place of an object; what is wrong is a ``PolicyError`` that names the place."""

    def __init__(self, value: object, path: str) -> None:
        self.path = path
        if not isinstance(value, Mapping):
            raise PolicyError(path, f"{_shown(value)} is no object", "write fields and values")
        self._rest = dict(value)

    def fail(self, name: str, problem: str, remedy: str) -> NoReturn:
        """Refuse a field. Raises PolicyError."""
        raise PolicyError(self.at(name), problem, remedy)

    def at(self, name: str) -> str:
        """Return the path of a field."""
        return f"{self.path}.{name}" if self.path else name

    def has(self, name: str) -> bool:
        """Return whether a field is there and not null; as in Kubernetes null is absent."""
        return self._rest.get(name) is not None

    def take(self, name: str) -> Any:
        """Return a field as it is, None where it is absent, and count it as read."""
        return self._rest.pop(name, None)

    def done(self) -> None:
        """Refuse what nobody has asked for."""
        for name in self._rest:
            shown = name[:60] if isinstance(name, str) else _shown(name)
            self.fail(shown, "unknown field", "remove it, or mend its name")

    def inner(self, name: str) -> "Fields | None":
        """Return an object, None where it is absent."""
        value = self.take(name)
        return None if value is None else Fields(value, self.at(name))

    def items(self, name: str) -> "Iterator[Fields]":
        """Return the objects of a list, none where it is absent."""
        for index, value in enumerate(self.sequence(name)):
            yield Fields(value, f"{self.at(name)}[{index}]")

    def sequence(self, name: str) -> list[Any]:
        """Return a list, empty where it is absent."""
        value = self.take(name)
        if value is None:
            return []
        if not isinstance(value, list):
            self.fail(name, f"{_shown(value)} is no list", "write a list")
        if len(value) > MAX_ITEMS:
            self.fail(name, f"{len(value)} items", f"{MAX_ITEMS} at most")
        return value

    def text(self, name: str, form: re.Pattern[str] | None = None) -> str | None:
        """Return a string, None where it is absent."""
        value = self.take(name)
        return None if value is None else self.checked_text(name, value, form)

    def checked_text(self, name: str, value: object, form: re.Pattern[str] | None = None) -> str:
        """Return a value that must be a string of that form."""
        if not isinstance(value, str) or len(value) > MAX_TEXT:
            self.fail(name, f"{_shown(value)} is no text", "write a string, in quotes if need be")
        if form is not None and not form.fullmatch(value):
            self.fail(name, f"{_shown(value)} is not valid here", "use a Kubernetes name or label")
        return value

    def required(self, name: str, form: re.Pattern[str] | None = None) -> str:
        """Return a string that must be there."""
        if not self.has(name):
            self.fail(name, "missing", "give it")
        return self.checked_text(name, self.take(name), form)

    def choice(self, name: str, choices: tuple[str, ...], default: str | None) -> str:
        """Return one of some words; ``default`` None: it must be there."""
        value = self.take(name)
        if value is None:
            if default is None:
                self.fail(name, "missing", f"use one of {', '.join(choices)}")
            return default
        return self.checked_choice(name, value, choices)

    def checked_choice(self, name: str, value: object, choices: tuple[str, ...]) -> str:
        """Return a value that must be one of some words."""
        if not isinstance(value, str) or value not in choices:
            self.fail(name, f"{_shown(value)} is unknown", f"use one of {', '.join(choices)}")
        return value

    def number(self, name: str, low: int, high: int) -> int | None:
        """Return an integer of a range (or hexadecimal text of it), None where it is absent."""
        value = self.take(name)
        if value is None:
            return None
        if isinstance(value, str) and re.fullmatch("0x[0-9A-Fa-f]{1,8}", value):
            value = int(value, 16)
        if type(value) is not int or not low <= value <= high:
            self.fail(name, f"{_shown(value)} is out of range", f"use {low} to {high}")
        return value

    def quantity(self, name: str) -> int | None:
        """Return a quantity such as 5Gi, None where it is absent."""
        return self._converted(name, quantity.parse, "write a quantity such as 5Gi or 200k")

    def _converted(self, name: str, convert: Callable[[object], int], remedy: str) -> int | None:
        value = self.take(name)
        if value is None:
            return None
        try:
            return convert(value)
        except ValueError as error:
            raise PolicyError(self.at(name), str(error), remedy) from error

    def labels(self, name: str) -> dict[str, str]:
        """Return labels."""
        held = self.inner(name)
        if held is None:
            return {}
        labels = {}
        for key in list(held.names()):
            held.checked_text("key", key, LABEL_KEY)
            labels[key] = held.checked_text(key, held.take(key), LABEL_VALUE)
        return labels

    def names(self) -> tuple[Any, ...]:
        """Return the names of what has not been read; a thousand at most."""
        if len(self._rest) > MAX_ITEMS:
            raise PolicyError(self.path, f"{len(self._rest)} fields", f"{MAX_ITEMS} at most")
        return tuple(self._rest)


def _shown(value: object) -> str:
    """Return a value for a message, short whatever it is."""
    if isinstance(value, str):
        return repr(value[:60])
    if value is None or isinstance(value, (bool, float)):
        return repr(value)
    if isinstance(value, int):
        return str(value) if value.bit_length() < 128 else "a huge number"
    return f"a {type(value).__name__}"
