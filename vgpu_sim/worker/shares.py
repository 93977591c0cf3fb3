"""Memory shared with other contexts of the slice: its keys, and the workers that open it.

Workers do not trust each other. The worker that opens memory checks that the descriptor is a sealed
memfd of the announced size, so that no access to it can raise SIGBUS.
"""

import ctypes
import errno
import fcntl
import mmap
import os
import select
import socket
import time
from contextlib import suppress
from typing import Final

from vgpu_sim.hal.compute.address_map import CHUNK_ALIGN_BYTES
from vgpu_sim.hal.messages import PROOF_BYTES, ChunkKind, SharedMemory, ShareGrant, SharePurpose
from vgpu_sim.records import dataclass
from vgpu_sim.system.descriptors import send as send_descriptors
from vgpu_sim.worker.channel import Channel, GpudGoneError, receive_now
from vgpu_sim.worker.exports import Exports
from vgpu_sim.worker.peers import Peers

_PATIENCE_S: Final = 10.0
_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


class ShareRefusedError(Exception):
    """The memory cannot be shared: gpud refuses, or the chunk's descriptor was not kept."""


@dataclass(slots=True)
class _Offer:
    memory: SharedMemory
    chunk: int | None  # offset; None: a name without memory


@dataclass(frozen=True, slots=True)
class Leaving:
    """The state of a shared chunk after this context has left it.

    ``last`` is set if no other context holds the chunk, and ``charged`` if this context is still
    charged for it, because gpud has been restarted since it was shared.
    """

    last: bool
    charged: bool


@dataclass(frozen=True, slots=True)
class Opened:
    """Memory that another context shares: gpud's number of its share, its descriptor, and the
    connection to that context's worker if it is a table of events.
    """

    share: int
    descriptor: int
    connection: socket.socket | None = None


class Shares:
    """The keys that this context has given away, and the shares of its chunks."""

    def __init__(self, channel: Channel, exports: Exports, peers: Peers) -> None:
        self._channel = channel
        self._exports = exports
        self._peers = peers
        self._offers: dict[str, _Offer] = {}
        self._shares: dict[int, int] = {}
        """By a chunk's offset: gpud's number of its share."""
        self._imported: set[int] = set()
        self._earlier: set[int] = set()
        """Own chunks that were shared when an earlier gpud ran: their holders are not known."""

    def offer_name(self) -> SharedMemory:
        """Return a new key without memory, which is valid while the context lives.

        Raises:
            ShareRefusedError: gpud refuses.
        """
        return self._offer(SharedMemory(), None, 0)

    def offer(self, chunk: int, size: int, kind: int, begin: int, length: int) -> SharedMemory:
        """Return a new key of a range of a chunk.

        Raises:
            ShareRefusedError: gpud refuses, the chunk's descriptor was not kept, or the chunk is
                another context's, which cannot pass it under our key.
        """
        if chunk in self._imported:
            raise ShareRefusedError("the chunk is another context's")
        if chunk not in self._shares:
            try:
                self._exports.descriptor_of(chunk)
            except KeyError as err:
                raise ShareRefusedError("the chunk's descriptor was not kept") from err
        memory = SharedMemory(offset=begin, bytes=length, kind=kind)
        memory.chunk_units = size // CHUNK_ALIGN_BYTES
        return self._offer(memory, chunk, size)

    def _offer(self, memory: SharedMemory, chunk: int | None, size: int) -> SharedMemory:
        key = os.urandom(PROOF_BYTES)
        memory.key[:] = key
        earlier_share = 0 if chunk is None else self._shares.get(chunk, 0)
        try:
            share = self._channel.offer(key.hex(), earlier_share, size)
            later = 0 if chunk is None else self._shares.get(chunk, 0)
            if not share and later != earlier_share:  # gpud has been restarted meanwhile
                share = self._channel.offer(key.hex(), later, size)
        except GpudGoneError as err:
            raise ShareRefusedError(str(err)) from err
        if not share:
            raise ShareRefusedError("gpud refuses the share")
        if chunk is not None:
            self._shares[chunk] = share
        self._offers[key.hex()] = _Offer(memory, chunk)
        return memory

    def renew(self) -> None:
        """Offer everything again, under the same keys, to a gpud that has been started later."""
        own = {chunk for chunk in self._shares if chunk not in self._imported}
        self._earlier |= own
        for chunk in own:
            del self._shares[chunk]
        for key, offer in list(self._offers.items()):
            earlier_share = 0 if offer.chunk is None else self._shares.get(offer.chunk, 0)
            size = offer.memory.chunk_units * CHUNK_ALIGN_BYTES
            try:
                share = self._channel.offer(key, earlier_share, size)
            except GpudGoneError:
                return  # the next gpud receives the offers again
            if not share:
                del self._offers[key]
            elif offer.chunk is not None:
                self._shares[offer.chunk] = share

    def withdraw(self, memory: SharedMemory) -> None:
        """Make a key invalid; those that have opened the memory keep it."""
        key = bytes(memory.key).hex()
        if self._offers.pop(key, None) is not None:
            self._channel.withdraw(key)

    def grant(self, asker: socket.socket, key: str) -> None:
        """Pass the memory with this key to the worker at the other end of ``asker``."""
        offer = self._offers.get(key)
        passed: tuple[int, ...] = ()
        grant = ShareGrant(errno.ENOENT)
        if offer is not None:
            with suppress(KeyError):
                if offer.chunk is not None:
                    passed = (self._exports.descriptor_of(offer.chunk),)
                grant = ShareGrant(0, 0, offer.memory)
        watched = offer is not None and offer.memory.kind == ChunkKind.HOST and passed
        if watched and self._peers.is_full():
            watched, passed, grant = False, (), ShareGrant(errno.EMFILE)
        with suppress(OSError):
            flags = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
            send_descriptors(asker, [bytes(grant)], passed, flags)
        if watched and offer is not None and offer.chunk is not None:
            self._peers.keep_opener(asker, offer.chunk)
        else:
            asker.close()

    def open(self, memory: SharedMemory) -> Opened | None:
        """Obtain the memory that another context shares; None for a name without memory. The caller
        maps it, and calls ``enter`` or ``abandon``.

        Raises:
            LookupError: no context of the slice shares such memory.
        """
        try:
            share, size, connection = self._channel.open(bytes(memory.key).hex())
        except GpudGoneError as err:
            raise LookupError(str(err)) from err
        if not share or connection is None:
            raise LookupError("no context of the slice shares this memory")
        lasting = memory.purpose == SharePurpose.EVENTS
        try:
            descriptor = self._receive(connection, memory, share, size)
        except LookupError:
            connection.close()
            raise
        if descriptor is None or not lasting:
            connection.close()
        if descriptor is None and memory.chunk_units:
            self._channel.leave(share)
            raise LookupError("the exporter's worker does not pass the memory")
        if descriptor is None:
            self._channel.leave(share)
            return None
        return Opened(share, descriptor, connection if lasting else None)

    def enter(self, chunk: int, opened: Opened, memory: SharedMemory) -> None:
        """Note that opened memory is mapped as the chunk at this offset."""
        self._shares[chunk] = opened.share
        self._imported.add(chunk)
        if opened.connection is not None:
            self._peers.keep_maker(opened.connection, chunk, memory.tag)

    def abandon(self, opened: Opened) -> None:
        """Leave opened memory that is not mapped. The last one that leaves releases the pages."""
        if opened.connection is not None:
            opened.connection.close()
        _, last = self._channel.leave(opened.share)
        if last:
            with suppress(OSError), mmap.mmap(opened.descriptor, 0) as pages:
                pages.madvise(mmap.MADV_REMOVE)
        os.close(opened.descriptor)

    def _receive(
        self, connection: socket.socket, memory: SharedMemory, share: int, size: int
    ) -> int | None:
        """Receive the memory from its worker; meanwhile other workers may open ours."""
        deadline = time.monotonic() + _PATIENCE_S
        poller = select.poll()
        poller.register(connection, select.POLLIN)
        poller.register(self._channel.fileno(), select.POLLIN)
        while self._channel.alive and time.monotonic() < deadline:
            ready = [descriptor for descriptor, _ in poller.poll(100)]
            if connection.fileno() in ready:
                break
            if ready:
                self._channel.read()
        try:
            data, passed = receive_now(connection)
        except OSError:
            return None
        right = False
        if len(data) == ctypes.sizeof(ShareGrant):
            grant = ShareGrant.from_buffer_copy(data)
            right = grant.status == 0 and _agree(grant.memory, memory, size)
        if right and passed and _is_sealed(passed[0], size):
            return passed[0]
        for fd in passed:
            os.close(fd)
        if not right and not memory.chunk_units:
            self._channel.leave(share)
            raise LookupError("no context of the slice has this name")
        return None

    def leave(self, chunk: int) -> Leaving | None:
        """Leave a chunk that is freed; return None if it is not shared."""
        earlier = chunk in self._earlier
        self._earlier.discard(chunk)
        share = self._shares.pop(chunk, None)
        if share is None:  # without a share there are no offers
            self._peers.leave(chunk)
            return Leaving(last=False, charged=True) if earlier else None
        self._peers.leave(chunk)
        exported = [key for key, offer in self._offers.items() if offer.chunk == chunk]
        for key in exported:
            del self._offers[key]
        imported = chunk in self._imported
        self._imported.discard(chunk)
        is_known, last = self._channel.leave(share)
        return Leaving(last and not earlier, charged=not is_known and not imported)

    def leave_all(self) -> None:
        """Leave all shared memory, because the context ends."""
        if self._shares:
            self._channel.leave(0)


def _agree(granted: SharedMemory, requested_memory: SharedMemory, size: int) -> bool:
    fields = ("offset", "bytes", "chunk_units", "kind")
    is_same = all(getattr(granted, name) == getattr(requested_memory, name) for name in fields)
    return is_same and size == requested_memory.chunk_units * CHUNK_ALIGN_BYTES


def _is_sealed(descriptor: int, size: int) -> bool:
    try:
        seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
        return seals & _SEALS == _SEALS and os.fstat(descriptor).st_size >= size
    except OSError:
        return False
