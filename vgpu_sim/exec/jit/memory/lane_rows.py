"""Accesses of 16 bytes per lane at unrelated addresses: one access per lane, not one per word.

Four gathers of words would read every cache line four times. Rows of four words are loaded and
then transposed in squares of four by four, so that the words of the same position are adjacent.
"""

from collections.abc import Sequence

from vgpu_sim.exec.jit.text.writer import Text

ROW_WORDS = 4


def can_access_as_row(text: Text, count: int, element_bytes: int) -> bool:
    """Return whether an access of ``count`` elements per lane can be emitted as one row per lane.

    This requires that each lane accesses four words of 4 bytes, and that the number of lanes of
    a vector is a multiple of four.
    """
    return (count, element_bytes) == (ROW_WORDS, 4) and text.width % ROW_WORDS == 0


def load(text: Text, pointers: str, scalar: str) -> tuple[list[str], list[str]]:
    """Load one row of four words for each lane. Return the rows, and the same words transposed.

    The transposed words are one vector for each position in a row. This vector has, for each
    lane, the word at that position.
    """
    rows = [
        text.let(f"load <{ROW_WORDS} x {scalar}>, ptr {place}, align 1")
        for place in _places(text, pointers)
    ]
    stacked = [_stack(text, rows[first::ROW_WORDS], scalar) for first in range(ROW_WORDS)]
    return rows, _transpose(text, stacked, scalar)


def store(
    text: Text,
    pointers: str,
    columns: Sequence[str],
    scalar: str,
    rows: Sequence[str] | None = None,
) -> None:
    """Store the row of each lane, in the order of the lanes.

    ``columns`` has one vector for each position in a row. This vector has, for each lane, the
    word at that position. ``rows``, if given, has the same words as one row per lane; then no
    words need to be transposed.
    """
    type_ = f"<{ROW_WORDS} x {scalar}>"
    if rows is not None:
        for value, place in zip(rows, _places(text, pointers), strict=True):
            text.do(f"store {type_} {value}, ptr {place}, align 1")
        return
    stacked = _transpose(text, columns, scalar)
    for lane, place in enumerate(_places(text, pointers)):
        square, row = divmod(lane, ROW_WORDS)
        words = range(ROW_WORDS * square, ROW_WORDS * (square + 1))
        value = shuffle(text, stacked[row], "poison", words, scalar, text.width)
        text.do(f"store {type_} {value}, ptr {place}, align 1")


def shuffle(text: Text, a: str, b: str, places: Sequence[int], scalar: str, lanes: int) -> str:
    """Return a vector of lanes that are taken from the vectors ``a`` and ``b``.

    ``a`` and ``b`` have ``lanes`` lanes each. ``places`` are the numbers of the lanes to take; the
    lanes of ``b`` are numbered after those of ``a``.
    """
    order = ", ".join(f"i32 {place}" for place in places)
    type_ = f"<{lanes} x {scalar}>"
    return text.let(f"shufflevector {type_} {a}, {type_} {b}, <{len(places)} x i32> <{order}>")


def _places(text: Text, pointers: str) -> list[str]:
    type_ = text.type_of("ptr", vector=True)
    return [text.let(f"extractelement {type_} {pointers}, i64 {n}") for n in range(text.width)]


def _stack(text: Text, rows: Sequence[str], scalar: str) -> str:
    """Concatenate rows."""
    parts, lanes = list(rows), ROW_WORDS
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [shuffle(text, a, b, range(2 * lanes), scalar, lanes) for a, b in pairs]
        lanes *= 2
    return parts[0]


def _transpose(text: Text, rows: Sequence[str], scalar: str) -> list[str]:
    """Transpose the squares that four vectors hold."""
    width = text.width

    def interleave(a: str, b: str, step: int, upper: bool) -> str:
        """Interleave groups of ``step`` elements of both, from one half of each square."""
        places = []
        for square in range(0, width, ROW_WORDS):
            first = square + (ROW_WORDS // 2 if upper else 0)
            for group in range(first, first + ROW_WORDS // 2, step):
                places += [*range(group, group + step)]
                places += [width + n for n in range(group, group + step)]
        return shuffle(text, a, b, places, scalar, width)

    halves = [
        [interleave(rows[n], rows[n + 1], 1, upper) for n in (0, 2)] for upper in (False, True)
    ]
    return [interleave(a, b, 2, upper) for a, b in halves for upper in (False, True)]
