"""The state that an hcad hands over: JSON records, and the descriptors to which records refer by
number.
"""

import base64
from collections.abc import Sequence
from dataclasses import field
from typing import Any

from vgpu_sim.records import dataclass

Row = dict[str, Any]
"""The record of one object; each kind of object has its own format."""


@dataclass(slots=True)
class HandoverState:
    """The descriptors of a handover: the predecessor packs them, and the successor takes each one
    once.
    """

    descriptors: list[int] = field(default_factory=list)
    _taken: set[int] = field(default_factory=set)

    def add_descriptor(self, descriptor: int) -> int:
        """Add a descriptor, and return the number by which a record refers to it.

        The descriptor still belongs to the caller.
        """
        self.descriptors.append(descriptor)
        return len(self.descriptors) - 1

    def take_descriptor(self, place: int) -> int:
        """Return the descriptor whose number is ``place``; the caller then owns the descriptor.

        Raises ValueError.
        """
        if place in self._taken or not 0 <= place < len(self.descriptors):
            raise ValueError(
                f"descriptor {place} was taken already, or is not one of the"
                f" {len(self.descriptors)} received ones"
            )
        self._taken.add(place)
        return self.descriptors[place]

    def take_descriptors(self, places: Sequence[int]) -> tuple[int, ...]:
        """Return the descriptors whose numbers are ``places``; the caller then owns the
        descriptors.
        """
        return tuple(self.take_descriptor(place) for place in places)

    def list_unclaimed(self) -> list[int]:
        """Return the descriptors that the successor has not taken."""
        return [fd for place, fd in enumerate(self.descriptors) if place not in self._taken]


def to_base64(data: bytes) -> str:
    """Encode bytes as a text that fits into JSON."""
    return base64.b64encode(data).decode("ascii")


def from_base64(value: str) -> bytes:
    """Decode bytes that ``to_base64`` has encoded. Raises ValueError."""
    return base64.b64decode(value, validate=True)
