"""The operations of RDMA by the names that policies use, each with one bit.

The requester is the source: when A READs memory of B, this is egress of A and ingress of B.
Acknowledgements and responses belong to the request and have no verb. UD stands for datagrams,
and CM for messages of the connection manager, whatever they contain.
"""

from enum import IntFlag, StrEnum
from typing import Final


class Verb(IntFlag):
    """RDMA operations as the bits of a mask. The engine's masks have the same order of bits."""

    SEND = 1 << 0
    WRITE = 1 << 1
    WRITE_IMM = 1 << 2
    READ = 1 << 3
    ATOMIC_CAS = 1 << 4
    ATOMIC_FAA = 1 << 5
    INVALIDATE = 1 << 6
    UD = 1 << 7
    CM = 1 << 8


class VerbName(StrEnum):
    """An RDMA operation, named as in manifests."""

    SEND = "Send"
    WRITE = "Write"
    WRITE_IMM = "WriteImm"
    READ = "Read"
    ATOMIC_CAS = "AtomicCAS"
    ATOMIC_FAA = "AtomicFAA"
    INVALIDATE = "Invalidate"
    UD = "UD"
    CM = "CM"


NAMES: Final = {name.value: Verb[name.name] for name in VerbName}
ALL: Final = Verb((1 << len(Verb)) - 1)
NONE: Final = Verb(0)
