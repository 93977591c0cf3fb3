"""The base of a client's objects: the client's entry in the engine, its quota, and its
descriptors.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Final

from hca.binding.engine import Engine
from hca.contract.hca import HCA_PAGE_BYTES
from hca.daemon.common import shared_memory
from hca.daemon.common.handover_state import HandoverState, Row
from hca.daemon.common.numbers import Numbers
from hca.daemon.common.quotas import Share, new_unlimited_share
from hca.daemon.policy.guard import Guard
from vgpu_sim.records import dataclass


@dataclass(frozen=True, slots=True)
class Holding:
    """An object's descriptor, which is kept for a successor of hcad, and the object's part of the
    quota.
    """

    descriptor: int
    descriptors: int
    ring_bytes: int
    object_bytes: int


DEFAULT_PKEY: Final = 0xFFFF
"""The P_Key of a full member of the default partition."""


class ClientPlace:
    """A client's entry in the engine.

    This is the base of the classes that manage a client's objects, one class for each kind of
    object.
    """

    _guard: Guard
    """The policy checks for the client's objects."""
    _mtu: int
    """The ibv_mtu of the client's port."""

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
        self.share: Share = new_unlimited_share()
        self.held: dict[tuple[str, int], Holding] = {}
        """The descriptors and quotas of the client's objects, by the object's kind and number."""
        self.pkeys: tuple[int, ...] = (DEFAULT_PKEY,)
        ends = self._ends()
        self.page_fd, self.doorbell_fd, self.async_fd = ends[:3]
        self.doorbell_end, self.async_end = ends[3:]
        self._client = engine.add_client(self.page_fd, self.doorbell_end, self.async_end, gids)

    def _ends(self) -> tuple[int, ...]:
        """Make the client's page and pipes; return their descriptors in the order of
        ``descriptors``.

        Raises OSError.
        """
        page = shared_memory.new_shared_memory("hca-client", HCA_PAGE_BYTES)
        doorbell, ringing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        reading, events = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(events, False)  # hcad's end only: programs set their own
        return page, ringing, reading, doorbell, events

    def save_place(self, handover_state: HandoverState) -> Row:
        """Return the client's own record, without its objects.

        The engine must be suspended (``Engine.suspend``).
        """
        return {
            "descriptors": [
                handover_state.add_descriptor(descriptor) for descriptor in self.descriptors
            ],
            "room": self._room,
            "next": self._next,
            "pkeys": list(self.pkeys),
        }

    def load_place(self, row: Row) -> None:
        """Restore the client's own record, without its objects.

        The client's descriptors and objects must be restored before. Raises ValueError,
        KeyError.
        """
        self._room, self._next = int(row["room"]), int(row["next"])
        self.set_pkeys(tuple(map(int, row["pkeys"])))

    def set_pkeys(self, pkeys: tuple[int, ...]) -> None:
        """Replace the client's P_Key table, with which the engine checks later packets."""
        self._engine.set_pkeys(self._client, pkeys)
        self.pkeys = pkeys

    def remove_from_engine(self) -> None:
        """Remove the client from the engine. The caller must have removed the client's objects."""
        self._engine.remove_client(self._client)
        for descriptor in self.descriptors:
            with suppress(OSError):
                os.close(descriptor)

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Return the descriptors of the client's page and pipes, without those of its objects."""
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
        """Keep a duplicate of an object's descriptor, and charge the object to the quota.

        The context's body makes the object; if it raises, both are undone. Raises OSError.
        """
        self.share.charge(descriptors, ring_bytes, object_bytes)
        try:
            duplicate = os.dup(descriptor)
        except OSError:
            self.share.refund(descriptors, ring_bytes, object_bytes)
            raise
        self.held[kind, number] = Holding(duplicate, descriptors, ring_bytes, object_bytes)
        return _Holding(self, kind, number)

    @contextmanager
    def _replacing(
        self, kind: str, number: int, descriptor: int, ring_bytes: int
    ) -> Iterator[None]:
        """Replace an object's kept descriptor and the charge for its ring, unless the context's
        body raises.

        The old and the new ring are both charged while the body runs. Raises OSError.
        """
        old_holding = self.held[kind, number]
        self.share.charge(0, ring_bytes)
        try:
            duplicate = os.dup(descriptor)
            try:
                yield
            except BaseException:
                os.close(duplicate)
                raise
        except BaseException:
            self.share.refund(0, ring_bytes)
            raise
        self.held[kind, number] = replace(old_holding, descriptor=duplicate, ring_bytes=ring_bytes)
        os.close(old_holding.descriptor)
        self.share.refund(0, old_holding.ring_bytes)

    def release(self, kind: str, number: int) -> None:
        """Close an object's kept descriptor and give the object's part of the quota back."""
        holding = self.held.pop((kind, number))
        os.close(holding.descriptor)
        self.share.refund(holding.descriptors, holding.ring_bytes, holding.object_bytes)

    def _handle(self) -> int:
        handle = self._next
        self._next += 1
        return handle


class _Holding:
    """The context in which an object is made.

    If making the object fails, the context releases the object's descriptor and quota.
    """

    __slots__ = ("_kind", "_number", "_place")

    def __init__(self, place: ClientPlace, kind: str, number: int) -> None:
        self._place, self._kind, self._number = place, kind, number

    def __enter__(self) -> None:
        """Do nothing; the caller has already charged the object."""

    def __exit__(self, raised: type[BaseException] | None, *_: object) -> None:
        """Release the object's descriptor and quota if the body has raised."""
        if raised is not None:
            self._place.release(self._kind, self._number)
