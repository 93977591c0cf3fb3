"""Opcodes of the base transport header that verbs come as (IB specification volume 1, 9.2.1).

What packets of a flow look like from outside: for those who see packets and no queue pairs.
"""

from collections.abc import Mapping
from typing import TypeVar

from rdma.verbs import ALL, NONE, Verb

_Where = TypeVar("_Where")

_CONGESTION = frozenset({0x81})  # CNP (annex A17): whoever gets anything may be asked to slow down
_ACKNOWLEDGE = frozenset({0x11})
_MESSAGES = frozenset({0x64, 0x65})  # UD SEND only, without and with immediate data
# First and middle packets of a SEND or WRITE do not tell how it ends.
_REQUESTS = {
    Verb.SEND: frozenset({0x00, 0x01, 0x02, 0x03, 0x04, 0x05}),
    Verb.WRITE: frozenset({0x06, 0x07, 0x08, 0x0A}),
    Verb.WRITE_IMM: frozenset({0x06, 0x07, 0x09, 0x0B}),
    Verb.READ: frozenset({0x0C}),
    Verb.ATOMIC_CAS: frozenset({0x13}),
    Verb.ATOMIC_FAA: frozenset({0x14}),
    Verb.INVALIDATE: frozenset({0x00, 0x01, 0x16, 0x17}),
    Verb.UD: _MESSAGES,
    Verb.CM: _MESSAGES,
}
_UNRELIABLE = Verb.SEND | Verb.WRITE | Verb.WRITE_IMM
_UNRELIABLE_OPCODES = 0x20  # UC's are RC's with these bits
_RESPONSES = {
    Verb.READ: frozenset({0x0D, 0x0E, 0x0F, 0x10}),
    Verb.ATOMIC_CAS: frozenset({0x12}),
    Verb.ATOMIC_FAA: frozenset({0x12}),
}
_RELIABLE = ALL & ~(Verb.UD | Verb.CM)


def allowed(forward: Verb, back: Verb) -> frozenset[int]:
    """Return the opcodes of packets that one side may send to another.

    ``forward``: what it may ask of the other side; ``back``: what that one may ask of it, and so
    has to be answered. Nobody who may neither ask nor be asked sends anything.
    """
    found: set[int] = set()
    for verb, opcodes in _REQUESTS.items():
        if verb in forward:
            found |= opcodes
            if verb in _UNRELIABLE:
                found |= {opcode | _UNRELIABLE_OPCODES for opcode in opcodes}
        if verb in back:
            found |= _RESPONSES.get(verb, frozenset())
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
