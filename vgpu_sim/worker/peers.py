"""The workers at the other ends of connections about shared events: when one of them ends, the
table of events says so, and nothing waits for it any longer.

A connection lives as long as the share: the worker that has opened a table keeps its end until it
leaves the table.
"""

import os
import socket
from contextlib import suppress
from typing import Final

from vgpu_sim.records import dataclass
from vgpu_sim.system.descriptors import send as send_descriptors
from vgpu_sim.worker.channel import receive_now
from vgpu_sim.worker.runtime.binding import NativeRuntime

MOST_PEERS: Final = 256
_PARTICIPANT_BYTES: Final = 8


@dataclass(slots=True)
class _Peer:
    """A connection about the table at offset ``chunk``. ``participant`` is 0 until the peer has
    sent its number, and None if the peer has made the table.
    """

    connection: socket.socket
    chunk: int
    participant: int | None


class Peers:
    """The connections of one context. Not thread-safe: only the worker's main thread uses it."""

    def __init__(self, runtime: NativeRuntime) -> None:
        self._runtime = runtime
        self._peers: dict[int, _Peer] = {}

    def descriptors(self) -> set[int]:
        """Return the descriptors that the main loop must poll."""
        return set(self._peers)

    def is_full(self) -> bool:
        return len(self._peers) >= MOST_PEERS

    def keep_opener(self, connection: socket.socket, chunk: int) -> None:
        """Watch a worker that may have opened our table. One that has opened other memory closes
        its end at once.
        """
        self._keep(_Peer(connection, chunk, 0))

    def keep_maker(self, connection: socket.socket, chunk: int, participant: int) -> None:
        """Watch the worker whose table we have opened, after sending it our number."""
        data = participant.to_bytes(_PARTICIPANT_BYTES, "little")
        with suppress(OSError):  # it has ended: the connection says so next
            flags = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
            send_descriptors(connection, [data], (), flags)
        self._keep(_Peer(connection, chunk, None))

    def _keep(self, peer: _Peer) -> None:
        self._peers[peer.connection.fileno()] = peer

    def read(self, descriptor: int) -> None:
        """Read a connection that is ready: the peer has sent its number, or has ended."""
        peer = self._peers[descriptor]
        try:
            data, passed = receive_now(peer.connection)
        except BlockingIOError:
            return
        except OSError:
            data, passed = b"", []
        for fd in passed:
            os.close(fd)
        if peer.participant == 0 and len(data) == _PARTICIPANT_BYTES:
            peer.participant = int.from_bytes(data, "little")
        else:  # the end of the connection, or nothing that a worker sends
            self._end(descriptor)

    def _end(self, descriptor: int) -> None:
        peer = self._peers.pop(descriptor)
        peer.connection.close()
        with suppress(OSError):  # the table has been freed
            if peer.participant is None:
                self._runtime.end_events(peer.chunk)
            elif peer.participant:
                self._runtime.end_participant(peer.chunk, peer.participant)

    def leave(self, chunk: int) -> None:
        """Close the connections about a chunk that is freed."""
        for descriptor, peer in list(self._peers.items()):
            if peer.chunk == chunk:
                peer.connection.close()
                del self._peers[descriptor]
