"""A position in a mangled name, and the bounds of what reading the name may cost."""

import re
from collections.abc import Callable
from typing import Final, TypeVar

MAX_TEXT: Final = 4096  # characters of any part of the result
MAX_LIST: Final = 512  # parameters, template arguments
_MAX_STEPS: Final = 20_000
_MAX_DEPTH: Final = 64  # a part takes at most ten of the 1,000 frames that Python allows
_Result = TypeVar("_Result")


class UnsupportedName(ValueError):
    """The text is no mangled name, or one that this package does not support."""


class Cursor:
    """Reads characters of a name, beginning at ``at``."""

    def __init__(self, text: str, at: int) -> None:
        self._text = text
        self.at = at
        self._steps = 0
        self._depth = 0

    def error(self) -> UnsupportedName:
        """Return the error for the present position."""
        return UnsupportedName(f"unsupported or malformed at character {self.at}")

    def _peek(self, count: int = 1) -> str:
        return self._text[self.at : self.at + count]

    def _accept(self, text: str) -> bool:
        is_next = self._text.startswith(text, self.at)
        self.at += len(text) * is_next
        return is_next

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise self.error()

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self._text, self.at)
        self.at = match.end() if match else self.at
        return match

    def _within(self, read: Callable[[], _Result]) -> _Result:
        """Read a part of the present part, unless the name has too many parts."""
        self._steps += 1
        self._depth += 1
        if self._steps > _MAX_STEPS or self._depth > _MAX_DEPTH:
            raise UnsupportedName("a name with too many parts")
        result = read()
        self._depth -= 1
        return result

    def _bounded(self, text: str) -> str:
        if len(text) > MAX_TEXT:
            raise UnsupportedName("a name whose text is too long")
        return text
