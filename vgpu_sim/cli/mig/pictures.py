"""Drawings of layouts: a GPU's slices before and after a plan."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from drawing import terminal
from drawing.documents import Figure
from drawing.gpus import draw_gpu
from drawing.slices import WORDS, BoxState, GpuPicture, draw_places
from drawing.terminal import Line, Span
from mig.geometry import Board, Instance
from vgpu_sim.cli import pictures as options
from vgpu_sim.records import dataclass

_WIDEST: Final = 10  # columns of a memory slice


@dataclass(frozen=True, slots=True)
class Moment:
    """A GPU at one moment of a plan, such as "before" and "after"."""

    title: str
    picture: GpuPicture


def moment(board: Board, title: str, states: Mapping[Instance, BoxState]) -> Moment:
    """Return a GPU with slices in these states."""
    return Moment(title, draw_places(board, states))


def states_of(**groups: Iterable[Instance]) -> dict[Instance, BoxState]:
    """Return slices with their states, from groups named by states: ``held``, ``free``."""
    return {instance: BoxState(name) for name, every in groups.items() for instance in every}


def figures_of(moments: Sequence[Moment]) -> list[Figure]:
    """Return one drawing for each moment."""
    figures = []
    for moment in moments:
        drawn = draw_gpu(moment.picture, _describe(moment), axis=True)
        figures.append(Figure(moment.title, drawn))
    return figures


def lines_of(moments: Sequence[Moment], columns: int) -> Iterator[Line]:
    """Yield the moments as text below each other, and the key of the characters."""
    wide = max(len(moment.title) for moment in moments) + 2
    for moment in moments:
        size = max(min(columns - wide, moment.picture.units * _WIDEST), 1)
        for number, row in enumerate(terminal.draw_picture(moment.picture, size)):
            yield (Span(f"{moment.title if number == 0 else '':<{wide}}"), *row)
    yield from terminal.legend(columns)


def print_moments(moments: Sequence[Moment]) -> None:
    """Print the moments if the user wants drawings in the terminal."""
    if moments and options.current().wants_text:
        options.print_lines(lines_of(moments, terminal.width()))


def _describe(moment: Moment) -> str:
    boxes = ", ".join(f"{box.name} {WORDS[box.state]}" for box in moment.picture.boxes)
    return f"{moment.title}: {boxes or 'no slices'}"
