"""Accesses of 16 bytes that lanes make here and there: one for each lane, not one for each word.

Four gathers of words read every line of memory four times. Rows of four words are put together so
that the words of a place come next to each other by transposing squares of four by four.
"""

from collections.abc import Sequence

from vgpu_sim.exec.jit.text.writer import Text

ROW_WORDS = 4


def suits(text: Text, count: int, element_bytes: int) -> bool:
    """Return whether rows of so many elements are such rows, in a strip of whole squares."""
    return (count, element_bytes) == (ROW_WORDS, 4) and text.width % ROW_WORDS == 0


def load(text: Text, pointers: str, scalar: str) -> tuple[list[str], list[str]]:
    """Load all lanes' rows; return them, and the vectors of their words."""
    rows = [
        text.let(f"load <{ROW_WORDS} x {scalar}>, ptr {place}, align 1")
        for place in _places(text, pointers)
    ]
    stacked = [_stacked(text, rows[first::ROW_WORDS], scalar) for first in range(ROW_WORDS)]
    return rows, _transposed(text, stacked, scalar)


def store(
    text: Text,
    pointers: str,
    columns: Sequence[str],
    scalar: str,
    rows: Sequence[str] | None = None,
) -> None:
    """Store all lanes' rows, in the order of the lanes; ``rows``, if they are known as such."""
    type_ = f"<{ROW_WORDS} x {scalar}>"
    if rows is not None:
        for value, place in zip(rows, _places(text, pointers), strict=True):
            text.do(f"store {type_} {value}, ptr {place}, align 1")
        return
    stacked = _transposed(text, columns, scalar)
    for lane, place in enumerate(_places(text, pointers)):
        square, row = divmod(lane, ROW_WORDS)
        words = range(ROW_WORDS * square, ROW_WORDS * (square + 1))
        value = shuffled(text, stacked[row], "poison", words, scalar, text.width)
        text.do(f"store {type_} {value}, ptr {place}, align 1")


def shuffled(text: Text, a: str, b: str, places: Sequence[int], scalar: str, lanes: int) -> str:
    """Return elements of two vectors of so many lanes."""
    order = ", ".join(f"i32 {place}" for place in places)
    type_ = f"<{lanes} x {scalar}>"
    return text.let(f"shufflevector {type_} {a}, {type_} {b}, <{len(places)} x i32> <{order}>")


def _places(text: Text, pointers: str) -> list[str]:
    type_ = text.type_of("ptr", vector=True)
    return [text.let(f"extractelement {type_} {pointers}, i64 {n}") for n in range(text.width)]


def _stacked(text: Text, rows: Sequence[str], scalar: str) -> str:
    """Return rows behind each other."""
    parts, lanes = list(rows), ROW_WORDS
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [shuffled(text, a, b, range(2 * lanes), scalar, lanes) for a, b in pairs]
        lanes *= 2
    return parts[0]


def _transposed(text: Text, rows: Sequence[str], scalar: str) -> list[str]:
    """Transpose the squares that four vectors hold."""
    width = text.width

    def mixed(a: str, b: str, step: int, upper: bool) -> str:
        """Take groups of ``step`` elements of both in turns, from one half of each square."""
        places = []
        for square in range(0, width, ROW_WORDS):
            first = square + (ROW_WORDS // 2 if upper else 0)
            for group in range(first, first + ROW_WORDS // 2, step):
                places += [*range(group, group + step)]
                places += [width + n for n in range(group, group + step)]
        return shuffled(text, a, b, places, scalar, width)

    halves = [[mixed(rows[n], rows[n + 1], 1, upper) for n in (0, 2)] for upper in (False, True)]
    return [mixed(a, b, 2, upper) for a, b in halves for upper in (False, True)]
