"""What policies call the operations of RDMA, as one bit each.

Who requests is the source: READ of B's memory by A is egress of A and ingress of B.
Acknowledgements and responses belong to the request and are no verb. UD and CM stand for datagrams
and for messages of the connection manager, whatever they carry.
"""

from enum import IntFlag


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


NAMES = {
    "Send": Verb.SEND,
    "Write": Verb.WRITE,
    "WriteImm": Verb.WRITE_IMM,
    "Read": Verb.READ,
    "AtomicCAS": Verb.ATOMIC_CAS,
    "AtomicFAA": Verb.ATOMIC_FAA,
    "Invalidate": Verb.INVALIDATE,
    "UD": Verb.UD,
    "CM": Verb.CM,
}
ALL = Verb(0x1FF)
NONE = Verb(0)
