"""Multicast groups that wires are in: a socket for each, as long as a queue pair here is a member.

Who opens it depends on where the wire is: hcad itself on a fabric, netd in a pod's network.
"""

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from hca.binding.addresses import is_ipv4
from hca.binding.engine import Engine, EngineWire
from hca.binding.wire_sockets import WireSockets, open_group

DESCRIPTORS: Final = 2
"""Of a group that a wire is in: its socket, here and in the engine."""

Opener = Callable[[WireSockets, bytes], Awaitable[socket.socket]]
"""Opens a socket in a group at a wire's address. Raises OSError."""


async def open_here(sockets: WireSockets, group: bytes) -> socket.socket:
    """Open it in this process's network namespace. Raises OSError."""
    return open_group(sockets.address, group)


@dataclass(slots=True, eq=False)
class Joined:
    """A group that a wire is in, or is about to be."""

    wire: EngineWire
    gid: bytes
    users: int = 0


@dataclass(frozen=True, slots=True)
class _Wire:
    sockets: WireSockets
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One socket after the other: whoever opens them serves other wires, too."""


class WireGroups:
    """All groups of an engine's wires."""

    def __init__(self, engine: Engine, opener: Opener = open_here) -> None:
        self._engine = engine
        self._opener = opener
        self._wires: dict[EngineWire, _Wire] = {}
        self._groups: dict[tuple[EngineWire, bytes], Joined] = {}

    def add_wire(self, wire: EngineWire, sockets: WireSockets) -> None:
        """Know a wire; groups in which a predecessor has had it go on. Raises OSError."""
        for gid, opened in sockets.groups.items():
            self._engine.join_group(wire, gid, opened.fileno())
            self._groups[wire, gid] = Joined(wire, gid)
        self._wires[wire] = _Wire(sockets)

    def remove_wire(self, wire: EngineWire) -> None:
        """Forget a wire, before the engine does; its sockets are the caller's to close."""
        self._wires.pop(wire, None)
        self._groups = {key: one for key, one in self._groups.items() if key[0] != wire}

    @asynccontextmanager
    async def entered(self, gids: Sequence[bytes], group: bytes) -> AsyncIterator[None]:
        """Have the wire of one of these GIDs, if there is one, be in a group meanwhile.

        Raises:
            OSError: it cannot be.
        """
        wire = self._wire_of(gids, group)
        if wire is None:
            yield
            return
        one = self._groups.setdefault((wire, group), Joined(wire, group))
        one.users += 1
        try:
            async with self._wires[wire].opening:
                await self._open(one)
            yield
        finally:
            self.release(one)

    def hold(self, gids: Sequence[bytes], group: bytes) -> Joined | None:
        """Let a wire stay in a group until ``release``; None: there is none in it."""
        wire = self._wire_of(gids, group)
        if wire is None or group not in self._wires[wire].sockets.groups:
            return None
        one = self._groups[wire, group]
        one.users += 1
        return one

    def release(self, one: Joined) -> None:
        """The wire is in the group for one less, and leaves it with the last."""
        one.users -= 1
        key = one.wire, one.gid
        if one.users or self._groups.get(key) is not one:
            return
        del self._groups[key]
        opened = self._wires[one.wire].sockets.groups.pop(one.gid, None)
        if opened is not None:
            self._engine.quit_group(*key)
            opened.close()

    def _wire_of(self, gids: Sequence[bytes], group: bytes) -> EngineWire | None:
        for wire, known in self._wires.items():
            own = known.sockets.address.gid
            if own in gids and is_ipv4(own) == is_ipv4(group):
                return wire
        return None

    async def _open(self, one: Joined) -> None:
        self._check(one)
        sockets = self._wires[one.wire].sockets
        if one.gid in sockets.groups:
            return
        opened = await self._opener(sockets, one.gid)
        try:
            self._check(one)
            self._engine.join_group(one.wire, one.gid, opened.fileno())
        except BaseException:
            opened.close()
            raise
        sockets.groups[one.gid] = opened

    def _check(self, one: Joined) -> None:
        """Raise OSError where a group's wire has gone while somebody waited for it."""
        if self._groups.get((one.wire, one.gid)) is not one:
            raise ConnectionAbortedError(errno.ECONNABORTED, "its wire has gone meanwhile")
