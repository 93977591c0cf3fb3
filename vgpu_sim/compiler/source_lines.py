"""Lines of a text by number, for messages, without splitting the text into lines."""

from array import array
from bisect import bisect_left

_PIECE_CHARACTERS = 1024


class SourceLines:
    """Finds lines of a text by their numbers.

    The first request divides the text into pieces. For each piece, only the number of newlines
    before it is stored.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._before = array("I")  # newlines before each piece

    def text(self, number: int, max_characters: int) -> str:
        """Return up to ``max_characters`` of a line; "" for a line that does not exist."""
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
        end = self._source.find("\n", start, start + max_characters)
        return self._source[start : end if end >= 0 else start + max_characters]

    def _count(self) -> None:
        total = 0
        self._before.append(0)
        for start in range(0, len(self._source), _PIECE_CHARACTERS):
            total += self._source.count("\n", start, start + _PIECE_CHARACTERS)
            self._before.append(total)
