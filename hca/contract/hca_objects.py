"""The virtual HCA's ABI, continued: objects other than regions, queues and queue pairs.

These are shared receive queues, address handles, memory windows and multicast groups. See
``hca.contract.hca`` for the other objects.
"""

import ctypes
from ctypes import c_uint8, c_uint32, c_uint64
from typing import Final

from vgpu_sim.hal.messages import SharedRange


class HcaCqResize(ctypes.Structure):
    """Request for a new size of a completion queue, in entries.

    hcad returns EINVAL if more than ``entries`` entries have not been polled yet.
    """

    _fields_ = (("handle", c_uint32), ("entries", c_uint32))


class HcaSrqCreate(ctypes.Structure):
    """Request for a shared receive queue. If ``limit`` is 0, no limit event is raised."""

    _fields_ = (
        ("pd", c_uint32),
        ("recv_wr", c_uint32),
        ("limit", c_uint32),
        ("reserved", c_uint32),
    )


class HcaSrqModify(ctypes.Structure):
    """The limit of a shared receive queue, in a request to set it and in the reply to a query.

    One event is raised when the queue has fewer than ``limit`` requests left.
    """

    _fields_ = (("handle", c_uint32), ("limit", c_uint32))


class HcaAhCreate(ctypes.Structure):
    """Request for an address handle, which names the destination of datagrams."""

    _fields_ = (
        ("pd", c_uint32),
        ("flow_label", c_uint32),
        ("dgid", c_uint8 * 16),
        ("sgid_index", c_uint8),
        ("hop_limit", c_uint8),
        ("traffic_class", c_uint8),
        ("service_level", c_uint8),
        ("is_global", c_uint8),
        ("port", c_uint8),
        ("reserved", c_uint8 * 2),
    )


class HcaMwCreate(ctypes.Structure):
    """Request for a memory window; ``type`` is verbs' ibv_mw_type."""

    _fields_ = (("pd", c_uint32), ("type", c_uint32))


class HcaMcast(ctypes.Structure):
    """A queue pair's membership of a multicast group."""

    _fields_ = (("qpn", c_uint32), ("reserved", c_uint32), ("gid", c_uint8 * 16))


class HcaSrqPage(ctypes.Structure):
    """Beginning of a shared receive queue's memory; receive slots follow.

    Heads and tails are as in ``HcaQpPage``.
    """

    _fields_ = (
        ("head", c_uint32),
        ("reserved", c_uint32 * 15),
        ("tail", c_uint32),
        ("reserved2", c_uint32 * 15),
    )


class HcaSegmentDevice(ctypes.Structure):
    """Request for a segment of device memory, which the program names by its CUDA address."""

    _fields_ = (("address", c_uint64), ("bytes", c_uint64))


class HcaSegmentShared(ctypes.Structure):
    """Request for a segment of device memory that a CUDA descriptor exports.

    The segment has ``bytes`` bytes and begins at ``offset`` in the exported memory.
    """

    _fields_ = (("range", SharedRange), ("offset", c_uint64), ("bytes", c_uint64))


class HcaDeviceSegment(ctypes.Structure):
    """A segment of device memory. The requested address is at ``offset`` in the segment.

    The segment outlives its memory. Regions in the segment become inaccessible when the memory
    is freed, when the memory's context ends, or when the memory's slice is withdrawn. The owner
    of the regions then removes them and the segment as usual.
    """

    _fields_ = (("handle", c_uint32), ("reserved", c_uint32), ("offset", c_uint64))


STRUCTURES: Final = (
    HcaCqResize,
    HcaSrqCreate,
    HcaSrqModify,
    HcaAhCreate,
    HcaMwCreate,
    HcaMcast,
    HcaSrqPage,
    HcaSegmentDevice,
    HcaSegmentShared,
    HcaDeviceSegment,
)
