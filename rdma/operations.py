"""All operations of RDMA: one row for each, with every property that depends on the operation.

The engine's predicates, packets, completion codes, names and policy verbs are derived from these
rows: ``hca.contract.operations_header`` writes them for C, ``rdma.packets`` derives the packets.
docs/adr/0116 describes how to add a row.
"""

from dataclasses import dataclass
from enum import Enum, IntEnum, IntFlag
from typing import Final, Self

from rdma.verbs import NONE, Verb


class VerbsDone(IntEnum):
    """The operations that completions report: the values of ibv_wc_opcode that the engine uses."""

    SEND = 0
    RDMA_WRITE = 1
    RDMA_READ = 2
    COMP_SWAP = 3
    FETCH_ADD = 4
    BIND_MW = 5
    LOCAL_INV = 6
    ATOMIC_WRITE = 9
    RECV = 128
    RECV_RDMA_WITH_IMM = 129


class Shape(Enum):
    """How the engine executes an operation. The engine has separate code for each shape."""

    SEND = "into the memory of a receive request"
    WRITE = "into memory that a remote key names"
    READ = "out of memory that a remote key names"
    ATOMIC = "changes eight bytes that a remote key names, and returns what was there"
    ATOMIC_WRITE = "eight bytes of the request, in one piece, to where a remote key names"
    OWN = "on the requester's own keys: no peer takes part"


class Extra(Enum):
    """The 32-bit word that an operation's last packet carries in addition to data."""

    NOTHING = ""
    IMMEDIATE = "immediate data, for the receiver's completion"
    INVALIDATE = "the key that the receiver's engine invalidates"


class Service(IntFlag):
    """Kinds of queue pairs.

    RC, UC and UD are flags. The bit number of each flag equals the top three bits of the opcodes of
    that kind's packets.
    """

    RC = 1 << 0
    UC = 1 << 1
    UD = 1 << 3
    RAW_PACKET = 1 << 8


CONNECTED: Final = Service.RC | Service.UC
NOWHERE: Final = Service(0)


@dataclass(frozen=True, slots=True)
class Codes:
    """Lower five bits of the opcodes of an operation's packets, by the packet's position in its
    message.
    """

    only: int
    first: int | None = None
    middle: int | None = None
    last: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """Properties of an operation.

    ``services`` are the kinds of queue pairs that may request the operation from a peer in the
    same engine. ``over_wire`` are the kinds that may request it over a wire. On a wire, the
    operation's packets have the opcodes in ``codes``. ``by_post_send`` is set if ibv_post_send()
    accepts the operation; otherwise only ibv_wr_* calls accept it. ``send_ops_bit`` is the
    operation's bit in ibv_qp_init_attr_ex.send_ops_flags.
    """

    shape: Shape
    done: VerbsDone
    verbs: Verb
    services: Service
    send_ops_bit: int
    extra: Extra = Extra.NOTHING
    over_wire: Service = NOWHERE
    codes: Codes | None = None
    by_post_send: bool = True


class VerbsOpcode(IntEnum):
    """The operations, as values of ibv_wr_opcode. The field ``row`` has an operation's
    properties.
    """

    row: Row

    def __new__(cls, code: int, row: Row) -> Self:
        """Make an operation from its number in ibv_wr_opcode and its row."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.row = row
        return member

    RDMA_WRITE = (
        0,
        Row(
            Shape.WRITE,
            VerbsDone.RDMA_WRITE,
            Verb.WRITE,
            CONNECTED,
            send_ops_bit=0,
            over_wire=CONNECTED,
            codes=Codes(0x0A, 0x06, 0x07, 0x08),
        ),
    )
    RDMA_WRITE_WITH_IMM = (
        1,
        Row(
            Shape.WRITE,
            VerbsDone.RDMA_WRITE,
            Verb.WRITE_IMM,
            CONNECTED,
            send_ops_bit=1,
            extra=Extra.IMMEDIATE,
            over_wire=CONNECTED,
            codes=Codes(0x0B, 0x06, 0x07, 0x09),
        ),
    )
    SEND = (
        2,
        Row(
            Shape.SEND,
            VerbsDone.SEND,
            Verb.SEND,
            CONNECTED | Service.UD | Service.RAW_PACKET,
            send_ops_bit=2,
            over_wire=CONNECTED | Service.UD,
            codes=Codes(0x04, 0x00, 0x01, 0x02),
        ),
    )
    SEND_WITH_IMM = (
        3,
        Row(
            Shape.SEND,
            VerbsDone.SEND,
            Verb.SEND,
            CONNECTED | Service.UD,
            send_ops_bit=3,
            extra=Extra.IMMEDIATE,
            over_wire=CONNECTED | Service.UD,
            codes=Codes(0x05, 0x00, 0x01, 0x03),
        ),
    )
    RDMA_READ = (
        4,
        Row(
            Shape.READ,
            VerbsDone.RDMA_READ,
            Verb.READ,
            Service.RC,
            send_ops_bit=4,
            over_wire=Service.RC,
            codes=Codes(0x0C),
        ),
    )
    ATOMIC_CMP_AND_SWP = (
        5,
        Row(
            Shape.ATOMIC,
            VerbsDone.COMP_SWAP,
            Verb.ATOMIC_CAS,
            Service.RC,
            send_ops_bit=5,
            over_wire=Service.RC,
            codes=Codes(0x13),
        ),
    )
    ATOMIC_FETCH_AND_ADD = (
        6,
        Row(
            Shape.ATOMIC,
            VerbsDone.FETCH_ADD,
            Verb.ATOMIC_FAA,
            Service.RC,
            send_ops_bit=6,
            over_wire=Service.RC,
            codes=Codes(0x14),
        ),
    )
    LOCAL_INV = (7, Row(Shape.OWN, VerbsDone.LOCAL_INV, NONE, CONNECTED, send_ops_bit=7))
    BIND_MW = (8, Row(Shape.OWN, VerbsDone.BIND_MW, NONE, CONNECTED, send_ops_bit=8))
    SEND_WITH_INV = (
        9,
        Row(
            Shape.SEND,
            VerbsDone.SEND,
            Verb.SEND | Verb.INVALIDATE,
            CONNECTED,
            send_ops_bit=9,
            extra=Extra.INVALIDATE,
            over_wire=Service.RC,
            codes=Codes(0x17, 0x00, 0x01, 0x16),
        ),
    )
    ATOMIC_WRITE = (
        15,
        Row(
            Shape.ATOMIC_WRITE,
            VerbsDone.ATOMIC_WRITE,
            Verb.WRITE,
            Service.RC,
            send_ops_bit=12,
            by_post_send=False,
        ),
    )


def text_of(opcode: VerbsOpcode) -> str:
    """Return the name of an operation, as ibv_wr_opcode_str() does."""
    return opcode.name.lower().replace("_", "-")


def operations_of_shape(*shapes: Shape) -> tuple[VerbsOpcode, ...]:
    """Return the operations that have one of these shapes, in the order of their numbers."""
    return tuple(opcode for opcode in VerbsOpcode if opcode.row.shape in shapes)


def _verbs_of(*shapes: Shape) -> Verb:
    verbs = NONE
    for opcode in operations_of_shape(*shapes):
        verbs |= opcode.row.verbs
    return verbs


# The verbs of each kind of remote access that they need.
WRITES: Final = _verbs_of(Shape.WRITE, Shape.ATOMIC_WRITE)
READS: Final = _verbs_of(Shape.READ)
ATOMICS: Final = _verbs_of(Shape.ATOMIC)
BY_KEY: Final = WRITES | READS | ATOMICS
CHANGES_MEMORY: Final = WRITES | ATOMICS
