"""RoCEv2 packets in Python, written from the specification, independently of the engine's code."""

import ipaddress
import struct
import zlib
from dataclasses import dataclass, replace
from typing import Self

PORT = 4791
SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_LAST_IMM, SEND_ONLY, SEND_ONLY_IMM = range(6)
WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_LAST_IMM, WRITE_ONLY, WRITE_ONLY_IMM = range(6, 12)
READ_REQUEST, RESPONSE_FIRST, RESPONSE_MIDDLE, RESPONSE_LAST, RESPONSE_ONLY = range(12, 17)
ACKNOWLEDGE, ATOMIC_ACKNOWLEDGE, COMPARE_SWAP, FETCH_ADD = range(17, 21)
SEND_LAST_INV, SEND_ONLY_INV = 22, 23
UC, UD = 1 << 5, 3 << 5
PSNS = 1 << 24
RNR, NAK = 0x20, 0x60


def icrc(source: str, sport: int, destination: str, data: bytes, identification: int = 0) -> bytes:
    """Return the checksum of a packet from ``source`` to PORT of ``destination``."""
    udp = struct.pack("!HHHH", sport, PORT, 8 + len(data) + 4, 0xFFFF)
    first, second = ipaddress.ip_address(source), ipaddress.ip_address(destination)
    if first.version == 4:
        ip = struct.pack(
            "!BBHHHBBH4s4s",
            *(0x45, 0xFF, 20 + len(udp) + len(data) + 4, identification, 0x4000, 0xFF, 17, 0xFFFF),
            *(first.packed, second.packed),
        )
    else:
        length = len(udp) + len(data) + 4
        ip = struct.pack("!IHBB16s16s", 0x6FFFFFFF, length, 17, 0xFF, first.packed, second.packed)
    masked = data[:4] + b"\xff" + data[5:]
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + ip + udp + masked))


@dataclass(frozen=True)
class Packet:
    """A packet: BTH, further headers, and the payload."""

    opcode: int
    qpn: int
    psn: int
    headers: bytes = b""
    payload: bytes = b""
    ack: bool = True
    pkey: int = 0xFFFF
    solicited: bool = False

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Parse a received packet; its checksum is not checked."""
        opcode, flags, pkey, qpn, psn = struct.unpack_from("!BBHII", data)
        size = 12 + header_bytes(opcode)
        end = len(data) - 4 - (flags >> 4 & 3)
        assert not any(data[end:-4]), "what fills a packet up is zero"
        return cls(
            *(opcode, qpn & 0xFFFFFF, psn & 0xFFFFFF, data[12:size], data[size:end]),
            *(bool(psn >> 31), pkey, bool(flags >> 7)),
        )

    def encode(self) -> bytes:
        """Return the packet from BTH on, padded, without a checksum."""
        padding = -len(self.payload) % 4
        bth = struct.pack(
            "!BBHII",
            *(self.opcode, self.solicited << 7 | 0x40 | padding << 4, self.pkey),
            *(self.qpn, self.ack << 31 | self.psn),
        )
        return bth + self.headers + self.payload + bytes(padding)

    def seal(self, source: str, destination: str, sport: int = PORT) -> bytes:
        """Return the packet with its checksum."""
        data = self.encode()
        return data + icrc(source, sport, destination, data)

    def but(self, **changes: object) -> "Packet":
        """Return a copy with other fields."""
        return replace(self, **changes)  # type: ignore[arg-type]

    @property
    def syndrome(self) -> int:
        """Return the first byte of an AETH."""
        return self.headers[0]


def header_bytes(opcode: int) -> int:
    """Return the number of bytes between BTH and payload."""
    transport, opcode = opcode >> 5 << 5, opcode & 31
    immediate = opcode in (SEND_LAST_IMM, SEND_ONLY_IMM, WRITE_LAST_IMM, WRITE_ONLY_IMM)
    invalidate = opcode in (SEND_LAST_INV, SEND_ONLY_INV)
    reth = opcode in (WRITE_FIRST, WRITE_ONLY, WRITE_ONLY_IMM, READ_REQUEST)
    aeth = opcode in (RESPONSE_FIRST, RESPONSE_LAST, RESPONSE_ONLY, ACKNOWLEDGE, ATOMIC_ACKNOWLEDGE)
    words = immediate + invalidate + 4 * reth + aeth + 2 * (opcode == ATOMIC_ACKNOWLEDGE)
    return 4 * (words + 7 * (opcode in (COMPARE_SWAP, FETCH_ADD)) + 2 * (transport == UD))


def reth(address: int, key: int, size: int) -> bytes:
    """Return an RDMA extended transport header."""
    return struct.pack("!QII", address, key, size)


def atomic_eth(address: int, key: int, swap_or_add: int, compare: int = 0) -> bytes:
    """Return an atomic's extended transport header."""
    return struct.pack("!QIQQ", address, key, swap_or_add, compare)


def deth(qkey: int, source_qpn: int) -> bytes:
    """Return a datagram's extended transport header."""
    return struct.pack("!II", qkey, source_qpn)


def aeth(syndrome: int, msn: int = 0) -> bytes:
    """Return an acknowledgement's header."""
    return struct.pack("!I", syndrome << 24 | msn)
