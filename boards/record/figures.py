"""Numbers with their source."""

from dataclasses import dataclass
from enum import Enum, unique


@unique
class Source(Enum):
    """Where a figure comes from."""

    DATA_SHEET = "data sheet"  # of the product, or the white paper of its architecture
    GUIDE = "guide"  # CUDA C++ Programming Guide, technical specifications per compute capability
    DERIVED = "derived"  # follows by arithmetic from figures of the same board
    MEASURED = "measured"  # what a real board reports of itself


@dataclass(frozen=True, slots=True)
class Figure:
    """A number in the unit that its field names, its source, and the document or the arithmetic."""

    value: float
    source: Source
    note: str


Bare = float | Figure
"""A number of the data sheet, or one of another source."""


def number(figure: Bare) -> float:
    """Return the number without its source."""
    return figure.value if isinstance(figure, Figure) else figure
