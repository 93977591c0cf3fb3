"""Walks parsed JSON and takes only what is expected, naming the place of anything else."""

from collections.abc import Iterator
from typing import Any, Final

from rdma.errors import TablesError

MAX_TEXT: Final = 1024


class Reader:
    """A value of a document and where it is. Every method raises TablesError."""

    __slots__ = ("_key", "_parent", "_value")

    def __init__(self, value: Any, key: str = "tables", parent: "Reader | None" = None) -> None:
        self._value, self._key, self._parent = value, key, parent

    def fail(self, problem: str) -> TablesError:
        """Return the error that says what is wrong here."""
        keys: list[str] = []
        at: Reader | None = self
        while at is not None:
            keys.append(at._key)
            at = at._parent
        return TablesError(f"{''.join(reversed(keys))}: {problem}")

    def fields(self, *names: str) -> "list[Reader]":
        """Return the values of an object that has exactly these fields, in this order."""
        value = self._value
        if type(value) is not dict:
            raise self.fail("no object")
        missing = [name for name in names if name not in value]
        if missing or len(value) != len(names):
            unknown = [name[:60] for name in value if name not in names]
            raise self.fail(f"fields missing: {missing}, unknown: {unknown[:8]}")
        return [Reader(value[name], f".{name}", self) for name in names]

    def tuple(self, size: int) -> "list[Reader]":
        """Return the items of a list of exactly that length."""
        if type(self._value) is not list or len(self._value) != size:
            raise self.fail(f"no list of {size}")
        return list(self.items(size))

    def items(self, most: int) -> "Iterator[Reader]":
        """Yield the items of a list that is no longer than that."""
        if type(self._value) is not list or len(self._value) > most:
            raise self.fail(f"no list of at most {most}")
        for index, value in enumerate(self._value):
            yield Reader(value, f"[{index}]", self)

    def optional(self) -> "Reader | None":
        """Return this, None where it is null."""
        return None if self._value is None else self

    def integer(self, low: int, high: int) -> int:
        """Return an integer of a range."""
        value = self._value
        if type(value) is not int or not low <= value <= high:
            raise self.fail(f"no integer of {low} to {high}")
        return value

    def flag(self) -> bool:
        """Return a boolean."""
        if type(self._value) is not bool:
            raise self.fail("neither true nor false")
        return self._value

    def text(self, most: int = MAX_TEXT) -> str:
        """Return a string that is no longer than that, printable, and can be encoded."""
        value = self._value
        if type(value) is not str or len(value) > most or not value.isprintable():
            raise self.fail(f"no printable text of at most {most} characters")
        return value

    def choice(self, *choices: str) -> str:
        """Return one of some words."""
        if type(self._value) is not str or self._value not in choices:
            raise self.fail(f"none of {', '.join(choices)}")
        return self._value
