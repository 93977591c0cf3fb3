"""Numbers with their source."""

from dataclasses import dataclass
from enum import Enum, unique


@unique
class Source(Enum):
    """Where a figure comes from."""

    DATA_SHEET = (
        "data sheet"  # from the product's data sheet, or the white paper on its architecture
    )
    GUIDE = "guide"  # CUDA C++ Programming Guide, technical specifications per capability
    DERIVED = "derived"  # computed from other figures for the same board
    MEASURED = "measured"  # reported by a real board


@dataclass(frozen=True, slots=True)
class Figure:
    """A number in its field's unit, and the document or arithmetic that it comes from."""

    value: float
    source: Source
    note: str


Bare = float | Figure
"""A number from the data sheet, or a ``Figure`` with another source."""


def number_of(figure: Bare) -> float:
    """Return the value of a figure as a plain number, without the figure's source."""
    return figure.value if isinstance(figure, Figure) else figure
