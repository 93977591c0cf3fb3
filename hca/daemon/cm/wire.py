"""The connection manager's messages on wires: management datagrams of queue pair 1.

InfiniBand Architecture Specification volume 1, 12.6 and 13.4; annex A17 puts them into RoCEv2
packets like any datagram. What comes is hostile: it may be anything, from anywhere, at any rate.
"""

import asyncio
import logging
import os
import secrets
from collections import OrderedDict
from collections.abc import Callable
from ctypes import sizeof
from typing import Final, Protocol

from hca.binding.engine import EngineWire
from hca.contract.hca_engine import HcaMad
from hca.daemon.cm import mad_codec, private_data
from hca.daemon.cm.mad_codec import MalformedMad
from hca.daemon.cm.manager import Manager
from hca.daemon.cm.messages import Message, Req, SidrRep, SidrReq
from vgpu_sim.system.pacing import LogQuota

logger = logging.getLogger("tessera.hcad")

MADS_AT_ONCE: Final = 16
"""Of one wire; then others have their turn. What the pipe has no room for meanwhile is lost."""
TRANSACTIONS: Final = 4096
_RECORD: Final = sizeof(HcaMad)
_LOG_LINES_PER_MINUTE: Final = 30
_DEFAULT_PKEY: Final = 0xFFFF


class Mads(Protocol):
    """An engine, as far as it is needed here."""

    def receive_mads(self, wire: EngineWire, descriptor: int) -> None:
        """See ``Engine``."""

    def send_mad(self, wire: EngineWire, gid: bytes, mad: bytes, pkey: int) -> None:
        """See ``Engine``."""


class CmWire:
    """The wires of an hcad, as its connection manager has them."""

    def __init__(
        self,
        engine: Mads,
        manager: Manager,
        pkeys: Callable[[str], tuple[int, ...]] = lambda address: (_DEFAULT_PKEY,),
    ) -> None:
        """Carry the messages of ``manager`` to whoever is not in this hcad.

        ``pkeys`` is the table of who has an address: its first is what connections use.
        """
        self._pkeys = pkeys
        self._engine = engine
        self._manager = manager
        self._wires: dict[bytes, tuple[EngineWire, int]] = {}
        """By the GID that is its own: the wire, and the pipe of what comes."""
        self._own = secrets.randbits(32) << 32
        self._theirs: OrderedDict[tuple[bytes, bytes, int], int] = OrderedDict()
        """Transactions of messages that were received, by both GIDs and the sender's number."""
        self._quota = LogQuota(_LOG_LINES_PER_MINUTE)
        manager.wire = self.send
        manager.reaches = self.reaches

    def add(self, wire: EngineWire, gid: bytes) -> None:
        """Use a wire of this address. Raises OSError."""
        reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            self._engine.receive_mads(wire, writing)
        except OSError:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        self._wires[gid] = wire, reading
        asyncio.get_running_loop().add_reader(reading, self._read, gid, reading)

    def remove(self, gid: bytes) -> None:
        """Use a wire no more; it is still there."""
        if gid not in self._wires:
            return
        _, reading = self._wires.pop(gid)
        asyncio.get_running_loop().remove_reader(reading)
        os.close(reading)
        self._manager.abandon(gid)

    def reaches(self, source: bytes, destination: bytes) -> bool:
        """Tell whether there is a way from one GID to another's node, if that has a node."""
        same_family = private_data.is_mapped(source) == private_data.is_mapped(destination)
        return source in self._wires and same_family

    def send(self, source: bytes, destination: bytes, message: Message) -> None:
        """Send a message; where there is no way, or no room, it is lost like any packet."""
        found = self._wires.get(source)
        if found is None:
            return
        mad = mad_codec.encode(message, self._transaction(source, destination, message))
        try:
            pkey = self._pkeys(private_data.text(source))[0]
            self._engine.send_mad(found[0], destination, mad, pkey)
        except OSError as err:
            if self._quota.take():
                peer = private_data.text(destination)
                logger.info("mad_not_sent to=%s reason=%r", peer, err.strerror)

    def _read(self, gid: bytes, reading: int) -> None:
        for _ in range(MADS_AT_ONCE):
            try:
                raw = os.read(reading, _RECORD)
            except BlockingIOError:
                return
            if len(raw) != _RECORD:  # the engine's end was closed
                asyncio.get_running_loop().remove_reader(reading)
                return
            self._receive(gid, HcaMad.from_buffer_copy(raw))

    def _receive(self, gid: bytes, mad: HcaMad) -> None:
        source = bytes(mad.source)
        if self._manager.function_at(source) is not None:
            return  # forged: whoever is here says nothing over a wire
        if not any(_match(mad.pkey, own) for own in self._pkeys(private_data.text(gid))):
            return  # of another partition
        try:
            message, transaction = mad_codec.decode(bytes(mad.data))
        except MalformedMad as err:
            if self._quota.take():
                logger.info("mad_dropped from=%s reason=%r", private_data.text(source), str(err))
            return
        if isinstance(message, SidrReq):
            self._remember(gid, source, message.request, transaction)
        elif not isinstance(message, SidrRep):
            self._remember(gid, source, message.local_id, transaction)
        self._manager.receive(source, gid, message)

    def _remember(self, own: bytes, peer: bytes, number: int, transaction: int) -> None:
        self._theirs[own, peer, number] = transaction
        self._theirs.move_to_end((own, peer, number))
        if len(self._theirs) > TRANSACTIONS:
            self._theirs.popitem(last=False)

    def _transaction(self, own: bytes, peer: bytes, message: Message) -> int:
        """Return the number of what a message belongs to: the peer's, where it answers (12.6)."""
        if isinstance(message, Req):
            return self._own | message.local_id
        if isinstance(message, SidrReq):
            return self._own | message.request
        number = message.request if isinstance(message, SidrRep) else message.remote_id
        local = number if isinstance(message, SidrRep) else message.local_id
        return self._theirs.get((own, peer, number), self._own | local)


def _match(one: int, other: int) -> bool:
    """Tell whether two P_Keys are of one partition, and not both of limited members."""
    return (one ^ other) & 0x7FFF == 0 and (one | other) & 0x8000 != 0
