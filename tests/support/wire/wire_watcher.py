"""A peer, simulated by a socket, that sees how packets are marked and can send marked ones."""

import socket

from support.oracles import roce
from support.oracles.roce import Packet
from support.wire import wire_rig
from support.wire.wire_rig import End

CNP = 0x81
ECT_0, MARKED = 2, 3


class Watcher:
    """A socket as a peer that reads the traffic class of received packets."""

    def __init__(self) -> None:
        self.ip = wire_rig.fresh_address()
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self.socket.bind((self.ip, roce.PORT))
        self.socket.settimeout(60)

    def receive(self) -> tuple[int, bytes]:
        """Return the next packet's TOS and bytes."""
        data, control, _, (ip, port) = self.socket.recvmsg(65536, 64)
        assert data[-4:] == roce.icrc(ip, port, self.ip, data[:-4])
        (tos,) = (value[0] for _, kind, value in control if kind == socket.IP_TOS)
        return tos, data

    def send(self, end: End, data: bytes, tos: int = 0) -> None:
        """Send a packet, given without its checksum, with this TOS."""
        self.socket.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
        sealed = data + roce.icrc(self.ip, roce.PORT, end.ip, data)
        self.socket.sendto(sealed, (end.ip, roce.PORT))


def notification(qpn: int, **changes: object) -> bytes:
    """Return a CNP in the form of IBTA annex A17: BECN, 16 bytes of zeros."""
    data = bytearray(Packet(CNP, qpn, 0, payload=bytes(16), ack=False).encode())
    data[4] = 0x40
    for place, value in changes.items():
        data[int(place[1:])] = value  # type: ignore[call-overload]
    return bytes(data)
