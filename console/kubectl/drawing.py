"""A node's GPUs in characters, side by side."""

import textwrap
from collections.abc import Iterator
from typing import Final

from console.views.faults import describe_health
from console.views.fleet import NodeView
from drawing.slices import WORDS
from drawing.terminal import Line, Span, draw_picture, join_panels

_UNIT: Final = 4  # characters of a memory slice that fit "[1g]"
_WIDEST: Final = 10  # more do not make a slice easier to read
_GAP: Final = 2


def draw_node(view: NodeView, columns: int) -> Iterator[Line]:
    """Yield the lines of a node: as many GPUs side by side as the terminal has columns for."""
    counts = ", ".join(f"{n} {WORDS[state]}" for state, n in sorted(view.counts.items()))
    yield (
        Span(view.name, bold=True),
        Span(f"  pool {view.pool or '-'}  {counts or 'no slices'}"),
        Span(f"  {view.problem}" if view.problem else "", "red"),
    )
    if view.profiles:
        yield from textwrap.wrap("; ".join(map(str, view.profiles)), columns)
    if not view.gpus:
        return
    units = max(gpu_view.picture.units for gpu_view in view.gpus)
    beside = max(1, (columns + _GAP) // (units * _UNIT + _GAP))
    beside = min(beside, len(view.gpus))
    size = min((columns + _GAP) // beside - _GAP, units * _WIDEST)
    for first in range(0, len(view.gpus), beside):
        panels = []
        for gpu_view in view.gpus[first : first + beside]:
            health = f" {describe_health(gpu_view.gpu)}" if gpu_view.is_sick else ""
            title = f"GPU {gpu_view.gpu.spec.index} {gpu_view.gpu.spec.board}"
            panel = [[Span(title[:size]), Span(health[: max(size - len(title), 0)], "red")]]
            panels.append([*panel, *draw_picture(gpu_view.picture, size)])
        yield from join_panels(panels, size, _GAP)
    for gpu_view in view.gpus:
        if text := gpu_view.picture.requests:
            yield from textwrap.wrap(f"GPU {gpu_view.gpu.spec.index} {text}", columns)
