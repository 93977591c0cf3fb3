"""The virtual HCA's ABI: control messages between libibverbs and hcad, and rings in shared memory.

Messages begin with ``messages.Header`` on a SOCK_SEQPACKET socket; a reply's ``status`` is an
errno value, 0 for success. Rings are in memfds that hcad creates, sizes and seals: a client's
page, a page for each queue pair, one for each completion queue. Head and tail counters run
freely and are taken modulo the ring's size, a power of two. hcad keeps its own counters and only
publishes them: a client that overwrites them harms only itself. Numbers of verbs (opcodes,
states, masks, statuses) are those of ``<infiniband/verbs.h>``.
"""

import ctypes
from ctypes import c_char, c_uint8, c_uint16, c_uint32, c_uint64
from enum import IntEnum, IntFlag
from typing import Final

from vgpu_sim.hal import messages

HCA_VERSION: Final = 2
HCA_MAX_QPS: Final = 1024  # per client
HCA_MAX_CQS: Final = 2048  # rdma_create_qp makes two for each queue pair, each with a channel
HCA_MAX_MRS: Final = 4096
HCA_MAX_SEGMENTS: Final = 4096
HCA_MAX_PDS: Final = 1024
HCA_MAX_CHANNELS: Final = 2048
HCA_MAX_SRQS: Final = 256
HCA_MAX_AHS: Final = 16384
HCA_MAX_MWS: Final = 4096
HCA_MAX_MCAST_ATTACH: Final = 64
HCA_PKEYS: Final = 16
HCA_GRH_BYTES: Final = 40
HCA_MAX_DATAGRAM_BYTES: Final = 4096  # the port's MTU
HCA_MULTICAST_QPN: Final = 0xFFFFFF
HCA_MAX_WR: Final = 16384
HCA_MAX_CQE: Final = 65536
HCA_MAX_SGE: Final = 16
HCA_MAX_INLINE_BYTES: Final = 256
HCA_MAX_PIECES: Final = 128
HCA_MAX_MESSAGE_BYTES: Final = 1 << 30
HCA_MAX_MR_BYTES: Final = 1 << 40
HCA_MAX_RD_ATOMIC: Final = 16
HCA_MAX_MTU: Final = 5  # IBV_MTU_4096
HCA_GIDS: Final = 2
HCA_PAGE_BYTES: Final = 4096
HCA_GUID_BYTES: Final = 8
HCA_QPN_MASK: Final = 0xFFFFFF
HCA_MAX_BATCH: Final = 8
# replaces a handle in a batch: the object that the batch's message N has created
HCA_BATCH_MADE: Final = 1 << 31
# not a flag of verbs, used by hcad only: all memory of the region is on a GPU
HCA_ACCESS_DEVICE: Final = 1 << 31


class HcaMessage(IntEnum):
    """Types of the HCA's control messages. Request types are even; a reply's type is its request's
    plus one.
    """

    JOIN = 100  # HcaHello -> HcaDevice: a member of the fabric, until it disconnects
    OPEN = 102  # HcaHello -> HcaDevice + fds: the client's page, the doorbell's write end
    ASYNC = 104  # -> fd: the read end of the pipe of asynchronous events
    PD_CREATE = 106  # -> HcaHandle
    PD_DESTROY = 108  # HcaHandle ->
    CHANNEL_CREATE = 110  # -> HcaHandle + fd: the read end of the pipe of completion events
    CHANNEL_DESTROY = 112  # HcaHandle ->
    CQ_CREATE = 114  # HcaCqCreate -> HcaCreated + fd: its page
    CQ_DESTROY = 116  # HcaHandle ->
    SEGMENT_CREATE = 118  # HcaSegmentCreate -> HcaHandle + fd: the memory
    SEGMENT_DESTROY = 120  # HcaHandle ->
    MR_CREATE = 122  # HcaMrCreate -> HcaHandle: lkey and rkey
    MR_DESTROY = 124  # HcaHandle ->
    QP_CREATE = 126  # HcaQpCreate -> HcaCreated + fd: its page
    QP_MODIFY = 128  # HcaQpModify -> HcaQpAttributes
    QP_QUERY = 130  # HcaHandle -> HcaQpAttributes
    QP_DESTROY = 132  # HcaHandle ->
    CQ_RESIZE = 160  # HcaCqResize -> HcaCreated + fd: its new page
    SRQ_CREATE = 162  # HcaSrqCreate -> HcaCreated + fd: its page
    SRQ_MODIFY = 164  # HcaSrqModify ->
    SRQ_QUERY = 166  # HcaHandle -> HcaSrqModify
    SRQ_DESTROY = 168  # HcaHandle ->
    AH_CREATE = 170  # HcaAhCreate -> HcaHandle
    AH_DESTROY = 172  # HcaHandle ->
    MW_CREATE = 174  # HcaMwCreate -> HcaHandle: its key, whose lowest 8 bits its owner chooses
    MW_DESTROY = 176  # HcaHandle ->
    MCAST_ATTACH = 178  # HcaMcast ->
    MCAST_DETACH = 180  # HcaMcast ->
    SEGMENT_DEVICE = 182  # HcaSegmentDevice -> HcaDeviceSegment: GPU memory, while it exists
    STEER_CREATE = 184  # HcaSteerCreate -> HcaHandle: frames for raw packet queue pairs
    STEER_DESTROY = 186  # HcaHandle ->
    BATCH = 190  # several messages in sequence -> their replies: requires BATCHES
    SEGMENT_SHARED = 188  # HcaSegmentShared -> HcaDeviceSegment: requires SHARED_RANGES


class HcaFeature(IntFlag):
    """Optional features of an hcad, as bits of ``HcaDevice.features``.

    The protocol version does not determine which of them an hcad has. A library must also work
    with an hcad that lacks a feature, because hcad and libraries are updated independently.
    """

    SHARED_RANGES = 1
    BATCHES = 2


class HcaHello(ctypes.Structure):
    """First message of a connection; the token identifies the owner of the HCA function."""

    _fields_ = (
        ("version", c_uint32),
        ("reserved", c_uint32),
        ("token", c_uint8 * messages.TOKEN_BYTES),
    )


class HcaDevice(ctypes.Structure):
    """A function of the HCA, as described to its client."""

    _fields_ = (
        ("name", c_char * 64),
        ("firmware", c_char * 64),
        ("board", c_char * 64),
        ("sysfs", c_char * 256),
        ("width", c_uint32),
        ("speed", c_uint32),
        ("guid", c_uint8 * HCA_GUID_BYTES),
        ("gids", (c_uint8 * 16) * HCA_GIDS),
        ("mtu", c_uint32),
        ("features", c_uint32),
        ("pkeys", c_uint16 * HCA_PKEYS),
    )


class HcaHandle(ctypes.Structure):
    """Reference to one object of the client, by the object's handle."""

    _fields_ = (("handle", c_uint32), ("reserved", c_uint32))


class HcaCreated(ctypes.Structure):
    """The reply to a request that creates an object with a page, or gives an object a new page.

    ``first_count`` is the number of completions or send requests for which the page has room.
    ``second_count`` is the number of receive requests. The numbers may be larger than requested.
    For a queue pair, ``handle`` is the queue pair's number, and ``index`` is the position of its
    bit in the client's page.
    """

    _fields_ = (
        ("handle", c_uint32),
        ("index", c_uint32),
        ("page_bytes", c_uint64),
        ("first_count", c_uint32),
        ("second_count", c_uint32),
    )


class HcaCqCreate(ctypes.Structure):
    """Request for a completion queue. If ``channel`` is 0, the queue has no completion channel."""

    _fields_ = (("entries", c_uint32), ("channel", c_uint32))


class HcaSegmentCreate(ctypes.Structure):
    """Request for a segment of memory, in which the client then registers regions. The segment's
    size is a multiple of the page size.
    """

    _fields_ = (("bytes", c_uint64),)


class HcaPiece(ctypes.Structure):
    """One contiguous part of a memory region."""

    _fields_ = (
        ("segment", c_uint32),
        ("reserved", c_uint32),
        ("offset", c_uint64),
        ("bytes", c_uint64),
    )


class HcaMrCreate(ctypes.Structure):
    """Request for a memory region. The region is the concatenation of ``pieces``, and its first
    address is ``iova``.

    ``access`` has verbs' access flags. ``replaced`` is 0, or the key of an existing region that the
    new region replaces; the new region then takes over that key.
    """

    _fields_ = (
        ("pd", c_uint32),
        ("access", c_uint32),
        ("iova", c_uint64),
        ("bytes", c_uint64),
        ("piece_count", c_uint32),
        ("replaced", c_uint32),
        ("pieces", HcaPiece * HCA_MAX_PIECES),
    )


class HcaQpCreate(ctypes.Structure):
    """Request for a queue pair. ``type`` is verbs' ibv_qp_type.

    If ``srq`` is 0, the queue pair has no shared receive queue. If ``block_self`` is set, the
    queue pair does not receive its own datagrams to multicast groups.
    """

    _fields_ = (
        ("pd", c_uint32),
        ("send_cq", c_uint32),
        ("recv_cq", c_uint32),
        ("type", c_uint32),
        ("send_wr", c_uint32),
        ("recv_wr", c_uint32),
        ("signal_all", c_uint32),
        ("srq", c_uint32),
        ("block_self", c_uint32),
        ("reserved", c_uint32),
    )


class HcaQpAttributes(ctypes.Structure):
    """The attributes of a queue pair that ibv_modify_qp sets and ibv_query_qp returns."""

    _fields_ = (
        ("state", c_uint32),
        ("path_mtu", c_uint32),
        ("rq_psn", c_uint32),
        ("sq_psn", c_uint32),
        ("dest_qpn", c_uint32),
        ("access", c_uint32),
        ("flow_label", c_uint32),
        ("pkey_index", c_uint16),
        ("dlid", c_uint16),
        ("dgid", c_uint8 * 16),
        ("sgid_index", c_uint8),
        ("hop_limit", c_uint8),
        ("traffic_class", c_uint8),
        ("service_level", c_uint8),
        ("is_global", c_uint8),
        ("port", c_uint8),
        ("max_rd_atomic", c_uint8),
        ("max_dest_rd_atomic", c_uint8),
        ("min_rnr_timer", c_uint8),
        ("timeout", c_uint8),
        ("retry_count", c_uint8),
        ("rnr_retry", c_uint8),
        ("av_port", c_uint8),
        ("sqd_notify", c_uint8),
        ("sq_draining", c_uint8),
        ("reserved", c_uint8),
        ("qkey", c_uint32),
    )


class HcaQpModify(ctypes.Structure):
    """Request to change a queue pair's attributes.

    ``mask`` is verbs' ibv_qp_attr_mask; hcad reads only the attributes that the mask names.
    """

    _fields_ = (
        ("handle", c_uint32),
        ("mask", c_uint32),
        ("attributes", HcaQpAttributes),
    )


class HcaClientPage(ctypes.Structure):
    """The page that a client shares with the engine.

    ``sleeping`` is set while the engine sleeps until the client rings the doorbell. ``dirty`` has
    one bit for each queue pair; the bit is set if the queue pair has new requests. ``armed`` is set
    if the client has armed a completion queue that still has unpolled entries.
    """

    _fields_ = (
        ("sleeping", c_uint32),
        ("armed", c_uint32),
        ("reserved", c_uint32 * 14),
        ("dirty", c_uint64 * (HCA_MAX_QPS // 64)),
        ("dirty_srqs", c_uint64 * (HCA_MAX_SRQS // 64)),
    )


class HcaSge(ctypes.Structure):
    """An element of a scatter-gather list, with the fields of verbs' ibv_sge."""

    _fields_ = (("address", c_uint64), ("bytes", c_uint32), ("lkey", c_uint32))


class HcaPayload(ctypes.Union):
    """A send request's data: a scatter-gather list, or the inline data."""

    _fields_ = (("sges", HcaSge * HCA_MAX_SGE), ("data", c_uint8 * HCA_MAX_INLINE_BYTES))


class HcaSendSlot(ctypes.Structure):
    """A send request, with the opcode and flags of verbs.

    ``inline_bytes`` is valid if IBV_SEND_INLINE is set. ``immediate`` is the immediate data, or the
    key that the request invalidates. In a datagram, ``remote_key`` is the Q_Key. In an atomic
    write, ``compare_add`` is the value to write.

    If the request binds a memory window, ``remote_key`` is the window's key, and ``immediate``
    is the window's new key. ``remote_address`` is the window's address, ``compare_add`` its size
    in bytes, and ``swap`` its access flags. The first scatter-gather element has the region's
    key.
    """

    _fields_ = (
        ("id", c_uint64),
        ("remote_address", c_uint64),
        ("remote_key", c_uint32),
        ("immediate", c_uint32),
        ("opcode", c_uint32),
        ("flags", c_uint32),
        ("sge_count", c_uint32),
        ("inline_bytes", c_uint32),
        ("compare_add", c_uint64),
        ("swap", c_uint64),
        ("address_handle", c_uint32),
        ("remote_qpn", c_uint32),
        ("payload", HcaPayload),
    )


class HcaRecvSlot(ctypes.Structure):
    """A receive request of a queue pair or a shared receive queue."""

    _fields_ = (
        ("id", c_uint64),
        ("sge_count", c_uint32),
        ("reserved", c_uint32),
        ("sges", HcaSge * HCA_MAX_SGE),
    )


class HcaQpPage(ctypes.Structure):
    """Beginning of a queue pair's memory; send slots follow, then receive slots.

    The client writes the heads, and hcad writes the tails. hcad has taken every request that is
    before the tail.
    """

    _fields_ = (
        ("send_head", c_uint32),
        ("recv_head", c_uint32),
        ("reserved", c_uint32 * 14),
        ("send_tail", c_uint32),
        ("recv_tail", c_uint32),
        ("reserved2", c_uint32 * 14),
    )


class HcaCqe(ctypes.Structure):
    """A completion, with the status, opcode and flags of verbs.

    ``timestamp`` is in ns of CLOCK_MONOTONIC.
    """

    _fields_ = (
        ("id", c_uint64),
        ("status", c_uint32),
        ("opcode", c_uint32),
        ("bytes", c_uint32),
        ("immediate", c_uint32),
        ("qpn", c_uint32),
        ("source_qpn", c_uint32),
        ("flags", c_uint32),
        ("vendor_error", c_uint32),
        ("timestamp", c_uint64),
        ("pkey_index", c_uint16),
        ("service_level", c_uint8),
        ("reserved", c_uint8 * 13),
    )


class HcaCqPage(ctypes.Structure):
    """Beginning of a completion queue's memory; entries follow.

    hcad writes ``head`` and ``events``. The client writes ``tail`` and ``armed``. It has polled
    all entries before ``tail``. ``armed`` is 0 if the queue is not armed, and otherwise 1 plus
    the argument solicited_only of ibv_req_notify_cq.
    """

    _fields_ = (
        ("head", c_uint32),
        ("events", c_uint32),
        ("reserved", c_uint32 * 14),
        ("tail", c_uint32),
        ("armed", c_uint32),
        ("reserved2", c_uint32 * 14),
    )


class HcaEvent(ctypes.Structure):
    """An asynchronous event as written to the pipe: verbs' ibv_event_type and the object
    concerned.
    """

    _fields_ = (("type", c_uint32), ("handle", c_uint32))


STRUCTURES: Final = (
    HcaHello,
    HcaDevice,
    HcaHandle,
    HcaCreated,
    HcaCqCreate,
    HcaSegmentCreate,
    HcaPiece,
    HcaMrCreate,
    HcaQpCreate,
    HcaQpAttributes,
    HcaQpModify,
    HcaClientPage,
    HcaSge,
    HcaPayload,
    HcaSendSlot,
    HcaRecvSlot,
    HcaQpPage,
    HcaCqe,
    HcaCqPage,
    HcaEvent,
)
ENUMS: Final = (HcaMessage, HcaFeature)
