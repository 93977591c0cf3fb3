"""Who sends datagrams over a wire: judged when his first one comes, and again with other tables.

A datagram has no connection that was judged before, and its sender is another node's. The engine
keeps his first datagrams, and says so by a descriptor; what policy lets him send here is then his.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from hca.binding.engine import Engine, EngineAh, EngineWire
from hca.contract.hca_engine import HcaAsked, HcaWire
from hca.daemon.policy.enforcement import Enforcer

MAX_SOURCES: Final = 1024
"""Of a wire. Whoever floods with forged addresses has the oldest asked about again."""


class Sources:
    """The wires of one engine, and who sends datagrams over them."""

    def __init__(self, engine: Engine, enforcer: Enforcer) -> None:
        self._engine = engine
        self._enforcer = enforcer
        self._wires: dict[EngineWire, dict[bytes, EngineAh]] = {}

    @property
    def wires(self) -> Sequence[EngineWire]:
        """The wires that there are."""
        return tuple(self._wires)

    def add_wire(self, wanted: HcaWire) -> EngineWire:
        """Add a wire; who sends over it is judged from now on, by the running loop.

        Raises OSError.
        """
        made = self._engine.add_wire(wanted)
        if not self._wires:
            asyncio.get_running_loop().add_reader(self._engine.asks_fd, self.answer)
        self._wires[made] = {}
        return made

    def remove_wire(self, wire: EngineWire) -> None:
        """End what is connected over a wire, and forget who has sent over it."""
        for source in self._wires.pop(wire).values():
            self._forget(source)
        if not self._wires:
            asyncio.get_running_loop().remove_reader(self._engine.asks_fd)
        self._engine.remove_wire(wire)

    def close(self) -> None:
        """Remove every wire."""
        for wire in tuple(self._wires):
            self.remove_wire(wire)

    def known(self, wire: EngineWire) -> int:
        """Return how many were judged who send datagrams over a wire."""
        return len(self._wires[wire])

    def answer(self) -> None:
        """Judge everybody whose datagrams wait."""
        for asked in self._engine.asked():
            self._judge(asked)

    def _judge(self, asked: HcaAsked) -> None:
        wire, own, gid = EngineWire(asked.wire), bytes(asked.own), bytes(asked.source)
        known = self._wires.get(wire, {})
        parties = self._enforcer.parties.all()
        party = next((one for one in parties if own in one.gids), None)
        if party is None or gid in known:
            self._engine.drop_source(wire, gid)
            return
        while len(known) >= MAX_SOURCES:
            self._forget(known.pop(next(iter(known))))
        source = known[gid] = self._engine.add_source(wire, gid)
        self._enforcer.connect_source(party, source, gid)
        self._engine.take_source(source)

    def _forget(self, source: EngineAh) -> None:
        self._enforcer.forget(source)
        self._engine.remove_source(source)
