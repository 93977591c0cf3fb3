"""The virtual HCA's ABI, continued: structures between hcad and its engine.

The structures describe handover state, policies and their counters, and wires. No client sees
them. ``hca.contract.hca`` has the structures that clients see.
"""

import ctypes
from ctypes import c_int32, c_uint8, c_uint16, c_uint32, c_uint64
from typing import Final

from hca.contract.hca import HcaQpAttributes, HcaRecvSlot
from rdma.verbs import Verb

HCA_VERBS: Final = len(Verb)
HCA_WIRE_LANES: Final = 8
HCA_WIRE_READS: Final = 16  # READs of a peer that one queue pair answers at a time
HCA_QOS_CLASSES: Final = 63  # in a node's tables
HCA_MAD_BYTES: Final = 256


class HcaSavedCq(ctypes.Structure):
    """Handover state of a completion queue, in addition to its page."""

    _fields_ = (
        ("head", c_uint32),
        ("events", c_uint32),
        ("overrun", c_uint32),
        ("reserved", c_uint32),
    )


class HcaSavedReading(ctypes.Structure):
    """Handover state of a peer's request that arrived over a wire. The request is a READ that the
    engine has not answered completely, or an atomic that the engine has executed.
    """

    _fields_ = (
        ("psn", c_uint32),
        ("key", c_uint32),
        ("bytes", c_uint32),
        ("done", c_uint32),
        ("address", c_uint64),
        ("atomic", c_uint32),
        ("reserved", c_uint32),
    )


class HcaSavedResult(ctypes.Structure):
    """Result of a peer's atomic, to be sent again if the peer repeats the request."""

    _fields_ = (
        ("before", c_uint64),
        ("psn", c_uint32),
        ("reserved", c_uint32),
    )


class HcaSavedWired(ctypes.Structure):
    """Handover state of a connection over a wire. If ``wired`` is 0, there is no such connection.

    ``first_psn`` belongs to the oldest incomplete request. ``oldest_psn`` belongs to the oldest
    unacknowledged packet, from which sending restarts after a loss. At most ``room`` packets may be
    under way. A READ is requested in parts of ``room`` / 2 packets. The other fields belong to the
    connection's role as responder.
    """

    _fields_ = (
        ("wired", c_uint32),
        ("first_psn", c_uint32),
        ("oldest_psn", c_uint32),
        ("psn", c_uint32),
        ("msn", c_uint32),
        ("last_psn", c_uint32),
        ("refused", c_uint32),
        ("answers", c_uint32),
        ("message", c_uint32),
        ("key", c_uint32),
        ("bytes", c_uint32),
        ("done", c_uint32),
        ("address", c_uint64),
        ("reading_count", c_uint32),
        ("result_count", c_uint32),
        ("reading", HcaSavedReading * HCA_WIRE_READS),
        ("results", HcaSavedResult * HCA_WIRE_READS),
        ("room", c_uint32),
        ("reserved", c_uint32),
    )


class HcaSavedQp(ctypes.Structure):
    """Handover state of a queue pair."""

    _fields_ = (
        ("send_tail", c_uint32),
        ("recv_tail", c_uint32),
        ("broken", c_uint32),
        ("drained", c_uint32),
        ("said_last_wqe", c_uint32),
        ("holds", c_uint32),
        ("attributes", HcaQpAttributes),
        ("held", HcaRecvSlot),
        ("wire", HcaSavedWired),
    )


class HcaSavedSrq(ctypes.Structure):
    """Handover state of a shared receive queue."""

    _fields_ = (
        ("tail", c_uint32),
        ("limit", c_uint32),
        ("broken", c_uint32),
        ("reserved", c_uint32),
    )


class HcaSavedWindow(ctypes.Structure):
    """Handover state of a memory window. If ``bound`` is set, the window is bound to the region
    ``region_key``.
    """

    _fields_ = (
        ("key", c_uint32),
        ("bound", c_uint32),
        ("region_key", c_uint32),
        ("qpn", c_uint32),
        ("access", c_uint32),
        ("reserved", c_uint32),
        ("address", c_uint64),
        ("bytes", c_uint64),
    )


class HcaPolicyChange(ctypes.Structure):
    """A change to a queue pair's policy, from hcad to its engine.

    ``queue_pair`` is the engine's pointer to the queue pair. If it is 0, the policy is for
    ``address_handle``, the path of a datagram. ``sends`` and ``receives`` are masks of
    ``rdma.verbs``: what the queue pair may request of its peer, and what the peer may request of
    the queue pair. ``out`` and ``in_`` are the rows that count these requests; 0 means that no row
    counts them. ``revoke`` makes the queue pair fail.

    ``pkey`` includes its membership bit. ``qos_class`` is the position of the QoS class, or 0 for
    no class. ``device_only`` contains flags of remote access. The peer may make accesses of these
    kinds to GPU memory, but not to host memory.
    """

    _fields_ = (
        ("queue_pair", c_uint64),
        ("out", c_uint64),
        ("in_", c_uint64),
        ("generation", c_uint64),
        ("sends", c_uint32),
        ("receives", c_uint32),
        ("revoke", c_uint32),
        ("pkey", c_uint32),
        ("address_handle", c_uint64),
        ("qos_class", c_uint32),
        ("device_only", c_uint32),
    )


class HcaFlowCounts(ctypes.Structure):
    """Counters of one flow's requests since the flow's creation.

    Each field has one counter for each verb, in the order of ``rdma.verbs``.
    """

    _fields_ = (
        ("operations", c_uint64 * HCA_VERBS),
        ("bytes", c_uint64 * HCA_VERBS),
        ("denied", c_uint64 * HCA_VERBS),
    )


class HcaQosClass(ctypes.Structure):
    """A QoS class. Rates are in bytes per second; 0 means that the class has no such rate.

    ``bytes_at_most`` limits the rate of each sending address separately. ``bytes_at_least`` and
    ``weight`` apply to the class as a whole. The ECN bits of ``traffic_class`` and of
    ``cnp_traffic_class`` are zero.
    """

    _fields_ = (
        ("bytes_at_most", c_uint64),
        ("bytes_at_least", c_uint64),
        ("weight", c_uint32),
        ("traffic_class", c_uint8),
        ("cnp_traffic_class", c_uint8),
        ("reserved", c_uint8 * 2),
    )


class HcaWire(ctypes.Structure):
    """A wire, from hcad to its engine: an address and the UDP sockets bound to it.

    If ``segments`` is set, the kernel may split and merge buffers (UDP_SEGMENT, UDP_GRO).
    ``path_mtu`` is the path MTU of the interface as an ibv_mtu; it limits the length of datagrams.
    ``bytes_per_second`` limits the rate of everything that is sent over the wire; 0 means that
    there is no limit.
    """

    _fields_ = (
        ("gid", c_uint8 * 16),
        ("scope", c_uint32),
        ("lanes", c_uint32),
        ("segments", c_uint32),
        ("path_mtu", c_uint32),
        ("fds", c_int32 * HCA_WIRE_LANES),
        ("ports", c_uint16 * HCA_WIRE_LANES),
        ("bytes_per_second", c_uint64),
    )


class HcaWireCounts(ctypes.Structure):
    """Packet counters of a wire.

    ``received_bytes`` and ``sent_bytes`` are the UDP payloads of the packets that ``received`` and
    ``sent`` count: transport headers, data and ICRC. The fields from ``malformed`` to ``denied``
    count packets that were received but not executed.
    """

    _fields_ = (
        ("received", c_uint64),
        ("sent", c_uint64),
        ("malformed", c_uint64),
        ("unknown_qp", c_uint64),
        ("wrong_source", c_uint64),
        ("bad_pkey", c_uint64),
        ("bad_icrc", c_uint64),
        ("not_ready", c_uint64),
        ("out_of_sequence", c_uint64),
        ("denied", c_uint64),
        ("gaps", c_uint64),
        ("duplicates", c_uint64),
        ("timeouts", c_uint64),
        ("send_errors", c_uint64),
        ("full", c_uint64),
        ("np_ecn_marked", c_uint64),
        ("np_cnp_sent", c_uint64),
        ("rp_cnp_handled", c_uint64),
        ("rp_cnp_ignored", c_uint64),
        ("bad_qkey", c_uint64),
        ("unjudged", c_uint64),
        ("received_bytes", c_uint64),
        ("sent_bytes", c_uint64),
    )


class HcaWorkCounts(ctypes.Structure):
    """Cost of the engine's work for one function; the unit is about one copied byte.

    The engine works for a function in turns. ``turns`` is the number of these turns, ``cost`` is
    their total cost, and ``most_turn`` is the largest cost of one turn. ``steps`` counts the
    engine's visits to objects for which a program's page requested a visit. ``looks`` counts how
    often the engine polled a page outside of turns.

    After the engine has detected work for this function, it may work for other functions before the
    turn that does this work. ``most_waited`` is the largest cost of that work for others.
    ``most_pass`` is the largest cost of one iteration of the engine loop, for all functions
    together. ``waiting`` is the number of queue pairs that wait for a time or for an earlier event.
    """

    _fields_ = (
        ("turns", c_uint64),
        ("cost", c_uint64),
        ("steps", c_uint64),
        ("most_turn", c_uint64),
        ("most_waited", c_uint64),
        ("most_pass", c_uint64),
        ("waiting", c_uint64),
        ("looks", c_uint64),
    )


class HcaPendingSource(ctypes.Structure):
    """A remote sender whose datagrams wait at a wire for hcad's policy verdict."""

    _fields_ = (
        ("wire", c_uint64),
        ("own", c_uint8 * 16),
        ("source", c_uint8 * 16),
    )


class HcaMad(ctypes.Structure):
    """A management datagram that a wire received on queue pair 1, with its source GID and its
    P_Key.
    """

    _fields_ = (
        ("source", c_uint8 * 16),
        ("data", c_uint8 * HCA_MAD_BYTES),
        ("pkey", c_uint16),
        ("reserved", c_uint16 * 3),
    )


STRUCTURES: Final = (
    HcaSavedCq,
    HcaSavedReading,
    HcaSavedResult,
    HcaSavedWired,
    HcaSavedQp,
    HcaSavedSrq,
    HcaSavedWindow,
    HcaPolicyChange,
    HcaFlowCounts,
    HcaWorkCounts,
    HcaQosClass,
    HcaWire,
    HcaWireCounts,
    HcaPendingSource,
    HcaMad,
)
