"""Derive the packets of the wire from the operations: their opcodes, kinds and headers.

The opcodes follow InfiniBand specification volume 1, 9.2.1 (base transport header). Each
operation has its request packets. The responder answers with the packets in ``ANSWERS``: READs
and atomics with their data, all other requests with an acknowledgement.
"""

from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Final

from rdma.operations import Extra, Service, Shape, VerbsOpcode


class Kind(IntEnum):
    """The kinds of packets, each handled by one part of the engine."""

    NOTHING = 0
    SEND = 1
    WRITE = 2
    READ = 3
    READ_RESPONSE = 4
    ACK = 5
    ATOMIC_ACK = 6
    ATOMIC = 7


class Part(IntFlag):
    """A packet's position in its message, and its headers after the base transport header."""

    FIRST = 1 << 0
    LAST = 1 << 1
    RETH = 1 << 2
    AETH = 1 << 3
    IMMEDIATE = 1 << 4
    INVALIDATE = 1 << 5
    ATOMIC_ETH = 1 << 6
    ATOMIC_RESULT = 1 << 7
    PAYLOAD = 1 << 8


ONLY: Final = Part.FIRST | Part.LAST


@dataclass(frozen=True, slots=True)
class Packet:
    """A packet's opcode and the properties that follow from the opcode.

    ``code`` is the opcode's lower five bits; ``operation`` is None for an answer.
    """

    name: str
    code: int
    kind: Kind
    parts: Part
    services: Service
    operation: VerbsOpcode | None = None


_KINDS: Final = {
    Shape.SEND: Kind.SEND,
    Shape.WRITE: Kind.WRITE,
    Shape.READ: Kind.READ,
    Shape.ATOMIC: Kind.ATOMIC,
}
_EXTRAS: Final = {
    Extra.NOTHING: Part(0),
    Extra.IMMEDIATE: Part.IMMEDIATE,
    Extra.INVALIDATE: Part.INVALIDATE,
}
_DATA: Final = {
    Shape.SEND: (Part.PAYLOAD, Part(0)),
    Shape.WRITE: (Part.PAYLOAD, Part.RETH),
    Shape.READ: (Part(0), Part.RETH),
    Shape.ATOMIC: (Part(0), Part.ATOMIC_ETH),
}
"""For each shape, the parts that every packet has, and the further parts of a message's first
packet.
"""

_ACK: Final = Packet("ACKNOWLEDGE", 0x11, Kind.ACK, ONLY | Part.AETH, Service.RC)
_ATOMIC_ACK: Final = Packet(
    "ATOMIC_ACKNOWLEDGE",
    0x12,
    Kind.ATOMIC_ACK,
    ONLY | Part.AETH | Part.ATOMIC_RESULT,
    Service.RC,
)
_READ_RESPONSES: Final = tuple(
    Packet(f"READ_RESPONSE_{place}", code, Kind.READ_RESPONSE, parts | Part.PAYLOAD, Service.RC)
    for place, code, parts in (
        ("FIRST", 0x0D, Part.FIRST | Part.AETH),
        ("MIDDLE", 0x0E, Part(0)),
        ("LAST", 0x0F, Part.LAST | Part.AETH),
        ("ONLY", 0x10, ONLY | Part.AETH),
    )
)
ANSWERS: Final = {
    Shape.SEND: (_ACK,),
    Shape.WRITE: (_ACK,),
    Shape.READ: (*_READ_RESPONSES, _ACK),
    Shape.ATOMIC: (_ATOMIC_ACK, _ACK),
}
"""The packets with which an RC responder answers a request, by the request's shape."""


def request_packets(operation: VerbsOpcode) -> tuple[Packet, ...]:
    """Return the request packets of an operation.

    A short message has only one packet. A longer message has a first packet, middle packets and
    a last packet. A datagram is always one packet.

    Only the last packet of a message contains the additional word (``Extra``). Two operations
    that differ only in this word have the same first and middle packets. ``PACKETS`` lists these
    packets under the operation without the word.
    """
    row = operation.row
    if row.codes is None:
        return ()
    always, at_first = _DATA[row.shape]
    extra = _EXTRAS[row.extra]
    parts = {
        "ONLY": (row.codes.only, ONLY | at_first | extra),
        "FIRST": (row.codes.first, Part.FIRST | at_first),
        "MIDDLE": (row.codes.middle, Part(0)),
        "LAST": (row.codes.last, Part.LAST | extra),
    }
    return tuple(
        Packet(
            f"{operation.name}_{place}",
            code,
            _KINDS[row.shape],
            always | place_parts,
            row.over_wire if place == "ONLY" else row.over_wire & ~Service.UD,
            operation,
        )
        for place, (code, place_parts) in parts.items()
        if code is not None
    )


def _packets() -> tuple[Packet, ...]:
    packets_by_code: dict[int, Packet] = {}
    plain_first = sorted(
        VerbsOpcode, key=lambda operation: operation.row.extra is not Extra.NOTHING
    )
    for operation in plain_first:
        for packet in request_packets(operation):
            packets_by_code.setdefault(packet.code, packet)
    for answers in ANSWERS.values():
        for packet in answers:
            packets_by_code[packet.code] = packet
    return tuple(packets_by_code[code] for code in sorted(packets_by_code))


PACKETS: Final = _packets()
