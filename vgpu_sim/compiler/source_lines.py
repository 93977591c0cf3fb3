"""Lines of a text by their numbers, for messages: a text of many short lines is never split."""

from array import array
from bisect import bisect_left

_PIECE_CHARACTERS = 1024


class SourceLines:
    """Counts newlines once, when the first line is wanted, and keeps a number for each piece."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._before = array("I")  # newlines before each piece

    def text(self, number: int, most: int) -> str:
        """Return the beginning of a line, of up to ``most`` characters; "" for one that is not."""
        if not self._before:
            self._count()
        if number < 1 or (number > 1 and number - 1 > self._before[-1]):
            return ""
        start = 0
        if number > 1:
            piece = bisect_left(self._before, number - 1) - 1
            start = piece * _PIECE_CHARACTERS
            for _ in range(number - 1 - self._before[piece]):
                start = self._source.index("\n", start) + 1
        end = self._source.find("\n", start, start + most)
        return self._source[start : end if end >= 0 else start + most]

    def _count(self) -> None:
        total = 0
        self._before.append(0)
        for start in range(0, len(self._source), _PIECE_CHARACTERS):
            total += self._source.count("\n", start, start + _PIECE_CHARACTERS)
            self._before.append(total)
