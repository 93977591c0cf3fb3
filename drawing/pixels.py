"""Geometry in pixels: the runs of a picture as rectangles and paths.

Colours and patterns are classes of the style, because the pages allow no inline style.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from drawing.slices import Box, GpuPicture, Run


@dataclass(frozen=True, slots=True)
class Scale:
    """Sizes of a GPU's drawing in pixels."""

    width: int
    memory: int
    compute: int
    gap: int = 1

    @property
    def height(self) -> int:
        """Return the height of both rows."""
        return self.memory + self.gap + self.compute


MAP: Final = Scale(width=56, memory=10, compute=5)
DETAIL: Final = Scale(width=336, memory=34, compute=14, gap=3)


@dataclass(frozen=True, slots=True)
class Rect:
    """A rectangle in pixels."""

    x: float
    y: float
    width: float
    height: float

    @property
    def path(self) -> str:
        """Return the rectangle as commands of a path."""
        x, y, w, h = (f"{value:g}" for value in (self.x, self.y, self.width, self.height))
        return f"M{x} {y}h{w}v{h}h-{w}z"


def memory_rect(box: Box, picture: GpuPicture, scale: Scale, x: float = 0) -> Rect:
    """Return the rectangle of a box's memory."""
    height = scale.memory / box.parts
    return _rect(box.memory, picture.units, scale.width, x, height * box.part, height)


def compute_rect(box: Box, picture: GpuPicture, scale: Scale, x: float = 0) -> Rect:
    """Return the rectangle of a box's compute slices."""
    top = scale.memory + scale.gap
    return _rect(box.compute, picture.compute_slices, scale.width, x, top, scale.compute)


def map_path(box: Box, picture: GpuPicture, x: int) -> str:
    """Return both rectangles of a box on a map as one path.

    A browser draws one element with the paths of fifty boxes faster than fifty elements.
    """
    sizes = picture.units, picture.compute_slices
    return _map_path(box.memory, box.compute, box.part, box.parts, sizes, x)


@lru_cache(maxsize=8192)
def _map_path(
    memory: Run, compute: Run, part: int, parts: int, sizes: tuple[int, int], x: int
) -> str:
    height = MAP.memory / parts
    upper = _rect(memory, sizes[0], MAP.width, x, height * part, height)
    lower = _rect(compute, sizes[1], MAP.width, x, MAP.memory + MAP.gap, MAP.compute)
    return upper.path + lower.path


def _rect(run: Run, units: int, width: int, origin_x: float, top: float, height: float) -> Rect:
    step = width / units
    x = round(origin_x + run.start * step, 1)
    right = round(origin_x + (run.start + run.size) * step, 1)
    return Rect(x, round(top, 1), max(round(right - x - 1, 1), 1), max(round(height - 0.5, 1), 1))
