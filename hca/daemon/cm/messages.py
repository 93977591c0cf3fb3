"""Messages of the connection manager as values.

They follow InfiniBand Architecture Specification volume 1, chapter 12. ``mad_codec`` encodes
them for the wire; here numbers are in host byte order, and GIDs are 16 bytes.
"""

from dataclasses import field
from enum import IntEnum

from vgpu_sim.records import dataclass


class Reason(IntEnum):
    """The reason codes of REJ messages that hcad sends or evaluates."""

    NO_RESOURCES = 3
    TIMEOUT = 4
    UNSUPPORTED = 5
    INVALID_COMM_ID = 6
    INVALID_SERVICE_ID = 8
    STALE_CONNECTION = 10
    INVALID_PATH_MTU = 26
    CONSUMER_DEFINED = 28


class Rejected(IntEnum):
    """The kind of message to which a REJ or an MRA refers."""

    REQ = 0
    REP = 1
    OTHER = 2


class SidrStatus(IntEnum):
    """The values of a SIDR_REP's status that hcad uses."""

    VALID = 0
    UNSUPPORTED = 1
    REJECTED = 2
    NO_QP = 3


@dataclass(frozen=True, slots=True)
class Path:
    """The primary path of a connection, as a REQ describes it."""

    source: bytes
    destination: bytes
    traffic_class: int = 0
    hop_limit: int = 64
    flow_label: int = 0
    service_level: int = 0
    ack_timeout: int = 18  # 4.096 us * 2^18: about a second


@dataclass(frozen=True, slots=True)
class Req:
    """A REQ: the request for a connection to a service."""

    local_id: int
    service: int
    path: Path
    qpn: int
    psn: int
    guid: bytes = bytes(8)
    responder_resources: int = 0
    initiator_depth: int = 0
    retry_count: int = 7
    rnr_retry_count: int = 7
    flow_control: int = 0
    srq: int = 0
    transport: int = 0
    """The transport service; 0 stands for a reliable connection."""
    mtu: int = 5
    pkey: int = 0xFFFF
    response_timeout: int = 20
    max_retries: int = 15
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Mra:
    """An MRA: a notice that a message was received, and that its answer will take some time.

    The answer takes up to 4.096 us * 2^``service_timeout``.
    """

    local_id: int
    remote_id: int
    about: int
    service_timeout: int = 24


@dataclass(frozen=True, slots=True)
class Rej:
    """A REJ: the rejection of a request or of an answer."""

    local_id: int
    remote_id: int
    about: int
    reason: int
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Rep:
    """The responder's acceptance of a connection; the fields describe the responder's side."""

    local_id: int
    remote_id: int
    qpn: int
    psn: int
    guid: bytes = bytes(8)
    responder_resources: int = 0
    initiator_depth: int = 0
    rnr_retry_count: int = 7
    flow_control: int = 0
    srq: int = 0
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Rtu:
    """The confirmation of a REP: the requester is ready to use the connection."""

    local_id: int
    remote_id: int
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Dreq:
    """A request to end the connection; ``qpn`` is the receiver's queue pair."""

    local_id: int
    remote_id: int
    qpn: int
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Drep:
    """The answer to a DREQ: the confirmation that the connection has ended."""

    local_id: int
    remote_id: int
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class SidrReq:
    """A query for the datagram queue pair that serves ``service``."""

    request: int
    service: int
    pkey: int = 0xFFFF
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class SidrRep:
    """The answer to a SidrReq: the queue pair of the service, or a status.

    The status states why there is no such queue pair.
    """

    request: int
    status: int
    qpn: int = 0
    service: int = 0
    qkey: int = 0
    data: bytes = field(default=b"")


Message = Req | Mra | Rej | Rep | Rtu | Dreq | Drep | SidrReq | SidrRep
MOST_DATA: dict[type, int] = {
    Req: 92,
    Rej: 148,
    Rep: 196,
    Rtu: 224,
    Dreq: 220,
    Drep: 224,
    SidrReq: 216,
    SidrRep: 136,
}
"""Maximum bytes of private data, by message type."""


def timeout_to_seconds(code: int) -> float:
    """Return the seconds that a 5-bit timeout of the specification stands for: 4.096 us *
    2^code.
    """
    return 4.096e-6 * (1 << min(max(code, 0), 31))
