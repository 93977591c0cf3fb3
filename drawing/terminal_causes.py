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
    causes = list(dict.fromkeys(cause for stack in stacks for cause in stack.parts))
    letters = dict(zip(causes, string.ascii_letters, strict=False))
    colours = {cause: _COLOURS[place % len(_COLOURS)] for place, cause in enumerate(causes)}
    room = max(columns - _NAME - _TOTAL - 2, _NARROWEST)
    max_sum = max((_sum(stack) for stack in stacks), default=0.0)
    for stack in stacks:
        line = [Span(f"{stack.name[:_NAME]:<{_NAME}} ")]
        running_sum, used = 0.0, 0
        for cause, value in stack.parts.items():
            if value <= 0:
                continue
            running_sum += value
            end = round(running_sum / max_sum * room) if max_sum else 0
            line.append(Span(letters.get(cause, "*") * (end - used), colours[cause]))
            used = end
        line.append(Span(f"{'':{room - used}}{stack.total:>{_TOTAL - 4}.4g} {stack.unit}"))
        yield line
    key = ", ".join(f"{letters.get(cause, '*')} {cause}" for cause in causes)
    yield from textwrap.wrap(key, columns)


def _sum(stack: Stack) -> float:
    return sum(value for value in stack.parts.values() if value > 0)
