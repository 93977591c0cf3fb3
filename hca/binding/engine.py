"""The engine of the HCA, native code: what it can be asked for.

Everything returned is to be freed in the reverse order of its making.
"""

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NewType

from hca.binding.engine_counting import Counting
from hca.binding.engine_library import LIBRARY_PATH, load
from hca.binding.engine_saving import Saving
from hca.contract.hca import (
    HCA_GIDS,
    HCA_PKEYS,
    HcaCreated,
    HcaMrCreate,
    HcaQpAttributes,
    HcaQpCreate,
)
from hca.contract.hca_engine import (
    HCA_MAD_BYTES,
    HcaAsked,
    HcaPolicyChange,
    HcaQosClass,
    HcaWire,
)
from hca.contract.hca_frames import HcaSteerCreate
from hca.contract.hca_objects import HcaAhCreate, HcaMwCreate

EngineClient = NewType("EngineClient", int)
EngineCq = NewType("EngineCq", int)
EngineSegment = NewType("EngineSegment", int)
EngineRegion = NewType("EngineRegion", int)
EngineQp = NewType("EngineQp", int)
EngineFlow = NewType("EngineFlow", int)
EngineLimit = NewType("EngineLimit", int)
EngineWire = NewType("EngineWire", int)
EngineSrq = NewType("EngineSrq", int)
EngineAh = NewType("EngineAh", int)
EngineWindow = NewType("EngineWindow", int)
EngineMember = NewType("EngineMember", int)
EngineSteer = NewType("EngineSteer", int)

_ASKED = 64


class Engine(Saving, Counting):
    """The engine and its thread, until ``close``."""

    def __init__(self, library: Path = LIBRARY_PATH) -> None:
        """Start it. Raises OSError where the library or a resource is missing."""
        self._library = load(library)
        self._engine = self._made(self._library.hca_new(), "the HCA's engine")

    def close(self) -> None:
        """End the thread; nothing may be left in the engine."""
        self._library.hca_free(self._engine)

    def add_client(
        self, page_fd: int, doorbell_fd: int, async_fd: int, gids: Sequence[bytes]
    ) -> EngineClient:
        """Serve a client whose page, doorbell pipe and event pipe these are. Raises OSError."""
        joined = b"".join(gids)
        assert len(joined) == HCA_GIDS * 16
        made = self._library.hca_client_new(self._engine, page_fd, doorbell_fd, async_fd, joined)
        return EngineClient(self._made(made, "a client"))

    def remove_client(self, client: EngineClient) -> None:
        """Forget a client, after its objects."""
        self._library.hca_client_free(self._engine, client)

    def rounds_of(self, client: EngineClient) -> int:
        """Wake the engine, and return how often it has looked at a client's function and ended.

        Two more: it has seen whatever the client's program had posted before.
        """
        rounds: int = self._library.hca_client_rounds(self._engine, client)
        return rounds

    def add_cq(
        self,
        client: EngineClient,
        handle: int,
        page_fd: int,
        page_bytes: int,
        count: int,
        notify_fd: int,
    ) -> EngineCq:
        """Add a completion queue of ``count`` entries; ``notify_fd`` -1: none. Raises OSError."""
        made = self._library.hca_cq_new(
            self._engine, client, handle, page_fd, page_bytes, count, notify_fd
        )
        return EngineCq(self._made(made, "a completion queue"))

    def resize_cq(self, cq: EngineCq, page_fd: int, page_bytes: int, count: int) -> None:
        """Move a completion queue to another page. Raises OSError: EINVAL, it is too small."""
        if not self._library.hca_cq_resize(self._engine, cq, page_fd, page_bytes, count):
            number = ctypes.get_errno()
            raise OSError(number, f"a completion queue: {os.strerror(number)}")

    def remove_cq(self, cq: EngineCq) -> None:
        """Remove a completion queue that no queue pair has."""
        self._library.hca_cq_free(self._engine, cq)

    def add_segment(self, fd: int, size: int) -> EngineSegment:
        """Map memory that regions will lie in. Raises OSError."""
        made = self._library.hca_segment_new(self._engine, fd, size)
        return EngineSegment(self._made(made, "memory"))

    def remove_segment(self, segment: EngineSegment) -> None:
        """Unmap memory that no region lies in."""
        self._library.hca_segment_free(self._engine, segment)

    def add_region(
        self,
        client: EngineClient,
        key: int,
        wanted: HcaMrCreate,
        segments: Sequence[EngineSegment],
    ) -> EngineRegion:
        """Register checked pieces, each in the segment of its place. Raises OSError."""
        listed = (ctypes.c_void_p * len(segments))(*segments)
        made = self._library.hca_region_new(self._engine, client, key, ctypes.byref(wanted), listed)
        return EngineRegion(self._made(made, "a memory region"))

    def remove_region(self, region: EngineRegion) -> None:
        """Let nobody reach a region any more."""
        self._library.hca_region_free(self._engine, region)

    def add_qp(
        self,
        client: EngineClient,
        wanted: HcaQpCreate,
        made: HcaCreated,
        page_fd: int,
        send_cq: EngineCq,
        recv_cq: EngineCq,
        srq: EngineSrq | None = None,
    ) -> EngineQp:
        """Add a queue pair in RESET. Raises OSError."""
        added = self._library.hca_qp_new(
            *(self._engine, client, ctypes.byref(wanted), ctypes.byref(made), page_fd),
            *(send_cq, recv_cq, srq),
        )
        return EngineQp(self._made(added, "a queue pair"))

    def set_qp(
        self, qp: EngineQp, before: int, new: HcaQpAttributes, policy: HcaPolicyChange | None = None
    ) -> bool:
        """Change attributes unless the state is not ``before`` any more; tell whether it was.

        ``policy`` is for the peer that they name. ``new`` gets the PSNs where that goes on.
        """
        given = (ctypes.byref(new), policy and ctypes.byref(policy))
        return bool(self._library.hca_qp_set(self._engine, qp, before, *given))

    def state_of(self, qp: EngineQp) -> int:
        """Return a queue pair's state: the engine may have put it into ERR."""
        state: int = self._library.hca_qp_state(self._engine, qp)
        return state

    def drains(self, qp: EngineQp) -> bool:
        """Tell whether a queue pair in SQD has a request that is not complete."""
        return bool(self._library.hca_qp_drains(self._engine, qp))

    def remove_qp(self, qp: EngineQp) -> None:
        """Remove a queue pair; requests that it has are forgotten."""
        self._library.hca_qp_free(self._engine, qp)

    def watches_memory(self) -> bool:
        """Tell whether pages that clients take away are noticed before they are touched."""
        return bool(self._library.hca_watches_memory(self._engine))

    def add_flow(self) -> EngineFlow:
        """Make a row of counters. Raises OSError."""
        return EngineFlow(self._made(self._library.hca_flow_new(self._engine), "counters"))

    def remove_flow(self, flow: EngineFlow) -> None:
        """Remove a row that no queue pair's policy has."""
        self._library.hca_flow_free(self._engine, flow)

    def add_limit(
        self,
        bytes_per_second: int,
        burst_bytes: int,
        operations_per_second: int,
        burst_operations: int,
    ) -> EngineLimit:
        """Make a limit that flows can share; 0 a second is no limit. Raises OSError."""
        asked = bytes_per_second, burst_bytes, operations_per_second, burst_operations
        return EngineLimit(self._made(self._library.hca_limit_new(self._engine, *asked), "a limit"))

    def remove_limit(self, limit: EngineLimit) -> None:
        """Remove a limit that no flow has."""
        self._library.hca_limit_free(self._engine, limit)

    def limit_flow(self, flow: EngineFlow, limits: Sequence[EngineLimit]) -> None:
        """Hold a flow back by all of some limits, instead of those before. Raises OSError."""
        listed = (ctypes.c_void_p * len(limits))(*limits)
        number = self._library.hca_flow_limit(self._engine, flow, listed, len(limits))
        if number:
            raise OSError(number, os.strerror(number))

    def set_policies(self, changes: Sequence[HcaPolicyChange]) -> None:
        """Give queue pairs their policies at once; afterwards nothing moves that they forbid."""
        listed = (HcaPolicyChange * len(changes))(*changes)
        self._library.hca_policies_set(self._engine, listed, len(changes))

    def set_qos_classes(self, classes: Sequence[HcaQosClass]) -> None:
        """Replace the QoS classes that policies name by their place, from 1 on. Raises OSError."""
        listed = (HcaQosClass * len(classes))(*classes)
        number = self._library.hca_qos_classes_set(self._engine, listed, len(classes))
        if number:
            raise OSError(number, os.strerror(number))

    def add_wire(self, wanted: HcaWire) -> EngineWire:
        """Let queue pairs with an address reach others elsewhere. Raises OSError."""
        made = self._library.hca_wire_new(self._engine, ctypes.byref(wanted))
        return EngineWire(self._made(made, "a wire"))

    def remove_wire(self, wire: EngineWire) -> None:
        """End what is connected over it."""
        self._library.hca_wire_free(self._engine, wire)

    @property
    def asks_fd(self) -> int:
        """The eventfd that is readable while ``asked`` has something to say; the engine's own."""
        number: int = self._library.hca_asks_fd(self._engine)
        return number

    def asked(self) -> list[HcaAsked]:
        """Return whose datagrams wait to be judged, each once and some at a time."""
        found = (HcaAsked * _ASKED)()
        count: int = self._library.hca_asked(self._engine, found, _ASKED)
        return list(found[:count])

    def add_source(self, wire: EngineWire, gid: bytes) -> EngineAh:
        """Know somebody elsewhere, who may do nothing yet. Raises OSError.

        What he may is set as an address handle's policy: its ``receives``.
        """
        assert len(gid) == 16
        made = self._library.hca_source_new(self._engine, wire, gid)
        return EngineAh(self._made(made, "a source of datagrams"))

    def take_source(self, source: EngineAh) -> None:
        """Somebody was judged: carry out, or drop, what of him has waited."""
        self._library.hca_source_take(self._engine, source)

    def remove_source(self, source: EngineAh) -> None:
        """Forget somebody: he is asked about again. His wire is still there."""
        self._library.hca_source_free(self._engine, source)

    def drop_source(self, wire: EngineWire, gid: bytes) -> None:
        """Nothing can be said of somebody: what of him has waited is dropped."""
        self._library.hca_source_unknown(self._engine, wire, gid)

    def receive_mads(self, wire: EngineWire, descriptor: int) -> None:
        """Write what comes to queue pair 1 of a wire into a pipe, each an ``HcaMad``.

        Raises OSError.
        """
        number = self._library.hca_wire_mads(self._engine, wire, descriptor)
        if number:
            raise OSError(number, os.strerror(number))

    def send_mad(self, wire: EngineWire, gid: bytes, mad: bytes, pkey: int) -> None:
        """Send a management datagram to queue pair 1 of an address. Raises OSError."""
        assert len(gid) == 16
        assert len(mad) == HCA_MAD_BYTES
        number = self._library.hca_wire_send_mad(self._engine, wire, gid, mad, pkey)
        if number:
            raise OSError(number, os.strerror(number))

    def set_pkeys(self, client: EngineClient, pkeys: Sequence[int]) -> None:
        """Replace a client's table of partition keys; what is missing is 0, no key."""
        table = (ctypes.c_uint16 * HCA_PKEYS)(*pkeys)
        self._library.hca_client_set_pkeys(self._engine, client, table)

    def add_srq(
        self, client: EngineClient, made: HcaCreated, limit: int, page_fd: int
    ) -> EngineSrq:
        """Add a shared receive queue. Raises OSError."""
        added = self._library.hca_srq_new(self._engine, client, ctypes.byref(made), limit, page_fd)
        return EngineSrq(self._made(added, "a shared receive queue"))

    def set_srq_limit(self, srq: EngineSrq, limit: int) -> None:
        """Arm the event of a shared receive queue; 0: none."""
        self._library.hca_srq_set_limit(self._engine, srq, limit)

    def srq_limit(self, srq: EngineSrq) -> int:
        """Return the limit that is armed: 0 after its event."""
        limit: int = self._library.hca_srq_limit(self._engine, srq)
        return limit

    def remove_srq(self, srq: EngineSrq) -> None:
        """Remove a shared receive queue that no queue pair has."""
        self._library.hca_srq_free(self._engine, srq)

    def add_ah(self, client: EngineClient, key: int, path: HcaAhCreate) -> EngineAh:
        """Add an address handle. Raises OSError."""
        made = self._library.hca_ah_new(self._engine, client, key, ctypes.byref(path))
        return EngineAh(self._made(made, "an address handle"))

    def remove_ah(self, ah: EngineAh) -> None:
        """Remove an address handle; requests that name it fail."""
        self._library.hca_ah_free(self._engine, ah)

    def add_window(self, client: EngineClient, key: int, wanted: HcaMwCreate) -> EngineWindow:
        """Add a memory window that is not bound. Raises OSError."""
        made = self._library.hca_window_new(self._engine, client, key, ctypes.byref(wanted))
        return EngineWindow(self._made(made, "a memory window"))

    def remove_window(self, window: EngineWindow) -> None:
        """Close a memory window for good."""
        self._library.hca_window_free(self._engine, window)

    def add_member(self, qp: EngineQp, gid: bytes, *, hears_all: bool) -> EngineMember:
        """Let a queue pair have what is sent to a multicast group. Raises OSError.

        Unless it ``hears_all``, of this engine's senders it hears those that it makes a pair with.
        """
        assert len(gid) == 16
        made = self._library.hca_member_new(self._engine, qp, gid, hears_all)
        return EngineMember(self._made(made, "a membership"))

    def remove_member(self, member: EngineMember) -> None:
        """End a membership, before its queue pair."""
        self._library.hca_member_free(self._engine, member)

    def add_pair(self, member: bytes, sender: bytes) -> EngineAh:
        """Know who may be heard by whom in groups, by second GIDs: not yet. Raises OSError.

        What he may is set as an address handle's policy: its ``receives``.
        """
        assert len(member) == len(sender) == 16
        made = self._library.hca_pair_new(self._engine, member, sender)
        return EngineAh(self._made(made, "a pair of a group"))

    def remove_pair(self, pair: EngineAh) -> None:
        """Let the one not be heard by the other any more."""
        self._library.hca_pair_free(self._engine, pair)

    def join_group(self, wire: EngineWire, gid: bytes, descriptor: int) -> None:
        """Take what comes over a wire to a multicast group, by a socket in it. Raises OSError."""
        assert len(gid) == 16
        number = self._library.hca_wire_join(self._engine, wire, gid, descriptor)
        if number:
            raise OSError(number, os.strerror(number))

    def quit_group(self, wire: EngineWire, gid: bytes) -> None:
        """Take no more of it."""
        self._library.hca_wire_quit(self._engine, wire, gid)

    def add_steer(self, wanted: HcaSteerCreate, targets: Sequence[EngineQp]) -> EngineSteer:
        """Have frames that match go to raw packet queue pairs. Raises OSError."""
        listed = (ctypes.c_void_p * len(targets))(*targets)
        made = self._library.hca_steer_new(self._engine, ctypes.byref(wanted), listed)
        return EngineSteer(self._made(made, "a flow"))

    def remove_steer(self, steer: EngineSteer) -> None:
        """Let no frame match any more, before any of its queue pairs goes."""
        self._library.hca_steer_free(self._engine, steer)

    @staticmethod
    def _made(pointer: int | None, what: str) -> int:
        if not pointer:
            number = ctypes.get_errno()
            raise OSError(number, f"{what}: {os.strerror(number)}")
        return pointer
