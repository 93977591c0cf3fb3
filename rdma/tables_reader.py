"""Read parsed JSON strictly; errors name the position of an unexpected value."""

from collections.abc import Iterator
from typing import Any, Final

from rdma.errors import TablesError

MAX_TEXT: Final = 1024


class Reader:
    """A value of a JSON document and its position. Every method raises TablesError for an invalid
    value.
    """

    __slots__ = ("_key", "_parent", "_value")

    def __init__(self, value: Any, key: str = "tables", parent: "Reader | None" = None) -> None:
        self._value, self._key, self._parent = value, key, parent

    def fail(self, problem: str) -> TablesError:
        """Return the TablesError that reports a problem with this value."""
        keys: list[str] = []
        at: Reader | None = self
        while at is not None:
            keys.append(at._key)
            at = at._parent
        return TablesError(f"{''.join(reversed(keys))}: {problem}")

    def fields(self, *names: str) -> "list[Reader]":
        """Return readers of an object's values, in the order of ``names``.

        The object must have exactly these fields.
        """
        value = self._value
        if type(value) is not dict:
            raise self.fail("is not an object")
        missing = [name for name in names if name not in value]
        if missing or len(value) != len(names):
            unknown = [name[:60] for name in value if name not in names]
            raise self.fail(f"fields missing: {missing}, unknown: {unknown[:8]}")
        return [Reader(value[name], f".{name}", self) for name in names]

    def tuple(self, size: int) -> "list[Reader]":
        """Return readers of the items of a list that has exactly ``size`` items."""
        if type(self._value) is not list or len(self._value) != size:
            raise self.fail(f"is not a list of {size} items")
        return list(self.items(size))

    def items(self, max_items: int) -> "Iterator[Reader]":
        """Yield a reader for each item of a list.

        Raises:
            TablesError: the value is not a list, or has more than ``max_items`` items.
        """
        if type(self._value) is not list or len(self._value) > max_items:
            raise self.fail(f"is not a list of at most {max_items} items")
        for index, value in enumerate(self._value):
            yield Reader(value, f"[{index}]", self)

    def unless_null(self) -> "Reader | None":
        """Decode a nullable value: return this reader, or None if the value is null."""
        return None if self._value is None else self

    def integer(self, low: int, high: int) -> int:
        """Decode an integer from ``low`` to ``high``."""
        value = self._value
        if type(value) is not int or not low <= value <= high:
            raise self.fail(f"is not an integer of {low} to {high}")
        return value

    def flag(self) -> bool:
        """Decode a boolean."""
        if type(self._value) is not bool:
            raise self.fail("is neither true nor false")
        return self._value

    def text(self, max_characters: int = MAX_TEXT) -> str:
        """Decode a string of at most ``max_characters`` characters. All must be printable and
        encodable as UTF-8.
        """
        value = self._value
        if type(value) is not str or len(value) > max_characters or not value.isprintable():
            raise self.fail(f"is not printable text of at most {max_characters} characters")
        return value

    def choice(self, *choices: str) -> str:
        """Decode a string that must be one of the words ``choices``."""
        if type(self._value) is not str or self._value not in choices:
            raise self.fail(f"is not one of {', '.join(choices)}")
        return self._value
