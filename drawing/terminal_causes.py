"""Stacked causes as lines of text: one bar for each time, on one scale, with a key of letters."""

import string
import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

from drawing.causes import Stack
from drawing.terminal import Line, Span

_COLOURS: Final = ("blue", "yellow", "green", "magenta", "cyan", "red")
_NAME: Final = 14
_TOTAL: Final = 14
_NARROWEST: Final = 10


def draw_stacks(stacks: Sequence[Stack], columns: int) -> Iterator[Line]:
    """Yield a bar of letters for each stack, one letter for each cause, and the letters' key."""
    causes = list(dict.fromkeys(cause for one in stacks for cause in one.parts))
    letters = dict(zip(causes, string.ascii_letters, strict=False))
    colours = {cause: _COLOURS[place % len(_COLOURS)] for place, cause in enumerate(causes)}
    room = max(columns - _NAME - _TOTAL - 2, _NARROWEST)
    most = max((_sum(one) for one in stacks), default=0.0)
    for one in stacks:
        line = [Span(f"{one.name[:_NAME]:<{_NAME}} ")]
        done, used = 0.0, 0
        for cause, value in one.parts.items():
            if value <= 0:
                continue
            done += value
            end = round(done / most * room) if most else 0
            line.append(Span(letters.get(cause, "*") * (end - used), colours[cause]))
            used = end
        line.append(Span(f"{'':{room - used}}{one.total:>{_TOTAL - 4}.4g} {one.unit}"))
        yield line
    key = ", ".join(f"{letters.get(cause, '*')} {cause}" for cause in causes)
    yield from textwrap.wrap(key, columns)


def _sum(one: Stack) -> float:
    return sum(value for value in one.parts.values() if value > 0)
