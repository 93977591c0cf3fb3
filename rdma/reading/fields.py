"""Read an object's dict field by field; errors name the field.

Objects may be hostile, so these readers bound every string, list and number. A field that no
reader requests is an error, so that a misspelled field never allows anything.
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
    """Reads the fields of a dict. The dict is part of a Kubernetes object, at the position
    ``path``.

    Each ``PolicyError`` names the position of the invalid value.
    """

    def __init__(self, value: object, path: str) -> None:
        self.path = path
        if not isinstance(value, Mapping):
            raise PolicyError(
                path, f"{_abbreviate(value)} is not an object", "write fields and values"
            )
        self._rest = dict(value)

    def fail(self, name: str, problem: str, remedy: str) -> NoReturn:
        """Raise PolicyError for the field ``name``, with the problem and its remedy."""
        raise PolicyError(self.at(name), problem, remedy)

    def at(self, name: str) -> str:
        """Return the path of the field ``name`` in the whole object."""
        return f"{self.path}.{name}" if self.path else name

    def has(self, name: str) -> bool:
        """Return whether a field is present and not null. In Kubernetes, null means absent."""
        return self._rest.get(name) is not None

    def take(self, name: str) -> Any:
        """Return a field's value, or None if the field is absent, and mark the field as read."""
        return self._rest.pop(name, None)

    def check_all_read(self) -> None:
        """Raise PolicyError if the dict has a field that has not been read."""
        for name in self._rest:
            field_name = name[:60] if isinstance(name, str) else _abbreviate(name)
            self.fail(field_name, "unknown field", "remove it, or correct its name")

    def inner(self, name: str) -> "Fields | None":
        """Return the reader of a field that is an object, or None if the field is absent."""
        value = self.take(name)
        return None if value is None else Fields(value, self.at(name))

    def items(self, name: str) -> "Iterator[Fields]":
        """Yield a reader for each object in the list ``name``; an absent list is empty."""
        for index, value in enumerate(self.sequence(name)):
            yield Fields(value, f"{self.at(name)}[{index}]")

    def sequence(self, name: str) -> list[Any]:
        """Return the value of a field that is a list, or an empty list if the field is absent."""
        value = self.take(name)
        if value is None:
            return []
        if not isinstance(value, list):
            self.fail(name, f"{_abbreviate(value)} is not a list", "write a list")
        if len(value) > MAX_ITEMS:
            self.fail(name, f"{len(value)} items", f"{MAX_ITEMS} at most")
        return value

    def text(self, name: str, form: re.Pattern[str] | None = None) -> str | None:
        """Return the value of a field that is a string, or None if the field is absent.

        The string must match ``form``, if one is given.
        """
        value = self.take(name)
        return None if value is None else self.checked_text(name, value, form)

    def checked_text(self, name: str, value: object, form: re.Pattern[str] | None = None) -> str:
        """Return ``value`` if it is a string that matches ``form``; otherwise raise PolicyError."""
        if not isinstance(value, str) or len(value) > MAX_TEXT:
            self.fail(
                name, f"{_abbreviate(value)} is not text", "write a string, in quotes if need be"
            )
        if form is not None and not form.fullmatch(value):
            self.fail(
                name, f"{_abbreviate(value)} is not valid here", "use a Kubernetes name or label"
            )
        return value

    def required_text(self, name: str, form: re.Pattern[str] | None = None) -> str:
        """Return the value of a field that is a string and must be present.

        The string must match ``form``, if one is given.
        """
        if not self.has(name):
            self.fail(name, "missing", "give it")
        return self.checked_text(name, self.take(name), form)

    def choice(self, name: str, choices: tuple[str, ...], default: str | None) -> str:
        """Return the value of a field that must be one of the words ``choices``.

        An absent field has the value ``default``; if that is None, the field must be present.
        """
        value = self.take(name)
        if value is None:
            if default is None:
                self.fail(name, "missing", f"use one of {', '.join(choices)}")
            return default
        return self.checked_choice(name, value, choices)

    def checked_choice(self, name: str, value: object, choices: tuple[str, ...]) -> str:
        """Return ``value`` if it is one of the words ``choices``; otherwise raise PolicyError."""
        if not isinstance(value, str) or value not in choices:
            self.fail(name, f"{_abbreviate(value)} is unknown", f"use one of {', '.join(choices)}")
        return value

    def number(self, name: str, low: int, high: int) -> int | None:
        """Return the value of a field that is an integer between two limits, or None if it is
        absent.

        The field may also contain the integer as hexadecimal text.
        """
        value = self.take(name)
        if value is None:
            return None
        if isinstance(value, str) and re.fullmatch("0x[0-9A-Fa-f]{1,8}", value):
            value = int(value, 16)
        if type(value) is not int or not low <= value <= high:
            self.fail(name, f"{_abbreviate(value)} is out of range", f"use {low} to {high}")
        return value

    def quantity(self, name: str) -> int | None:
        """Return the number that a quantity such as 5Gi stands for, or None if the field is
        absent.
        """
        return self._convert(name, quantity.parse, "write a quantity such as 5Gi or 200k")

    def _convert(self, name: str, convert: Callable[[object], int], remedy: str) -> int | None:
        value = self.take(name)
        if value is None:
            return None
        try:
            return convert(value)
        except ValueError as error:
            raise PolicyError(self.at(name), str(error), remedy) from error

    def labels(self, name: str) -> dict[str, str]:
        """Return the value of a field that is a map of labels."""
        label_fields = self.inner(name)
        if label_fields is None:
            return {}
        labels = {}
        for key in list(label_fields.names()):
            label_fields.checked_text("key", key, LABEL_KEY)
            labels[key] = label_fields.checked_text(key, label_fields.take(key), LABEL_VALUE)
        return labels

    def names(self) -> tuple[Any, ...]:
        """Return the names of the unread fields.

        Raises PolicyError if there are more than MAX_ITEMS of them.
        """
        if len(self._rest) > MAX_ITEMS:
            raise PolicyError(self.path, f"{len(self._rest)} fields", f"{MAX_ITEMS} at most")
        return tuple(self._rest)


def _abbreviate(value: object) -> str:
    """Return a short text for any value, to be used in an error message."""
    if isinstance(value, str):
        return repr(value[:60])
    if value is None or isinstance(value, (bool, float)):
        return repr(value)
    if isinstance(value, int):
        return str(value) if value.bit_length() < 128 else "a huge number"
    return f"a {type(value).__name__}"
