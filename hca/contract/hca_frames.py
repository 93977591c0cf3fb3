"""The virtual HCA's ABI, continued: steering of frames to raw packet queue pairs.

``ibv_create_flow`` becomes a rule with one match of header fields and the targets of matching
frames. The target is one queue pair, or several, among which a hash of the addresses selects
(receive-side scaling). See ``hca.contract.hca`` for the rest of the ABI.
"""

import ctypes
from ctypes import c_uint8, c_uint32, c_uint64
from typing import Final

HCA_MAX_FRAME_BYTES: Final = 4096  # bytes of a raw packet queue pair's frame, headers included
HCA_STEER_TARGETS: Final = 128
HCA_MAX_STEERS: Final = 256  # rules per client, and per function: each frame is compared with all
HCA_HASH_KEY_BYTES: Final = 40
HCA_STEER_DEFAULT: Final = 0x10000  # priorities from here on: only for frames without another rule


class HcaFrameFields(ctypes.Structure):
    """Header fields of an Ethernet frame, in network byte order; absent fields are zero.

    ``vlan`` is that of the outermost tag. An IPv4 address is in the first four bytes of its field.
    """

    _fields_ = (
        ("destination_mac", c_uint8 * 6),
        ("source_mac", c_uint8 * 6),
        ("ether_type", c_uint8 * 2),
        ("vlan", c_uint8 * 2),
        ("source", c_uint8 * 16),
        ("destination", c_uint8 * 16),
        ("flow_label", c_uint8 * 4),
        ("protocol", c_uint8),
        ("traffic_class", c_uint8),
        ("hop_limit", c_uint8),
        ("reserved", c_uint8),
        ("source_port", c_uint8 * 2),
        ("destination_port", c_uint8 * 2),
    )


class HcaSteerCreate(ctypes.Structure):
    """Request for a steering rule: frames that equal ``value`` in the bits of ``mask`` go to one of
    the targets.

    The rule with the lowest ``priority`` is applied first. ``hash_fields`` are verbs'
    ibv_rx_hash_fields; the Toeplitz hash of these fields selects one of several targets.
    """

    _fields_ = (
        ("priority", c_uint32),
        ("target_count", c_uint32),
        ("hash_fields", c_uint64),
        ("value", HcaFrameFields),
        ("mask", HcaFrameFields),
        ("hash_key", c_uint8 * HCA_HASH_KEY_BYTES),
        ("targets", c_uint32 * HCA_STEER_TARGETS),
    )


STRUCTURES: Final = (HcaFrameFields, HcaSteerCreate)
