"""The wires of an hcad: each with who judges the datagrams that come over it, and its messages.

A fabric has one for as long as it lasts; a node has one for each pod with an open function.
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
    """Wires of one engine, under one hcad's policy and for its connection manager."""

    def __init__(
        self, engine: Engine, enforcer: Enforcer, manager: Manager, opener: Opener = open_here
    ) -> None:
        """``opener`` opens sockets in multicast groups."""
        self._sources = Sources(engine, enforcer)
        self._connections = CmWire(engine, manager, enforcer.pkeys_at)
        self._gids: dict[EngineWire, bytes] = {}
        self.groups = WireGroups(engine, opener)
        """Which multicast groups they are in."""

    @property
    def made(self) -> Sequence[EngineWire]:
        """The engine's wires that there are."""
        return self._sources.wires

    def add(self, sockets: WireSockets, path_mtu: int, bytes_per_second: int = 0) -> EngineWire:
        """Add a wire over sockets, which stay the caller's. Raises OSError.

        ``path_mtu`` is verbs'; ``bytes_per_second`` 0: no limit. The running loop hears what comes.
        """
        made = self._sources.add_wire(sockets.structure(path_mtu, bytes_per_second))
        try:
            self.groups.add_wire(made, sockets)
            self._connections.add(made, sockets.address.gid)
        except OSError:
            self.groups.remove_wire(made)
            self._sources.remove_wire(made)
            raise
        self._gids[made] = sockets.address.gid
        return made

    def remove(self, wire: EngineWire) -> None:
        """End what is connected over a wire."""
        self.groups.remove_wire(wire)
        self._connections.remove(self._gids.pop(wire))
        self._sources.remove_wire(wire)

    def close(self) -> None:
        """Remove every wire."""
        for wire in tuple(self._gids):
            self.remove(wire)

    def known(self, wire: EngineWire) -> int:
        """Return how many were judged who send datagrams over a wire."""
        return self._sources.known(wire)
