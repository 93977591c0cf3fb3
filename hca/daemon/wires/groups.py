"""Multicast groups of wires: a wire is in a group as long as a local queue pair is a member.

A wire joins a group with one socket. For a fabric's wire hcad opens this socket itself; for a
pod's wire netd opens it.
"""

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import field
from typing import Final

from hca.binding.addresses import is_ipv4
from hca.binding.engine import Engine, EngineWire
from hca.binding.wire_sockets import WireSockets, open_group
from vgpu_sim.records import dataclass

DESCRIPTORS: Final = 2
"""Number of descriptors for each group that a wire is in: the group's socket, in hcad and in the
engine.
"""

Opener = Callable[[WireSockets, bytes], Awaitable[socket.socket]]
"""A function that opens a socket in a group at a wire's address. Raises OSError."""


async def open_here(sockets: WireSockets, group: bytes) -> socket.socket:
    """Open a socket in this process's network namespace and join it to a multicast group.

    Raises OSError.
    """
    return open_group(sockets.address, group)


@dataclass(slots=True, eq=False)
class JoinedGroup:
    """A multicast group that a wire is in, or is joining."""

    wire: EngineWire
    gid: bytes
    users: int = 0


@dataclass(frozen=True, slots=True)
class _Wire:
    sockets: WireSockets
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a socket is opened: only one at a time, because the opener (netd) also serves
    other wires.
    """


class WireGroups:
    """The multicast groups that the wires of an engine have joined."""

    def __init__(self, engine: Engine, opener: Opener = open_here) -> None:
        self._engine = engine
        self._opener = opener
        self._wires: dict[EngineWire, _Wire] = {}
        self._groups: dict[tuple[EngineWire, bytes], JoinedGroup] = {}

    def add_wire(self, wire: EngineWire, sockets: WireSockets) -> None:
        """Add a wire. Raises OSError.

        If a predecessor joined the wire to multicast groups, the wire stays in these groups.
        """
        for gid, opened in sockets.groups.items():
            self._engine.join_group(wire, gid, opened.fileno())
            self._groups[wire, gid] = JoinedGroup(wire, gid)
        self._wires[wire] = _Wire(sockets)

    def remove_wire(self, wire: EngineWire) -> None:
        """Forget a wire that the engine is about to remove; the caller must close the wire's
        sockets.
        """
        self._wires.pop(wire, None)
        self._groups = {key: group for key, group in self._groups.items() if key[0] != wire}

    @asynccontextmanager
    async def join(self, gids: Sequence[bytes], group: bytes) -> AsyncIterator[None]:
        """Keep the wire of these GIDs in a group for the duration of the context.

        If these GIDs have no wire, this does nothing.

        Raises:
            OSError: the wire cannot join.
        """
        wire = self._wire_of(gids, group)
        if wire is None:
            yield
            return
        joined_group = self._groups.setdefault((wire, group), JoinedGroup(wire, group))
        joined_group.users += 1
        try:
            async with self._wires[wire].opening:
                await self._open(joined_group)
            yield
        finally:
            self.release(joined_group)

    def hold(self, gids: Sequence[bytes], group: bytes) -> JoinedGroup | None:
        """Keep the wire of these GIDs in a group until ``release`` is called with the result.

        The result is None if these GIDs have no wire, or if their wire is not in the group yet.
        """
        wire = self._wire_of(gids, group)
        if wire is None or group not in self._wires[wire].sockets.groups:
            return None
        joined_group = self._groups[wire, group]
        joined_group.users += 1
        return joined_group

    def release(self, joined_group: JoinedGroup) -> None:
        """Give up one use of a wire's membership in a group.

        After the last use is given up, the wire leaves the group.
        """
        joined_group.users -= 1
        key = joined_group.wire, joined_group.gid
        if joined_group.users or self._groups.get(key) is not joined_group:
            return
        del self._groups[key]
        opened = self._wires[joined_group.wire].sockets.groups.pop(joined_group.gid, None)
        if opened is not None:
            self._engine.quit_group(*key)
            opened.close()

    def _wire_of(self, gids: Sequence[bytes], group: bytes) -> EngineWire | None:
        for wire, wire_state in self._wires.items():
            own = wire_state.sockets.address.gid
            if own in gids and is_ipv4(own) == is_ipv4(group):
                return wire
        return None

    async def _open(self, joined_group: JoinedGroup) -> None:
        self._check(joined_group)
        sockets = self._wires[joined_group.wire].sockets
        if joined_group.gid in sockets.groups:
            return
        opened = await self._opener(sockets, joined_group.gid)
        try:
            self._check(joined_group)
            self._engine.join_group(joined_group.wire, joined_group.gid, opened.fileno())
        except BaseException:
            opened.close()
            raise
        sockets.groups[joined_group.gid] = opened

    def _check(self, joined_group: JoinedGroup) -> None:
        """Raise OSError if the group's wire has been removed while a socket was being opened."""
        if self._groups.get((joined_group.wire, joined_group.gid)) is not joined_group:
            raise ConnectionAbortedError(errno.ECONNABORTED, "the wire has been removed meanwhile")
