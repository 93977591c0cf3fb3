"""The virtual HCA's contract, continued: what hcad tells its engine, and asks of it.

What a successor takes over, policies and what they counted, wires. No client sees any of it; see
``hca.contract.hca``.
"""

import ctypes
from ctypes import c_int32, c_uint8, c_uint16, c_uint32, c_uint64
from typing import Final

from hca.contract.hca import HcaQpAttributes, HcaRecvSlot
from rdma.verbs import Verb

HCA_VERBS: Final = len(Verb)
HCA_WIRE_LANES: Final = 8
HCA_WIRE_READS: Final = 16  # of a peer's that a queue pair answers at a time
HCA_QOS_CLASSES: Final = 63  # of a node's tables
HCA_MAD_BYTES: Final = 256


class HcaSavedCq(ctypes.Structure):
    """What a successor of hcad must know of a completion queue besides its page."""

    _fields_ = (
        ("head", c_uint32),
        ("events", c_uint32),
        ("overrun", c_uint32),
        ("reserved", c_uint32),
    )


class HcaSavedReading(ctypes.Structure):
    """A READ of a peer's, over a wire, that is being answered; or an atomic, with what it found."""

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
    """What an atomic of a peer's has found: told again, never done again."""

    _fields_ = (
        ("before", c_uint64),
        ("psn", c_uint32),
        ("reserved", c_uint32),
    )


class HcaSavedWired(ctypes.Structure):
    """What a successor must know of a connection over a wire; ``wired`` 0: there is none.

    ``first_psn`` is of the oldest request that is not complete, ``oldest_psn`` of the first packet
    that was not answered: it and all after it are sent again. ``room`` is how many packets may be
    under way: READs are asked for in parts of half of it. The rest is the responder's.
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
    """The same of a queue pair."""

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
    """The same of a shared receive queue."""

    _fields_ = (
        ("tail", c_uint32),
        ("limit", c_uint32),
        ("broken", c_uint32),
        ("reserved", c_uint32),
    )


class HcaSavedWindow(ctypes.Structure):
    """The same of a memory window; ``bound`` to the region that has that key now."""

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
    """What hcad tells its engine that a queue pair may do; no client sees it.

    ``sends`` and ``receives`` are masks of ``rdma.verbs``: what it may ask of its peer, and that
    of it. ``out`` and ``in_`` are the rows of counters of both, 0 for none. ``pkey`` has
    its membership bit. ``revoke`` ends the queue pair. ``queue_pair`` is the engine's own, or
    0 and ``address_handle`` is that of a datagram's. ``qos_class`` is the place of its class, 0 for
    none. ``device_only`` are flags of remote access that its peer has to memory of a GPU alone.
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
    """Requests of one flow since it was counted first, by verb: its place among ``rdma.verbs``."""

    _fields_ = (
        ("operations", c_uint64 * HCA_VERBS),
        ("bytes", c_uint64 * HCA_VERBS),
        ("denied", c_uint64 * HCA_VERBS),
    )


class HcaQosClass(ctypes.Structure):
    """A QoS class: rates in bytes a second, 0 for none; traffic classes with ECN bits of zero.

    ``bytes_at_most`` is of each address that sends; ``bytes_at_least`` and ``weight`` of all.
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
    """An address on a wire, from hcad to its engine: UDP sockets that are bound to it.

    ``segments``: the kernel may cut and join buffers (UDP_SEGMENT, UDP_GRO). ``path_mtu`` is verbs'
    ibv_mtu of the interface: the longest datagram. ``bytes_per_second`` is what all that it sends
    may take, 0 for no limit.
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
    """Packets of a wire. From ``malformed`` to ``denied``: what came and was not carried out."""

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
    )


class HcaWorkCounts(ctypes.Structure):
    """What the engine's work for one function has come to, in units of about a copied byte.

    ``cost`` is all of it, in so many ``turns``. ``steps`` are objects that were visited because a
    program's page said so; ``looks`` are pages that the engine looked at beside turns, to see
    whether there is anything. ``most_turn`` is the most of one turn; ``most_waited`` the most work
    for others between the moment that the engine knew of something to do and the turn that did it;
    ``most_pass`` the most for all between two looks for what is to be done. ``waiting`` queue pairs
    wait for a time or for what comes earlier.
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


class HcaAsked(ctypes.Structure):
    """Somebody elsewhere whose datagrams wait, at a wire, until it is known what he may send."""

    _fields_ = (
        ("wire", c_uint64),
        ("own", c_uint8 * 16),
        ("source", c_uint8 * 16),
    )


class HcaMad(ctypes.Structure):
    """A management datagram that has come to queue pair 1, whose GID it came from, its P_Key."""

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
    HcaAsked,
    HcaMad,
)
