"""A queue pair's peer on a wire, simulated by a socket: it sends any packet that a test
specifies.
"""

import contextlib
import socket

from support.oracles import roce
from support.oracles.roce import Packet
from support.wire.wire_rig import End

QPN = 0x123456
"""The number of the peer's queue pair."""


class Peer:
    """The peer, at an address of the loopback interface."""

    def __init__(self, ip: str) -> None:
        self.ip = ip
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((ip, roce.PORT))
        self.socket.settimeout(60)

    def send(self, end: End, packet: Packet) -> None:
        """Send a packet with a correct checksum."""
        self.raw(end, packet.seal(self.ip, end.ip))

    def raw(self, end: End, data: bytes) -> None:
        """Send bytes as they are."""
        self.socket.sendto(data, (end.ip, roce.PORT))

    def drain(self) -> None:
        """Receive and drop all packets so far."""
        self.socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                self.socket.recv(65536)
        self.socket.settimeout(60)

    def receive(self) -> Packet:
        """Wait for the next packet, and return it."""
        data, (ip, port) = self.socket.recvfrom(65536)
        assert data[-4:] == roce.icrc(ip, port, self.ip, data[:-4])
        return Packet.parse(data)
