"""What is handed over: values that JSON can hold, and descriptors beside them, named by place."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]
"""One object, as its kind writes it."""


@dataclass(slots=True)
class Luggage:
    """Descriptors on their way: packed by the one side, taken by the other, each exactly once."""

    descriptors: list[int] = field(default_factory=list)
    _taken: set[int] = field(default_factory=set)

    def pack(self, descriptor: int) -> int:
        """Return the place of a descriptor, which stays its owner's."""
        self.descriptors.append(descriptor)
        return len(self.descriptors) - 1

    def take(self, place: int) -> int:
        """Return the descriptor of a place, which is the caller's now. Raises ValueError."""
        if place in self._taken or not 0 <= place < len(self.descriptors):
            raise ValueError(f"descriptor {place} of {len(self.descriptors)}")
        self._taken.add(place)
        return self.descriptors[place]

    def take_all(self, places: Sequence[int]) -> tuple[int, ...]:
        """Return the descriptors of places."""
        return tuple(self.take(place) for place in places)

    def left(self) -> list[int]:
        """Return the descriptors that nobody took."""
        return [fd for place, fd in enumerate(self.descriptors) if place not in self._taken]


def text(data: bytes) -> str:
    """Return bytes as JSON can hold them."""
    return base64.b64encode(data).decode("ascii")


def data(value: str) -> bytes:
    """Return them again. Raises ValueError."""
    return base64.b64decode(value, validate=True)
