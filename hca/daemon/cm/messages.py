"""Messages of the connection manager as values: what two of them say to each other.

InfiniBand Architecture Specification volume 1, chapter 12. How they look on the wire is
``mad_codec``'s; numbers are in host order, GIDs are 16 bytes.
"""

from dataclasses import dataclass, field
from enum import IntEnum


class Reason(IntEnum):
    """Why a request is rejected, as far as it is used here."""

    NO_RESOURCES = 3
    TIMEOUT = 4
    UNSUPPORTED = 5
    INVALID_COMM_ID = 6
    INVALID_SERVICE_ID = 8
    STALE_CONNECTION = 10
    INVALID_PATH_MTU = 26
    CONSUMER_DEFINED = 28


class Rejected(IntEnum):
    """Which message a REJ or an MRA is about."""

    REQ = 0
    REP = 1
    OTHER = 2


class SidrStatus(IntEnum):
    """What a SIDR_REP says, as far as it is used here."""

    VALID = 0
    UNSUPPORTED = 1
    REJECTED = 2
    NO_QP = 3


@dataclass(frozen=True, slots=True)
class Path:
    """The primary path of a REQ."""

    source: bytes
    destination: bytes
    traffic_class: int = 0
    hop_limit: int = 64
    flow_label: int = 0
    service_level: int = 0
    ack_timeout: int = 18  # 4.096 us * 2^18: about a second


@dataclass(frozen=True, slots=True)
class Req:
    """A request for a connection with whoever serves ``service``."""

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
    """0: a reliable connection."""
    mtu: int = 5
    pkey: int = 0xFFFF
    response_timeout: int = 20
    max_retries: int = 15
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Mra:
    """A message was received; the answer will take up to 4.096 us * 2^``service_timeout``."""

    local_id: int
    remote_id: int
    about: int
    service_timeout: int = 24


@dataclass(frozen=True, slots=True)
class Rej:
    """No."""

    local_id: int
    remote_id: int
    about: int
    reason: int
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Rep:
    """Yes, and what the responder offers."""

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
    """The requester is ready."""

    local_id: int
    remote_id: int
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Dreq:
    """A request to end the connection; ``qpn`` is the receiver's."""

    local_id: int
    remote_id: int
    qpn: int
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Drep:
    """It has ended."""

    local_id: int
    remote_id: int
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class SidrReq:
    """Which queue pair of datagrams serves ``service``?"""

    request: int
    service: int
    pkey: int = 0xFFFF
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class SidrRep:
    """That one, or none."""

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
"""Bytes of private data that a message has room for."""


def seconds(code: int) -> float:
    """Return what the specification's timeouts of five bits mean: 4.096 us * 2^code."""
    return 4.096e-6 * (1 << min(max(code, 0), 31))
