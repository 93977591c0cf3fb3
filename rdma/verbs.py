"""What policies call the operations of RDMA, as one bit each.

Who requests is the source: READ of B's memory by A is egress of A and ingress of B.
Acknowledgements and responses belong to the request and are no verb. UD and CM stand for datagrams
and for messages of the connection manager, whatever they carry.
"""

from enum import IntFlag, StrEnum
from typing import Final


class Verb(IntFlag):
    """Operations, in the order in which the engine's masks have them."""

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
    """An RDMA operation, by its name in manifests."""

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
