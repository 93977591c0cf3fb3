"""What all objects of a client share: its place in the engine, its room, its numbers."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Final

from hca.binding.engine import Engine
from hca.contract.hca import HCA_PAGE_BYTES
from hca.daemon.common import shared_memory
from hca.daemon.common.handover_state import Luggage, Row
from hca.daemon.common.numbers import Numbers
from hca.daemon.common.quotas import Share, unbounded
from hca.daemon.policy.guard import Guard


@dataclass(frozen=True, slots=True)
class Held:
    """A descriptor that an object has as long as it lives, so that a successor can be given it.

    And what else it has taken of its function's share.
    """

    descriptor: int
    descriptors: int
    ring_bytes: int
    object_bytes: int


DEFAULT_PKEY: Final = 0xFFFF
"""The default partition, as a full member."""


class ClientPlace:
    """A client in the engine; kinds of objects extend it."""

    _guard: Guard
    """What policy lets it have."""
    _mtu: int
    """Its port's, of verbs."""

    def __init__(
        self,
        engine: Engine,
        numbers: Numbers,
        gids: tuple[bytes, ...],
        memory_bytes: int,
    ) -> None:
        """Add the client to the engine. Raises OSError."""
        self._engine = engine
        self._numbers = numbers
        self._room = memory_bytes
        self._next = 1
        self.share: Share = unbounded()
        self.held: dict[tuple[str, int], Held] = {}
        """By kind of object and its number."""
        self.pkeys: tuple[int, ...] = (DEFAULT_PKEY,)
        ends = self._ends()
        self.page_fd, self.doorbell_fd, self.async_fd = ends[:3]
        self.doorbell_end, self.async_end = ends[3:]
        self._client = engine.add_client(self.page_fd, self.doorbell_end, self.async_end, gids)

    def _ends(self) -> tuple[int, ...]:
        """Make the client's page and pipes, in the order of ``descriptors``. Raises OSError."""
        page = shared_memory.shared("hca-client", HCA_PAGE_BYTES)
        doorbell, ringing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        reading, events = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(events, False)  # this end alone: programs wait at their own
        return page, ringing, reading, doorbell, events

    def save_place(self, luggage: Luggage) -> Row:
        """Write what the client has besides its objects; the engine is held."""
        return {
            "descriptors": [luggage.pack(descriptor) for descriptor in self.descriptors],
            "room": self._room,
            "next": self._next,
            "pkeys": list(self.pkeys),
        }

    def load_place(self, row: Row) -> None:
        """Take over all but the descriptors, after the objects. Raises ValueError, KeyError."""
        self._room, self._next = int(row["room"]), int(row["next"])
        self.set_pkeys(tuple(map(int, row["pkeys"])))

    def set_pkeys(self, pkeys: tuple[int, ...]) -> None:
        """Replace the table of partition keys; what is sent from now on is checked with it."""
        self._engine.set_pkeys(self._client, pkeys)
        self.pkeys = pkeys

    def leave(self) -> None:
        """Remove the client, after its objects."""
        self._engine.remove_client(self._client)
        for descriptor in self.descriptors:
            with suppress(OSError):
                os.close(descriptor)

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Return what the client has besides its objects."""
        ends = (self.doorbell_end, self.async_end)
        return (self.page_fd, self.doorbell_fd, self.async_fd, *ends)

    def _holding(
        self,
        kind: str,
        number: int,
        descriptor: int,
        ring_bytes: int = 0,
        descriptors: int = 1,
        object_bytes: int = 0,
    ) -> "_Holding":
        """Keep a copy of an object's descriptor unless something goes wrong. Raises OSError."""
        self.share.take(descriptors, ring_bytes, object_bytes)
        try:
            kept = os.dup(descriptor)
        except OSError:
            self.share.give(descriptors, ring_bytes, object_bytes)
            raise
        self.held[kind, number] = Held(kept, descriptors, ring_bytes, object_bytes)
        return _Holding(self, kind, number)

    @contextmanager
    def _replacing(
        self, kind: str, number: int, descriptor: int, ring_bytes: int
    ) -> Iterator[None]:
        """Hold another descriptor and ring for an object, unless something goes wrong.

        Meanwhile both are charged. Raises OSError.
        """
        before = self.held[kind, number]
        self.share.take(0, ring_bytes)
        try:
            kept = os.dup(descriptor)
            try:
                yield
            except BaseException:
                os.close(kept)
                raise
        except BaseException:
            self.share.give(0, ring_bytes)
            raise
        self.held[kind, number] = replace(before, descriptor=kept, ring_bytes=ring_bytes)
        os.close(before.descriptor)
        self.share.give(0, before.ring_bytes)

    def release(self, kind: str, number: int) -> None:
        """Give back what an object has held."""
        held = self.held.pop((kind, number))
        os.close(held.descriptor)
        self.share.give(held.descriptors, held.ring_bytes, held.object_bytes)

    def _handle(self) -> int:
        handle = self._next
        self._next += 1
        return handle


class _Holding:
    """While an object is made: gives back what it holds where something goes wrong."""

    __slots__ = ("_kind", "_number", "_place")

    def __init__(self, place: ClientPlace, kind: str, number: int) -> None:
        self._place, self._kind, self._number = place, kind, number

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, raised: type[BaseException] | None, *_: object) -> None:
        """End."""
        if raised is not None:
            self._place.release(self._kind, self._number)
