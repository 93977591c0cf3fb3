"""The virtual HCA's contract, continued: which frames a raw packet queue pair gets.

``ibv_create_flow`` becomes one match of header fields, and where frames that match go: to one queue
pair, or by a hash of their addresses to one of several (receive side scaling); see
``hca.contract.hca``.
"""

import ctypes
from ctypes import c_uint8, c_uint32, c_uint64
from typing import Final

HCA_MAX_FRAME_BYTES: Final = 4096  # of a raw packet queue pair, headers included
HCA_STEER_TARGETS: Final = 128
HCA_MAX_STEERS: Final = 256  # of a client, and of a function: each frame is held against all
HCA_HASH_KEY_BYTES: Final = 40
HCA_STEER_DEFAULT: Final = 0x10000  # priorities from here on: of what nobody else wants


class HcaFrameFields(ctypes.Structure):
    """Headers of an Ethernet frame, in the order of the network; what it has not is zeros.

    ``vlan`` is the outermost tag's. An IPv4 address lies in the first four bytes of its place.
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
    """Frames whose fields are ``value`` where ``mask`` has ones go to one of the targets.

    ``priority``: the least goes first. ``hash_fields`` are verbs' ibv_rx_hash_fields; of several
    targets the Toeplitz hash of these fields says which.
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
