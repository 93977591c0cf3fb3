"""The virtual HCA's contract, continued: what is made beside regions, queues and queue pairs.

Shared receive queues, address handles, memory windows, multicast groups; see ``hca.contract.hca``.
"""

import ctypes
from ctypes import c_uint8, c_uint32, c_uint64
from typing import Final

from vgpu_sim.hal.messages import SharedRange


class HcaCqResize(ctypes.Structure):
    """Entries that were not taken stay; EINVAL where they are more than ``entries``."""

    _fields_ = (("handle", c_uint32), ("entries", c_uint32))


class HcaSrqCreate(ctypes.Structure):
    """A shared receive queue; ``limit`` 0: no event."""

    _fields_ = (
        ("pd", c_uint32),
        ("recv_wr", c_uint32),
        ("limit", c_uint32),
        ("reserved", c_uint32),
    )


class HcaSrqModify(ctypes.Structure):
    """Arms the limit: an event, once, when fewer requests than that are left."""

    _fields_ = (("handle", c_uint32), ("limit", c_uint32))


class HcaAhCreate(ctypes.Structure):
    """An address handle: where datagrams go."""

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
    """A memory window; ``type`` is verbs' ibv_mw_type."""

    _fields_ = (("pd", c_uint32), ("type", c_uint32))


class HcaMcast(ctypes.Structure):
    """A queue pair's membership of a multicast group."""

    _fields_ = (("qpn", c_uint32), ("reserved", c_uint32), ("gid", c_uint8 * 16))


class HcaSrqPage(ctypes.Structure):
    """Begins a shared receive queue's memory; receive slots follow. As in ``HcaQpPage``."""

    _fields_ = (
        ("head", c_uint32),
        ("reserved", c_uint32 * 15),
        ("tail", c_uint32),
        ("reserved2", c_uint32 * 15),
    )


class HcaSegmentDevice(ctypes.Structure):
    """Memory of a device, by the address that the program's CUDA has for it."""

    _fields_ = (("address", c_uint64), ("bytes", c_uint64))


class HcaSegmentShared(ctypes.Structure):
    """Memory of a device, ``bytes`` from ``offset`` on in what a descriptor of CUDA's names."""

    _fields_ = (("range", SharedRange), ("offset", c_uint64), ("bytes", c_uint64))


class HcaDeviceSegment(ctypes.Structure):
    """A segment; what was asked for begins at ``offset`` in it. It outlives its memory.

    When that is freed, its context ends or its slice is taken away, regions in it are reached by
    nobody any more; they and the segment are removed by their owner as others are.
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
