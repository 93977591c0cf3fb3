"""PTX beside Tessera's instructions: the rows of the drawings of ``tessera ptx explain``."""

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Final

from drawing.documents import Figure
from drawing.listing import Row, draw_listing, listing_lines
from drawing.terminal import Line
from vgpu_sim.cli.ptx.sources import Sources
from vgpu_sim.isa import Function
from vgpu_sim.isa.disasm import render_instruction

COST: Final = "issue slots"
NOTE: Final = (
    "Issue slots are those that a warp needs to execute the instruction once on a real board"
    " (modelled, an upper estimate). A source's line is that of .loc; --source shows its text."
)
_LOC: Final = re.compile(r"^\s*\.loc\s+(\d{1,9})\s+(\d{1,9})\b")
_FILE: Final = re.compile(r'^\s*\.file\s+(\d{1,9})\s+"([^"\n]{0,4096})"')


def figures_of(ptx: str, functions: Sequence[Function], sources: Sources) -> list[Figure]:
    """Return one listing for each kernel."""
    places = _places(ptx)
    return [
        Figure(
            f"kernel {function.name}",
            draw_listing(list(_rows(ptx, places, function, sources)), COST),
        )
        for function in functions
    ]


def lines_of(ptx: str, function: Function, columns: int, sources: Sources) -> Iterator[Line]:
    """Yield a kernel's listing as text."""
    yield from listing_lines(list(_rows(ptx, _places(ptx), function, sources)), columns)


def _places(ptx: str) -> dict[int, tuple[str, int]]:
    """Return the file and line in the source of each line of PTX, as its directives state it."""
    files: dict[str, str] = {}
    for line in ptx.splitlines():
        if match := _FILE.match(line):
            files[match[1]] = PurePosixPath(match[2].replace("\\", "/")).name
    places: dict[int, tuple[str, int]] = {}
    place = ("", 0)
    for number, line in enumerate(ptx.splitlines(), 1):
        if match := _LOC.match(line):
            place = (files.get(match[1], match[1]), int(match[2]))
        places[number] = place
    return places


def _rows(
    ptx: str, places: dict[int, tuple[str, int]], function: Function, sources: Sources
) -> Iterator[Row]:
    from vgpu_sim.perf.kernels.pipes import work_of  # imports numpy by its package

    text = ptx.splitlines()
    previous = 0
    last = ("", 0)
    for instruction, number in zip(function.code, function.lines, strict=True):
        is_new = number != previous and 0 < number <= len(text)
        previous = number
        name, line = places.get(number, ("", 0)) if is_new else ("", 0)
        words = ""
        if name and (name, line) != last:
            last = (name, line)
            words = sources.line(name, line).strip().expandtabs(1)
        yield Row(
            f"{name}:{line}" if name else "",
            number if is_new else 0,
            text[number - 1].strip().expandtabs(1) if is_new else "",
            " ".join(render_instruction(instruction).split()),
            float(sum(work_of(instruction).values())),
            words,
        )
