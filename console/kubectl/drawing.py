"""A GPU in characters: memory slices in the upper rows, compute slices in the lowest."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

from console.kubectl.output import Line, Span
from console.views.fleet import NodeView
from console.views.geometry import WORDS, Box, BoxState, GpuPicture, Run

MARKS: Final = {
    BoxState.FREE: ".",
    BoxState.HELD: "#",
    BoxState.CLAIMED: "+",
    BoxState.LEAVING: "!",
    BoxState.CLOSED: "~",
    BoxState.SICK: "x",
    BoxState.COMING: "?",
}
_COLOURS: Final = {
    BoxState.FREE: "green",
    BoxState.HELD: "blue",
    BoxState.CLAIMED: "cyan",
    BoxState.LEAVING: "yellow",
    BoxState.CLOSED: "yellow",
    BoxState.SICK: "red",
    BoxState.COMING: "magenta",
}
_UNIT: Final = 4  # characters of a memory slice that fit "[1g]"
_WIDEST: Final = 10  # more do not make a slice easier to read
_GAP: Final = 2
_UNUSED: Final = "-"


def draw_node(view: NodeView, columns: int) -> Iterator[Line]:
    """Yield the lines of a node: as many GPUs side by side as the terminal has columns for."""
    counts = ", ".join(f"{n} {WORDS[state]}" for state, n in sorted(view.counts.items()))
    yield (
        Span(view.name, bold=True),
        Span(f"  pool {view.pool or '-'}  {counts or 'no slices'}"),
        Span(f"  {view.problem}" if view.problem else "", "red"),
    )
    if not view.gpus:
        return
    units = max(one.picture.units for one in view.gpus)
    beside = max(1, (columns + _GAP) // (units * _UNIT + _GAP))
    beside = min(beside, len(view.gpus))
    size = min((columns + _GAP) // beside - _GAP, units * _WIDEST)
    for first in range(0, len(view.gpus), beside):
        panels = []
        for one in view.gpus[first : first + beside]:
            health = f" {one.gpu.status.health}" if one.is_sick else ""
            title = f"GPU {one.gpu.spec.index} {one.gpu.spec.board}"
            panel = [[Span(title[:size]), Span(health[: max(size - len(title), 0)], "red")]]
            panels.append([*panel, *draw_picture(one.picture, size)])
        yield from _join(panels, size)


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
    text = ", ".join([*states, f"{_UNUSED} no slice"])
    return textwrap.wrap(f"{text}; memory slices above, compute slices below", columns)


def _row(
    boxes: Sequence[tuple[Box, Run]], units: int, size: int, *, named: bool = True
) -> list[Span]:
    """Return a row of boxes; ``named`` rows have the boxes' names where they fit."""
    spans: list[Span] = []
    at = 0
    for box, run in sorted(boxes, key=lambda one: one[1].start):
        left = max(run.start * size // units, at)
        right = (run.start + run.size) * size // units
        spans.append(Span(_UNUSED * (left - at)))
        spans.append(Span(_bar(box, right - left, named), _COLOURS[box.state]))
        at = max(right, left)
    spans.append(Span(_UNUSED * (size - at)))
    return spans


def _bar(box: Box, size: int, named: bool) -> str:
    mark = MARKS[box.state]
    if size < 3:
        return mark * max(size, 0)
    profile = box.name.partition("@")[0]
    names = (profile, profile.partition(".")[0], "") if named else ("",)
    name = next(one for one in names if len(one) <= size - 2)
    return f"[{name.center(size - 2, mark)}]"


def _join(panels: Sequence[Sequence[Sequence[Span]]], size: int) -> Iterator[Line]:
    """Yield the rows of panels side by side."""
    for number in range(max(map(len, panels))):
        line: list[Span] = []
        for panel in panels:
            row = panel[number] if number < len(panel) else ()
            used = sum(len(span.text) for span in row)
            line += [*row, Span(" " * (size - used + _GAP))]
        yield line
