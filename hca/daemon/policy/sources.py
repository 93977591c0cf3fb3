"""Evaluate policy for remote senders of datagrams, at a sender's first datagram to a function.

A datagram belongs to no connection that was evaluated before, and its sender is on another node.
The engine keeps a new sender's first datagrams waiting and signals an eventfd; hcad then sets
the verdict for the sender, and evaluates policy for the sender again whenever the tables change.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from hca.binding.engine import Engine, EngineAh, EngineWire
from hca.contract.hca_engine import HcaPendingSource, HcaWire
from hca.daemon.policy.enforcement import Enforcer

MAX_SOURCES: Final = 1024
"""Most known senders of one wire.

A flood of forged addresses displaces the oldest senders; policy is evaluated for them again when
they send.
"""


class Sources:
    """The wires of one engine, and the remote senders of datagrams over each wire."""

    def __init__(self, engine: Engine, enforcer: Enforcer) -> None:
        self._engine = engine
        self._enforcer = enforcer
        self._wires: dict[EngineWire, dict[bytes, EngineAh]] = {}

    @property
    def wires(self) -> Sequence[EngineWire]:
        """Return the wires of the engine."""
        return tuple(self._wires)

    def add_wire(self, hca_wire: HcaWire) -> EngineWire:
        """Add a wire; the running event loop evaluates policy for the wire's senders from now on.

        Raises OSError.
        """
        wire = self._engine.add_wire(hca_wire)
        if not self._wires:
            asyncio.get_running_loop().add_reader(
                self._engine.pending_sources_fd, self.evaluate_pending
            )
        self._wires[wire] = {}
        return wire

    def remove_wire(self, wire: EngineWire) -> None:
        """Remove a wire and forget its senders; the connections over the wire end."""
        for source in self._wires.pop(wire).values():
            self._forget(source)
        if not self._wires:
            asyncio.get_running_loop().remove_reader(self._engine.pending_sources_fd)
        self._engine.remove_wire(wire)

    def close(self) -> None:
        """Remove every wire and forget all senders."""
        for wire in tuple(self._wires):
            self.remove_wire(wire)

    def count_sources(self, wire: EngineWire) -> int:
        """Return the number of a wire's senders for which policy has been evaluated."""
        return len(self._wires[wire])

    def evaluate_pending(self) -> None:
        """Evaluate policy for every sender whose datagrams the engine keeps waiting."""
        for pending in self._engine.pending_sources():
            self._evaluate(pending)

    def _evaluate(self, pending: HcaPendingSource) -> None:
        wire, own, gid = EngineWire(pending.wire), bytes(pending.own), bytes(pending.source)
        known_sources = self._wires.get(wire, {})
        parties = self._enforcer.parties.all()
        party = next((candidate for candidate in parties if own in candidate.gids), None)
        if party is None or gid in known_sources:
            self._engine.drop_source(wire, gid)
            return
        while len(known_sources) >= MAX_SOURCES:
            self._forget(known_sources.pop(next(iter(known_sources))))
        source = known_sources[gid] = self._engine.add_source(wire, gid)
        self._enforcer.authorize_source(party, source, gid)
        self._engine.process_source(source)

    def _forget(self, source: EngineAh) -> None:
        self._enforcer.forget(source)
        self._engine.remove_source(source)
