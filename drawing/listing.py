"""Code side by side: the source's line, PTX, instructions, and a bar for what each costs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from drawing import terminal
from drawing.elements import Element, element, shorten
from drawing.terminal import Line, Span

MOST_ROWS: Final = 2000
_LINE: Final = 15
_TOP: Final = 34
_BAR: Final = 90
# Title, width in units of the drawing, and the most letters of each column.
_PLACE: Final = ("source", 120, 18)
_TEXT: Final = ("text", 316, 46)
_CODE: Final = (("line", 40, 5), ("PTX", 302, 46), ("Tessera's instruction", 330, 50))


@dataclass(frozen=True, slots=True)
class Row:
    """A line of code: its place in the source, its line of PTX, and what it is compiled to.

    ``cost`` is drawn as a bar; ``number`` is the line of PTX, 0 where there is none; ``text`` is
    the source's line, where it is known and differs from the row before.
    """

    source: str
    number: int
    ptx: str
    instruction: str
    cost: float
    text: str = ""


def draw_listing(rows: Sequence[Row], cost: str) -> Element:
    """Return the first 2,000 rows of a listing; ``cost`` is the title of the last column."""
    drawn_rows = rows[:MOST_ROWS]
    max_cost = max((row.cost for row in drawn_rows), default=0.0)
    with_text = any(row.text for row in drawn_rows)
    columns = (_PLACE, *((_TEXT,) if with_text else ()), *_CODE)
    starts = list(accumulate((width for _, width, _ in columns), initial=8))
    wide = starts[-1] + _BAR + 10
    heads = (*(title for title, _, _ in columns), cost)
    parts = [
        element("text", head, class_="key head", x=x, y=18)
        for head, x in zip(heads, starts, strict=True)
    ]
    parts.append(element("path", class_="tick", d=f"M8 24H{wide - 8}"))
    for place, row in enumerate(drawn_rows):
        y = _TOP + place * _LINE + 8
        number = str(row.number) if row.number else ""
        text = (row.text,) if with_text else ()
        cells = (row.source, *text, number, row.ptx, row.instruction)
        for cell, x, (_, _, most_letters) in zip(cells, starts, columns, strict=False):
            if cell:
                words = element("text", shorten(cell, most_letters), class_="code", x=x, y=y)
                parts.append(words)
        if row.cost > 0 and max_cost > 0:
            words = element("title", f"{row.cost:g}")
            size = {"width": max(row.cost / max_cost * _BAR, 1), "height": _LINE - 5}
            parts.append(element("rect", words, class_="part c0", x=starts[-1], y=y - 9, **size))
    if len(rows) > len(drawn_rows):
        y = _TOP + len(drawn_rows) * _LINE + 8
        omission_note = f"{len(rows) - len(drawn_rows)} more lines are not drawn"
        parts.append(element("text", omission_note, class_="key", x=8, y=y))
    high = _TOP + (len(drawn_rows) + 1) * _LINE + 4
    return element(
        "svg",
        *parts,
        class_="drawing code-listing",
        viewBox=f"0 0 {wide} {high}",
        role="group",
        aria_label=f"{len(rows)} lines of PTX with their instructions",
    )


def listing_lines(rows: Sequence[Row], columns: int) -> Iterator[Line]:
    """Yield the listing as lines of text that fit ``columns``, each line of the source first."""
    bar = max(columns // 10, 4)
    column_width = max((columns - 6 - bar - 4) // 2, 8)
    max_cost = max((row.cost for row in rows), default=0.0)
    for row in rows:
        if row.text:
            words = shorten(f"{row.source}  {terminal.clean(row.text)}", max(columns, 8))
            yield (Span(words, "yellow"),)
        number = f"{row.number:>5}" if row.number else "     "
        ptx = shorten(terminal.clean(row.ptx), column_width)
        code = shorten(terminal.clean(row.instruction), column_width)
        cost = terminal.draw_bar(row.cost, max_cost, bar)
        yield (
            Span(f"{number} {ptx:<{column_width}}  {code:<{column_width}}  "),
            Span(cost, "blue"),
        )
