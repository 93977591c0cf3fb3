"""List the opcodes of the packets of each verb (base transport header, IB specification 1, 9.2.1).

They serve the second layer's rules, which see single packets but not the state of queue pairs.
"""

from collections.abc import Mapping
from typing import Final, TypeVar

from rdma import packets
from rdma.operations import Service, VerbsOpcode
from rdma.packets import ANSWERS, PACKETS, Kind
from rdma.verbs import ALL, NONE, Verb

_Where = TypeVar("_Where")

_CONGESTION: Final = frozenset({0x81})  # CNP (annex A17): slows a sender down
_ACKNOWLEDGE: Final = frozenset(packet.code for packet in PACKETS if packet.kind is Kind.ACK)
_RELIABLE: Final = ALL & ~(Verb.UD | Verb.CM)
_TRANSPORTS: Final = ((Service.RC, 0x00), (Service.UC, 0x20))
_DATAGRAM: Final = 0x60


def _last_of(verbs: Verb) -> Verb:
    """Return the verb that distinguishes an operation's packets from others: the last of its
    verbs.
    """
    return Verb(1 << verbs.bit_length() - 1)


def _requests() -> dict[Verb, frozenset[int]]:
    opcodes_by_verb: dict[Verb, frozenset[int]] = {verb: frozenset() for verb in Verb}
    for operation in VerbsOpcode:
        for packet in packets.request_packets(operation):
            connected = {
                bits | packet.code for service, bits in _TRANSPORTS if service in packet.services
            }
            opcodes_by_verb[_last_of(operation.row.verbs)] |= connected
            if Service.UD in packet.services:
                opcodes_by_verb[Verb.UD] |= {_DATAGRAM | packet.code}
    return {**opcodes_by_verb, Verb.CM: opcodes_by_verb[Verb.UD]}


def _responses() -> dict[Verb, frozenset[int]]:
    opcodes_by_verb: dict[Verb, frozenset[int]] = {verb: frozenset() for verb in Verb}
    for operation in VerbsOpcode:
        if operation.row.codes is not None:
            answers = {packet.code for packet in ANSWERS[operation.row.shape]}
            opcodes_by_verb[_last_of(operation.row.verbs)] |= answers - _ACKNOWLEDGE
    return opcodes_by_verb


_REQUESTS: Final = _requests()
_RESPONSES: Final = _responses()


def allowed_opcodes(forward: Verb, back: Verb) -> frozenset[int]:
    """Return the opcodes of packets that one side may send to another.

    ``forward`` are the verbs that this side may request of the other side. ``back`` are the verbs
    that the other side may request of this side, to which this side replies. If both are empty, no
    packet may pass.
    """
    allowed_codes: set[int] = set()
    for verb, opcodes in _REQUESTS.items():
        if verb in forward:
            allowed_codes |= opcodes
        if verb in back:
            allowed_codes |= _RESPONSES[verb]
    if back & _RELIABLE:
        allowed_codes |= _ACKNOWLEDGE
    if forward or back:
        allowed_codes |= _CONGESTION
    return frozenset(allowed_codes)


def allowed_opcodes_by_place(
    forward: Mapping[Verb, _Where], back: Verb, anywhere: _Where
) -> dict[_Where, frozenset[int]]:
    """Return the opcodes that one side may send, by the receiving queue pairs of the other side.

    ``forward`` maps each verb that this side may request to the queue pairs that accept the
    verb. ``back`` is the set of verbs that the other side may request. Some packets request no
    verb, such as replies to requests of the other side. They may be sent to the queue pairs in
    ``anywhere``. An opcode listed for ``anywhere`` is not listed again for other queue pairs.
    """
    codes_by_place = {anywhere: allowed_opcodes(NONE, back)}
    if forward:
        codes_by_place[anywhere] |= _CONGESTION
    for verb, where in forward.items():
        codes_by_place[where] = codes_by_place.get(where, frozenset()) | allowed_opcodes(verb, NONE)
    passing = {
        where: codes if where == anywhere else codes - codes_by_place[anywhere]
        for where, codes in codes_by_place.items()
    }
    return {where: codes for where, codes in passing.items() if codes}
