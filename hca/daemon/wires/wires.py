"""The wires of an hcad; each has policy for its senders, and carries the connection manager's
messages.

A fabric has one wire for its whole life; a node has one for each pod with an open function.
"""

from collections.abc import Sequence

from hca.binding.engine import Engine, EngineWire
from hca.binding.wire_sockets import WireSockets
from hca.daemon.cm.manager import Manager
from hca.daemon.cm.wire import CmWire
from hca.daemon.policy.enforcement import Enforcer
from hca.daemon.policy.sources import Sources
from hca.daemon.wires.groups import Opener, WireGroups, open_here


class Wires:
    """The wires of one engine. hcad's policy and connection manager apply to all of them."""

    def __init__(
        self, engine: Engine, enforcer: Enforcer, manager: Manager, opener: Opener = open_here
    ) -> None:
        """Begin without wires; ``opener`` opens sockets in multicast groups."""
        self._sources = Sources(engine, enforcer)
        self._connections = CmWire(engine, manager, enforcer.pkeys_at)
        self._gids: dict[EngineWire, bytes] = {}
        self.groups = WireGroups(engine, opener)
        """The multicast groups that the wires are in."""

    @property
    def engine_wires(self) -> Sequence[EngineWire]:
        """Return the engine's wires."""
        return self._sources.wires

    def add(self, sockets: WireSockets, path_mtu: int, bytes_per_second: int = 0) -> EngineWire:
        """Add a wire over sockets. Raises OSError.

        The caller must close the sockets after the wire has been removed. ``path_mtu`` is an
        ibv_mtu. If ``bytes_per_second`` is 0, there is no limit. The event loop that is running
        processes the wire's senders and messages.
        """
        wire = self._sources.add_wire(sockets.to_hca_wire(path_mtu, bytes_per_second))
        try:
            self.groups.add_wire(wire, sockets)
            self._connections.add(wire, sockets.address.gid)
        except OSError:
            self.groups.remove_wire(wire)
            self._sources.remove_wire(wire)
            raise
        self._gids[wire] = sockets.address.gid
        return wire

    def remove(self, wire: EngineWire) -> None:
        """Remove a wire and end the connections over the wire."""
        self.groups.remove_wire(wire)
        self._connections.remove(self._gids.pop(wire))
        self._sources.remove_wire(wire)

    def close(self) -> None:
        """Remove every wire and end the connections over them."""
        for wire in tuple(self._gids):
            self.remove(wire)

    def count_sources(self, wire: EngineWire) -> int:
        """Return the number of known senders of datagrams over a wire."""
        return self._sources.count_sources(wire)
