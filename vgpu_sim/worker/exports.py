"""Chunks exported to an HCA: GPUDirect RDMA (contract: ``vgpu_sim.hal.direct``)."""

import ctypes
import errno
import hmac
import os
import select
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import field
from typing import Final

from vgpu_sim.hal.direct import DirectGrant
from vgpu_sim.hal.messages import (
    PROOF_BYTES,
    RANGE_ALIGN_BYTES,
    SHARED_RANGE_MAGIC,
    SharedRange,
)
from vgpu_sim.records import dataclass
from vgpu_sim.system.descriptors import send as send_descriptors
from vgpu_sim.worker.memory import create_constant

_MOST_KEPT: Final = 512  # descriptors that are kept; chunks beyond this number cannot be exported
_FAREWELL_S: Final = 1.0
_SIGNED_BYTES: Final = ctypes.sizeof(SharedRange) - PROOF_BYTES


@dataclass(slots=True)
class _Kept:
    size: int
    descriptor: int
    serial: int
    shown: list[socket.socket] = field(default_factory=list)


class Exports:
    """The descriptors of the live chunks and, for each chunk, the connections of the HCA clients
    that received its descriptor.
    """

    def __init__(self) -> None:
        self._kept: dict[int, _Kept] = {}
        self._serials = 0
        self._key = os.urandom(PROOF_BYTES)
        """This context's secret key, with which it authenticates the ranges that it has shared.
        Other contexts cannot create a range that it accepts.
        """

    def keep(self, offset: int, size: int, descriptor: int) -> None:
        """Keep a duplicate of a chunk's descriptor, so that the chunk can be exported. Nothing is
        kept if the maximum number of descriptors has been reached, or if the descriptor cannot
        be duplicated.
        """
        if len(self._kept) >= _MOST_KEPT:
            return
        with suppress(OSError):
            self._serials += 1
            self._kept[offset] = _Kept(size, os.dup(descriptor), self._serials)

    def export_range(self, asker: socket.socket, offset: int, size: int) -> None:
        """Answer a request that arrived on the connection ``asker`` for a range of memory.
        ``offset`` is relative to the aperture's base.
        """
        try:
            begin, chunk = self._chunk_of(offset, size)
        except KeyError:
            _answer(asker, DirectGrant(errno.ENOENT), ())
            return
        grant = DirectGrant(0, 0, offset - begin, chunk.size)
        chunk.shown = [receiver for receiver in chunk.shown if not _has_gone(receiver)]
        if _answer(asker, grant, (chunk.descriptor,)):
            chunk.shown.append(asker)

    def descriptor_of(self, offset: int) -> int:
        """Return the descriptor of the chunk that begins at ``offset``. It remains this object's.

        Raises:
            KeyError: the chunk's descriptor was not kept.
        """
        return self._kept[offset].descriptor

    def _chunk_of(self, offset: int, size: int) -> tuple[int, _Kept]:
        for begin, chunk in self._kept.items():
            if begin <= offset and offset + size <= begin + chunk.size:
                return begin, chunk
        raise KeyError("no chunk contains this range")

    def share(self, offset: int, size: int) -> int:
        """Return a descriptor that names a range of memory for as long as the range's chunk lives;
        see ``SharedRange``.

        The descriptor is a sealed memfd of the same length as the range. It has a single page,
        which is charged to the worker's cgroup.

        Raises:
            KeyError: no chunk contains the whole range, or the range does not consist of whole
                pages.
            OSError: there is no memory left.
        """
        if offset % RANGE_ALIGN_BYTES or size % RANGE_ALIGN_BYTES or not size:
            raise KeyError("the range does not consist of whole pages")
        _, chunk = self._chunk_of(offset, size)
        named = SharedRange(SHARED_RANGE_MAGIC, chunk.serial, offset, size)
        named.proof[:] = self._proof(bytes(named))
        return create_constant("tessera-range", bytes(named), size)

    def export_shared_range(
        self, asker: socket.socket, data: bytes, offset: int, size: int
    ) -> None:
        """Answer a request for a part of a range that ``share`` has named. ``data`` is the content
        of the descriptor that ``share`` returned. The part begins ``offset`` bytes after the
        start of the range.
        """
        named = SharedRange.from_buffer_copy(data)
        if self._vouches(named) and offset + size <= named.bytes:
            self.export_range(asker, named.offset + offset, size)
        else:
            _answer(asker, DirectGrant(errno.ENOENT), ())

    def _vouches(self, named: SharedRange) -> bool:
        if not hmac.compare_digest(bytes(named.proof), self._proof(bytes(named))):
            return False
        try:
            _, chunk = self._chunk_of(named.offset, named.bytes)
        except KeyError:
            return False
        return chunk.serial == int(named.serial)

    def _proof(self, named: bytes) -> bytes:
        return hmac.digest(self._key, named[:_SIGNED_BYTES], "sha256")

    def revoke(self, offset: int) -> None:
        """Revoke the exports of a chunk, and wait a moment for the receivers to unmap it.

        If a receiver does not unmap the chunk, its later writes go to pages that no longer
        belong to the device. These pages are then charged to the receiver.
        """
        chunk = self._kept.pop(offset, None)
        if chunk is not None:
            _end([chunk])

    def revoke_all(self) -> None:
        """Revoke the exports of all chunks, as ``revoke`` does. The context ends."""
        chunks = list(self._kept.values())
        self._kept.clear()
        _end(chunks)


def _end(chunks: Sequence[_Kept]) -> None:
    """End the access of all receivers, and wait a second for all of them together."""
    connections = [connection for chunk in chunks for connection in chunk.shown]
    for connection in connections:
        with suppress(OSError):
            connection.shutdown(socket.SHUT_WR)
    deadline = time.monotonic() + _FAREWELL_S
    for connection in connections:
        _has_gone(connection, max(0.0, deadline - time.monotonic()))
        connection.close()
    for chunk in chunks:
        os.close(chunk.descriptor)


def _has_gone(asker: socket.socket, wait_s: float = 0) -> bool:
    poller = select.poll()
    poller.register(asker, select.POLLRDHUP)
    return bool(poller.poll(1000 * wait_s))


def _answer(asker: socket.socket, grant: DirectGrant, descriptors: tuple[int, ...]) -> bool:
    """Send an answer without waiting for a slow reader; return whether it was sent."""
    try:
        flags = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
        send_descriptors(asker, [bytes(grant)], descriptors, flags)
    except OSError:
        return False
    return True
