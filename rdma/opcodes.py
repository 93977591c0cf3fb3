"""Opcodes of the base transport header that verbs come as (IB specification volume 1, 9.2.1).

What packets of a flow look like from outside: for those who see packets and no queue pairs.
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
    """Return the verb that sets an operation's packets apart from others."""
    return Verb(1 << verbs.bit_length() - 1)


def _requests() -> dict[Verb, frozenset[int]]:
    found: dict[Verb, frozenset[int]] = {verb: frozenset() for verb in Verb}
    for operation in VerbsOpcode:
        for packet in packets.requests(operation):
            connected = {bits | packet.code for one, bits in _TRANSPORTS if one in packet.services}
            found[_last_of(operation.row.verbs)] |= connected
            if Service.UD in packet.services:
                found[Verb.UD] |= {_DATAGRAM | packet.code}
    return {**found, Verb.CM: found[Verb.UD]}


def _responses() -> dict[Verb, frozenset[int]]:
    found: dict[Verb, frozenset[int]] = {verb: frozenset() for verb in Verb}
    for operation in VerbsOpcode:
        if operation.row.codes is not None:
            answers = {packet.code for packet in ANSWERS[operation.row.shape]}
            found[_last_of(operation.row.verbs)] |= answers - _ACKNOWLEDGE
    return found


_REQUESTS: Final = _requests()
_RESPONSES: Final = _responses()


def allowed(forward: Verb, back: Verb) -> frozenset[int]:
    """Return the opcodes of packets that one side may send to another.

    ``forward``: what it may ask of the other side; ``back``: what that one may ask of it, and so
    has to be answered. Nobody who may neither ask nor be asked sends anything.
    """
    found: set[int] = set()
    for verb, opcodes in _REQUESTS.items():
        if verb in forward:
            found |= opcodes
        if verb in back:
            found |= _RESPONSES[verb]
    if back & _RELIABLE:
        found |= _ACKNOWLEDGE
    if forward or back:
        found |= _CONGESTION
    return frozenset(found)


def allowed_where(
    forward: Mapping[Verb, _Where], back: Verb, anywhere: _Where
) -> dict[_Where, frozenset[int]]:
    """Return the same by where packets go: requests where ``forward`` says, all others anywhere."""
    found = {anywhere: allowed(NONE, back)}
    if forward:
        found[anywhere] |= _CONGESTION
    for verb, where in forward.items():
        found[where] = found.get(where, frozenset()) | allowed(verb, NONE)
    passing = {
        where: codes if where == anywhere else codes - found[anywhere]
        for where, codes in found.items()
    }
    return {where: codes for where, codes in passing.items() if codes}
