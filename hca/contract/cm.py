"""The connection manager's ABI: control messages between librdmacm and hcad, and events.

librdmacm has its own connection to hcad's socket, with messages framed as in
``hca/contract/hca.py``. hcad sends events through one pipe per event channel, each as one
``CmEvent``, so that a program can wait for the descriptor and read the event whole. Numbers are
those of ``<rdma/rdma_cma.h>``; ``tests/abi/verbs/test_rdmacm_layouts.py`` compares them.
"""

import ctypes
from ctypes import c_int32, c_uint8, c_uint16, c_uint32
from enum import IntEnum
from typing import Final

from hca.contract.hca import HcaQpAttributes

CM_MAX_CHANNELS: Final = 1024  # per client
CM_MAX_IDS: Final = 4096
CM_MAX_BACKLOG: Final = 1024  # unanswered requests of a listener
CM_MAX_DATA: Final = 224  # private data, of any message
CM_UDP_QKEY: Final = 0x01234567  # RDMA_UDP_QKEY


class CmMessage(IntEnum):
    """Types of the connection manager's messages. Request types are even; a reply's type is its
    request's plus one.
    """

    OPEN = 200  # HcaHello -> HcaDevice: first message of a connection
    CHANNEL_CREATE = 202  # -> HcaHandle + fd: the read end of the event pipe
    CHANNEL_DESTROY = 204  # HcaHandle ->
    ID_CREATE = 206  # CmIdCreate -> HcaHandle
    ID_DESTROY = 208  # HcaHandle ->
    BIND = 210  # CmBind -> CmRoute
    LISTEN = 212  # CmPair: id, backlog -> CmRoute
    RESOLVE_ADDRESS = 214  # CmBind, both addresses ->, then ADDR_RESOLVED or ADDR_ERROR
    RESOLVE_ROUTE = 216  # HcaHandle ->, then ROUTE_RESOLVED
    CONNECT = 218  # CmConnect ->
    ACCEPT = 220  # CmConnect ->
    ESTABLISH = 222  # HcaHandle ->: the reply was accepted (RTU)
    REJECT = 224  # CmReject ->
    DISCONNECT = 226  # HcaHandle ->
    MIGRATE = 228  # CmPair: id, channel ->
    NOTIFY = 230  # HcaHandle ->: data arrived before the RTU
    JOIN = 232  # CmBind: id, the group as destination ->, then MULTICAST_JOIN


class CmEventType(IntEnum):
    """Types of events, with the numbers of rdma_cm_event_type."""

    ADDR_RESOLVED = 0
    ADDR_ERROR = 1
    ROUTE_RESOLVED = 2
    ROUTE_ERROR = 3
    CONNECT_REQUEST = 4
    CONNECT_RESPONSE = 5
    CONNECT_ERROR = 6
    UNREACHABLE = 7
    REJECTED = 8
    ESTABLISHED = 9
    DISCONNECTED = 10
    DEVICE_REMOVAL = 11
    MULTICAST_JOIN = 12
    MULTICAST_ERROR = 13
    ADDR_CHANGE = 14
    TIMEWAIT_EXIT = 15


class CmPortSpace(IntEnum):
    """Port spaces, with the numbers of rdma_port_space."""

    IPOIB = 0x0002
    TCP = 0x0106
    UDP = 0x0111
    IB = 0x013F


class CmAddress(ctypes.Structure):
    """A port in host byte order, with an IPv6 address or an IPv4 address mapped into IPv6."""

    _fields_ = (("address", c_uint8 * 16), ("port", c_uint16), ("reserved", c_uint16 * 3))


class CmIdCreate(ctypes.Structure):
    """Request for a new communication id. Events of the id go to the event channel ``channel``."""

    _fields_ = (("channel", c_uint32), ("port_space", c_uint32))


class CmPair(ctypes.Structure):
    """A request that has only an id and one number, such as a backlog or a channel's handle."""

    _fields_ = (("handle", c_uint32), ("value", c_uint32))


class CmBind(ctypes.Structure):
    """A request with the source and destination of an id; an address of zeros is a wildcard.

    ``reuse`` is RDMA_OPTION_ID_REUSEADDR.
    """

    _fields_ = (
        ("handle", c_uint32),
        ("reuse", c_uint32),
        ("source", CmAddress),
        ("destination", CmAddress),
    )


class CmRoute(ctypes.Structure):
    """The current addresses of a communication id.

    ``has_device`` is set if the id is bound to the client's HCA function.
    """

    _fields_ = (
        ("source", CmAddress),
        ("destination", CmAddress),
        ("has_device", c_uint32),
        ("reserved", c_uint32),
    )


class CmConnect(ctypes.Structure):
    """Parameters of a connection: those of rdma_conn_param, and options of the id."""

    _fields_ = (
        ("handle", c_uint32),
        ("qpn", c_uint32),
        ("qkey", c_uint32),
        ("responder_resources", c_uint8),
        ("initiator_depth", c_uint8),
        ("flow_control", c_uint8),
        ("retry_count", c_uint8),
        ("rnr_retry_count", c_uint8),
        ("srq", c_uint8),
        ("traffic_class", c_uint8),
        ("ack_timeout", c_uint8),  # 0: the default
        ("data_bytes", c_uint32),
        ("data", c_uint8 * CM_MAX_DATA),
    )


class CmReject(ctypes.Structure):
    """Request that rejects a connection request."""

    _fields_ = (("handle", c_uint32), ("data_bytes", c_uint32), ("data", c_uint8 * CM_MAX_DATA))


class CmEvent(ctypes.Structure):
    """An event of an id. For CONNECT_REQUEST, ``listener`` is the listening id.

    ``status`` is 0, a negative errno value, or the reason of a rejection. ``path`` has the
    attributes to set on the queue pair. If ``path.state`` is INIT, the event has no such
    attributes.
    """

    _fields_ = (
        ("type", c_uint32),
        ("status", c_int32),
        ("handle", c_uint32),
        ("listener", c_uint32),
        ("route", CmRoute),
        ("path", HcaQpAttributes),
        ("qpn", c_uint32),
        ("qkey", c_uint32),
        ("port_space", c_uint32),
        ("responder_resources", c_uint8),
        ("initiator_depth", c_uint8),
        ("flow_control", c_uint8),
        ("retry_count", c_uint8),
        ("rnr_retry_count", c_uint8),
        ("srq", c_uint8),
        ("data_bytes", c_uint8),
        ("reserved", c_uint8),
        ("data", c_uint8 * CM_MAX_DATA),
    )


STRUCTURES: Final = (
    CmAddress,
    CmIdCreate,
    CmPair,
    CmBind,
    CmRoute,
    CmConnect,
    CmReject,
    CmEvent,
)
ENUMS: Final = (CmMessage, CmEventType, CmPortSpace)
