"""Send and receive the connection manager's messages on wires: management datagrams of queue pair
1.

The messages follow InfiniBand Architecture Specification volume 1, 12.6; annex A17 puts them
into RoCEv2 packets like other datagrams. Incoming messages may be hostile: any bytes, from any
address, at any rate.
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
"""Most MADs that hcad reads from one wire before it does other work.

MADs that do not fit into the pipe are lost.
"""
TRANSACTIONS: Final = 4096
_RECORD: Final = sizeof(HcaMad)
_LOG_LINES_PER_MINUTE: Final = 30
_DEFAULT_PKEY: Final = 0xFFFF


class Mads(Protocol):
    """The engine's methods that send and receive MADs."""

    def set_mad_pipe(self, wire: EngineWire, descriptor: int) -> None:
        """Set the pipe for a wire's management datagrams; see ``Engine.set_mad_pipe``."""

    def send_mad(self, wire: EngineWire, gid: bytes, mad: bytes, pkey: int) -> None:
        """Send a management datagram over a wire; see ``Engine.send_mad``."""


class CmWire:
    """The wires over which an hcad's connection manager sends."""

    def __init__(
        self,
        engine: Mads,
        manager: Manager,
        pkeys: Callable[[str], tuple[int, ...]] = lambda address: (_DEFAULT_PKEY,),
    ) -> None:
        """Send and receive the messages of ``manager`` to and from functions outside this hcad.

        ``pkeys`` returns the P_Key table of an address; connections use its first key.
        """
        self._pkeys = pkeys
        self._engine = engine
        self._manager = manager
        self._wires: dict[bytes, tuple[EngineWire, int]] = {}
        """The wire and the reading end of the pipe with its incoming MADs, keyed by the own GID."""
        self._own = secrets.randbits(32) << 32
        self._theirs: OrderedDict[tuple[bytes, bytes, int], int] = OrderedDict()
        """Transaction numbers of received messages, keyed by both GIDs and the sender's number."""
        self._quota = LogQuota(_LOG_LINES_PER_MINUTE)
        manager.wire = self.send
        manager.reaches = self.reaches

    def add(self, wire: EngineWire, gid: bytes) -> None:
        """Send and receive the connection manager's messages over a wire with this GID. Raises
        OSError.
        """
        reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            self._engine.set_mad_pipe(wire, writing)
        except OSError:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        self._wires[gid] = wire, reading
        asyncio.get_running_loop().add_reader(reading, self._read, gid, reading)

    def remove(self, gid: bytes) -> None:
        """Stop using the wire with a GID; the caller removes the wire afterwards."""
        if gid not in self._wires:
            return
        _, reading = self._wires.pop(gid)
        asyncio.get_running_loop().remove_reader(reading)
        os.close(reading)
        self._manager.abandon(gid)

    def reaches(self, source: bytes, destination: bytes) -> bool:
        """Return whether the GID ``source`` has a wire for the address family of ``destination``.

        The result can be true even if no function has the address ``destination``.
        """
        same_family = private_data.is_mapped(source) == private_data.is_mapped(destination)
        return source in self._wires and same_family

    def send(self, source: bytes, destination: bytes, message: Message) -> None:
        """Send a message over the wire of ``source``.

        Without such a wire or a free buffer the message is lost, like any packet.
        """
        wire_record = self._wires.get(source)
        if wire_record is None:
            return
        mad = mad_codec.encode(message, self._transaction(source, destination, message))
        try:
            pkey = self._pkeys(private_data.address_text(source))[0]
            self._engine.send_mad(wire_record[0], destination, mad, pkey)
        except OSError as err:
            if self._quota.take():
                peer = private_data.address_text(destination)
                logger.info("mad_not_sent to=%s reason=%r", peer, err.strerror)

    def _read(self, gid: bytes, reading: int) -> None:
        for _ in range(MADS_AT_ONCE):
            try:
                raw = os.read(reading, _RECORD)
            except BlockingIOError:
                return
            if len(raw) != _RECORD:  # the engine has closed its end
                asyncio.get_running_loop().remove_reader(reading)
                return
            self._receive(gid, HcaMad.from_buffer_copy(raw))

    def _receive(self, gid: bytes, mad: HcaMad) -> None:
        source = bytes(mad.source)
        if self._manager.function_at(source) is not None:
            return  # forged: local functions send nothing over a wire
        if not any(_match(mad.pkey, own) for own in self._pkeys(private_data.address_text(gid))):
            return  # of another partition
        try:
            message, transaction = mad_codec.decode(bytes(mad.data))
        except MalformedMad as err:
            if self._quota.take():
                logger.info(
                    "mad_dropped from=%s reason=%r", private_data.address_text(source), str(err)
                )
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
        """Return the transaction number for a message: if it is an answer, the number of the peer's
        message.

        Otherwise the number is a new one of this hcad (12.6).
        """
        if isinstance(message, Req):
            return self._own | message.local_id
        if isinstance(message, SidrReq):
            return self._own | message.request
        number = message.request if isinstance(message, SidrRep) else message.remote_id
        local = number if isinstance(message, SidrRep) else message.local_id
        return self._theirs.get((own, peer, number), self._own | local)


def _match(pkey: int, own_pkey: int) -> bool:
    """Return whether two P_Keys belong to one partition, at least one of them with full
    membership.
    """
    return (pkey ^ own_pkey) & 0x7FFF == 0 and (pkey | own_pkey) & 0x8000 != 0
