"""Drawings as lines of text: GPUs with their slices, and bars, as wide as the terminal permits."""

import shutil
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Final

from drawing import config
from drawing.elements import replace_unprintable
from drawing.slices import WORDS, Box, BoxState, GpuPicture, Run

MARKS: Final = {
    BoxState.FREE: ".",
    BoxState.HELD: "#",
    BoxState.CLAIMED: "+",
    BoxState.LEAVING: "!",
    BoxState.CLOSED: "~",
    BoxState.SICK: "x",
    BoxState.LOST: "%",
    BoxState.COMING: "?",
}
_COLOURS: Final = {
    BoxState.FREE: "green",
    BoxState.HELD: "blue",
    BoxState.CLAIMED: "cyan",
    BoxState.LEAVING: "yellow",
    BoxState.CLOSED: "yellow",
    BoxState.SICK: "red",
    BoxState.LOST: "red",
    BoxState.COMING: "magenta",
}
_UNUSED: Final = "-"
_NO_BREAK: Final = "\u00a0"
_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
_SGR: Final = {
    "red": 31,
    "green": 32,
    "yellow": 33,
    "blue": 34,
    "magenta": 35,
    "cyan": 36,
}


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a line with its colour, which is one of ANSI's names, or empty."""

    text: str
    colour: str = ""
    bold: bool = False


Line = str | Sequence[Span]


def clean(text: str) -> str:
    """Replace what a terminal would interpret, as names and messages can be hostile."""
    return replace_unprintable(text)


def is_coloured(stream: IO[str]) -> bool:
    """Return whether a stream is a terminal that shows colours, and the user permits them."""
    return stream.isatty() and config.permits_colours()


def width() -> int:
    """Return the columns of the terminal; 80 if there is none."""
    return max(shutil.get_terminal_size().columns, 1)


def format_line(line: Line, *, coloured: bool) -> str:
    """Return a line as it is printed, with escape sequences only if ``coloured``."""
    spans = (Span(line),) if isinstance(line, str) else line
    if not coloured:
        return "".join(clean(span.text) for span in spans).rstrip()
    return "".join(_format_span(span) for span in spans).rstrip()


def _format_span(span: Span) -> str:
    codes = [str(_SGR[span.colour])] if span.colour else []
    codes += ["1"] if span.bold else []
    text = clean(span.text)
    return f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if codes else text


def draw_bar(value: float, peak: float, size: int) -> str:
    """Return a bar of at most ``size`` characters whose length is ``value``'s share of ``peak``."""
    if size < 1 or not peak > 0 or not value > 0:  # neither may be NaN
        return ""
    share = 1.0 if value >= peak else value / peak
    eighths = round(share * size * 8)
    return (_EIGHTHS[-1] * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()


def draw_picture(picture: GpuPicture, size: int) -> list[list[Span]]:
    """Return the rows of a GPU, each ``size`` characters wide."""
    if picture.problem and not picture.boxes:
        return [[Span(picture.problem[:size], "red")]]
    rows = []
    height = max((box.parts for box in picture.boxes), default=1)
    for number in range(height):  # devices that share memory share the height of the rows
        mine = [box for box in picture.boxes if number * box.parts // height == box.part]
        rows.append(_row([(box, box.memory) for box in mine], picture.units, size))
    compute = [(box, box.compute) for box in picture.boxes]
    rows.append(_row(compute, picture.compute_slices, size, named=False))
    if picture.problem:
        rows.append([Span(picture.problem[:size], "red")])
    return rows


def legend(columns: int) -> list[str]:
    """Return the lines that explain the characters."""
    states = [f"{mark} {WORDS[state]}" for state, mark in MARKS.items()]
    signs = (sign.replace(" ", _NO_BREAK) for sign in (*states, f"{_UNUSED} no slice"))
    text = f"{', '.join(signs)}; memory slices above, compute slices below"
    return [line.replace(_NO_BREAK, " ") for line in textwrap.wrap(text, columns)]


def join_panels(panels: Sequence[Sequence[Sequence[Span]]], size: int, gap: int) -> Iterator[Line]:
    """Yield the rows of panels side by side; each panel is ``size`` characters wide."""
    for number in range(max(map(len, panels))):
        line: list[Span] = []
        for panel in panels:
            row = panel[number] if number < len(panel) else ()
            used = sum(len(span.text) for span in row)
            line += [*row, Span(" " * (size - used + gap))]
        yield line


def _row(
    boxes: Sequence[tuple[Box, Run]], units: int, size: int, *, named: bool = True
) -> list[Span]:
    """Return a row of boxes; ``named`` rows have the boxes' names where they fit."""
    spans: list[Span] = []
    at = 0
    for box, run in sorted(boxes, key=lambda box_run: box_run[1].start):
        start = max(run.start * size // units, at)
        end = (run.start + run.size) * size // units
        spans.append(Span(_UNUSED * (start - at)))
        spans.append(Span(_bar(box, end - start, named), _COLOURS[box.state]))
        at = max(end, start)
    spans.append(Span(_UNUSED * (size - at)))
    return spans


def _bar(box: Box, size: int, named: bool) -> str:
    mark = MARKS[box.state]
    if size < 3:
        return mark * max(size, 0)
    profile = box.name.partition("@")[0]
    names = (profile, profile.partition(".")[0], "") if named else ("",)
    room = size - 3 if named else size - 2  # a name leaves one character for the mark
    name = next(candidate for candidate in names if len(candidate) <= room)
    return f"[{name.center(size - 2, mark)}]"
