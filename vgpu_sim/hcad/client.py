"""What all objects of a client share: its place in the engine, its room, its numbers."""

import os
from contextlib import suppress
from typing import Final

from vgpu_sim.fabric.engine import Engine
from vgpu_sim.hal.hca import HCA_MAX_MTU, HCA_PAGE_BYTES
from vgpu_sim.hcad import memory
from vgpu_sim.hcad.numbers import Numbers

DEFAULT_PKEY: Final = 0xFFFF
"""The default partition, as a full member."""


class ClientPlace:
    """A client in the engine; kinds of objects extend it."""

    def __init__(
        self,
        engine: Engine,
        numbers: Numbers,
        gids: tuple[bytes, ...],
        memory_bytes: int,
        mtu: int = HCA_MAX_MTU,
    ) -> None:
        """Add the client to the engine; ``mtu`` is its port's, of verbs. Raises OSError."""
        self._mtu = mtu
        self._engine = engine
        self._numbers = numbers
        self._room = memory_bytes
        self._next = 1
        self.pkeys: tuple[int, ...] = (DEFAULT_PKEY,)
        self.page_fd = memory.shared("hca-client", HCA_PAGE_BYTES)
        doorbell, self.doorbell_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.async_fd, events = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            self._client = engine.add_client(self.page_fd, doorbell, events, gids)
        finally:
            os.close(doorbell)
            os.close(events)

    def set_pkeys(self, pkeys: tuple[int, ...]) -> None:
        """Replace the table of partition keys; what is sent from now on is checked with it."""
        self._engine.set_pkeys(self._client, pkeys)
        self.pkeys = pkeys

    def leave(self) -> None:
        """Remove the client, after its objects."""
        self._engine.remove_client(self._client)
        for descriptor in (self.page_fd, self.doorbell_fd, self.async_fd):
            with suppress(OSError):
                os.close(descriptor)

    def _handle(self) -> int:
        handle = self._next
        self._next += 1
        return handle
