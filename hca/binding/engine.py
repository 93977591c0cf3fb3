"""The Python binding of the HCA's engine, which is native code.

Callers must remove objects in the reverse order of their creation.
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
    HcaPendingSource,
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

_MOST_PENDING = 64


class Engine(Saving, Counting):
    """The HCA's engine and its thread, until ``close``."""

    def __init__(self, library: Path = LIBRARY_PATH) -> None:
        """Start the engine. Raises OSError if the library or a resource is missing."""
        self._library = load(library)
        self._engine = self._check_created(self._library.hca_new(), "the HCA's engine")

    def close(self) -> None:
        """Stop the engine's thread and free the engine.

        The caller must have removed all objects.
        """
        self._library.hca_free(self._engine)

    def add_client(
        self, page_fd: int, doorbell_fd: int, async_fd: int, gids: Sequence[bytes]
    ) -> EngineClient:
        """Add a client with its page, doorbell pipe and pipe for asynchronous events. Raises
        OSError.
        """
        joined = b"".join(gids)
        assert len(joined) == HCA_GIDS * 16
        pointer = self._library.hca_client_new(self._engine, page_fd, doorbell_fd, async_fd, joined)
        return EngineClient(self._check_created(pointer, "a client"))

    def end_client(self, client: EngineClient) -> None:
        """Stop serving a client, in constant time, before its objects are removed one by one.

        From now on its queue pairs neither send nor receive, and its regions cannot be accessed.
        """
        self._library.hca_client_end(self._engine, client)

    def remove_client(self, client: EngineClient) -> None:
        """Remove a client. The caller must have removed the client's objects."""
        self._library.hca_client_free(self._engine, client)

    def count_visits(self, client: EngineClient) -> int:
        """Wake the engine; return how often the engine has finished processing a client's function.

        Once the number has grown by two, the engine has processed everything that was posted
        before the call.
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
        """Add a completion queue of ``count`` entries, whose notifications go to ``notify_fd``.

        If ``notify_fd`` is -1, there are no notifications. Raises OSError.
        """
        pointer = self._library.hca_cq_new(
            self._engine, client, handle, page_fd, page_bytes, count, notify_fd
        )
        return EngineCq(self._check_created(pointer, "a completion queue"))

    def resize_cq(self, cq: EngineCq, page_fd: int, page_bytes: int, count: int) -> None:
        """Move a completion queue to another page, which has ``count`` entries.

        Raises OSError: EINVAL if the entries that the client has not polled yet do not fit.
        """
        if not self._library.hca_cq_resize(self._engine, cq, page_fd, page_bytes, count):
            number = ctypes.get_errno()
            raise OSError(number, f"a completion queue: {os.strerror(number)}")

    def remove_cq(self, cq: EngineCq) -> None:
        """Remove a completion queue that no queue pair uses."""
        self._library.hca_cq_free(self._engine, cq)

    def add_segment(self, fd: int, size: int) -> EngineSegment:
        """Map a segment of memory, in which regions can be added. Raises OSError."""
        pointer = self._library.hca_segment_new(self._engine, fd, size)
        return EngineSegment(self._check_created(pointer, "memory"))

    def end_segment(self, segment: EngineSegment) -> None:
        """Let no request reach a segment whose regions are then removed.

        It takes constant time, however many regions the segment contains.
        """
        self._library.hca_segment_end(self._engine, segment)

    def remove_segment(self, segment: EngineSegment) -> None:
        """Unmap a segment of memory that contains no regions."""
        self._library.hca_segment_free(self._engine, segment)

    def add_region(
        self,
        client: EngineClient,
        key: int,
        request: HcaMrCreate,
        segments: Sequence[EngineSegment],
    ) -> EngineRegion:
        """Register a memory region; ``segments`` has the segment for each of the region's pieces.

        Raises OSError.
        """
        listed = (ctypes.c_void_p * len(segments))(*segments)
        pointer = self._library.hca_region_new(
            self._engine, client, key, ctypes.byref(request), listed
        )
        return EngineRegion(self._check_created(pointer, "a memory region"))

    def remove_region(self, region: EngineRegion) -> None:
        """Deregister a memory region; later accesses to the region fail."""
        self._library.hca_region_free(self._engine, region)

    def add_qp(
        self,
        client: EngineClient,
        request: HcaQpCreate,
        created: HcaCreated,
        page_fd: int,
        send_cq: EngineCq,
        recv_cq: EngineCq,
        srq: EngineSrq | None = None,
    ) -> EngineQp:
        """Add a queue pair in the state RESET. Raises OSError."""
        pointer = self._library.hca_qp_new(
            self._engine,
            client,
            ctypes.byref(request),
            ctypes.byref(created),
            page_fd,
            send_cq,
            recv_cq,
            srq,
        )
        return EngineQp(self._check_created(pointer, "a queue pair"))

    def set_qp(
        self,
        qp: EngineQp,
        expected_state: int,
        new: HcaQpAttributes,
        policy: HcaPolicyChange | None = None,
    ) -> bool:
        """Change a queue pair's attributes if the queue pair is in the expected state.

        If the queue pair is not in the state ``expected_state``, return False.
        ``policy`` applies to the peer in the new attributes. If the change keeps the packet
        sequence numbers (PSNs) of the previous attributes, the engine writes these PSNs into
        ``new``.
        """
        change = policy and ctypes.byref(policy)
        return bool(
            self._library.hca_qp_set(self._engine, qp, expected_state, ctypes.byref(new), change)
        )

    def state_of(self, qp: EngineQp) -> int:
        """Return a queue pair's state. The engine itself can change the state to ERR."""
        state: int = self._library.hca_qp_state(self._engine, qp)
        return state

    def is_draining(self, qp: EngineQp) -> bool:
        """Return whether a queue pair in the state SQD has requests that are not complete."""
        return bool(self._library.hca_qp_drains(self._engine, qp))

    def remove_qp(self, qp: EngineQp) -> None:
        """Remove a queue pair and drop the requests in its queues."""
        self._library.hca_qp_free(self._engine, qp)

    def watches_memory(self) -> bool:
        """Return whether the kernel notifies the engine when clients unmap pages.

        In that case the engine receives the notification before it uses the pages again.
        """
        return bool(self._library.hca_watches_memory(self._engine))

    def add_flow(self) -> EngineFlow:
        """Add a row of counters for the requests of one flow. Raises OSError."""
        return EngineFlow(self._check_created(self._library.hca_flow_new(self._engine), "counters"))

    def remove_flow(self, flow: EngineFlow) -> None:
        """Remove a row of counters that no queue pair's policy uses."""
        self._library.hca_flow_free(self._engine, flow)

    def add_limit(
        self,
        bytes_per_second: int,
        burst_bytes: int,
        operations_per_second: int,
        burst_operations: int,
    ) -> EngineLimit:
        """Add a rate limit that flows can share; a rate of 0 means no limit. Raises OSError."""
        limit = self._library.hca_limit_new(
            self._engine, bytes_per_second, burst_bytes, operations_per_second, burst_operations
        )
        return EngineLimit(self._check_created(limit, "a limit"))

    def remove_limit(self, limit: EngineLimit) -> None:
        """Remove a rate limit that no flow uses."""
        self._library.hca_limit_free(self._engine, limit)

    def limit_flow(self, flow: EngineFlow, limits: Sequence[EngineLimit]) -> None:
        """Replace a flow's rate limits by ``limits``, which all apply to the flow.

        Raises OSError.
        """
        listed = (ctypes.c_void_p * len(limits))(*limits)
        number = self._library.hca_flow_limit(self._engine, flow, listed, len(limits))
        if number:
            raise OSError(number, os.strerror(number))

    def set_policies(self, changes: Sequence[HcaPolicyChange]) -> None:
        """Replace the policies of queue pairs in one step.

        When this returns, the engine moves no data that the new policies forbid.
        """
        listed = (HcaPolicyChange * len(changes))(*changes)
        self._library.hca_policies_set(self._engine, listed, len(changes))

    def set_qos_classes(self, classes: Sequence[HcaQosClass]) -> None:
        """Replace the QoS classes, to which policies refer by their position, counted from 1.

        Raises OSError.
        """
        listed = (HcaQosClass * len(classes))(*classes)
        number = self._library.hca_qos_classes_set(self._engine, listed, len(classes))
        if number:
            raise OSError(number, os.strerror(number))

    def add_wire(self, hca_wire: HcaWire) -> EngineWire:
        """Add a wire. Queue pairs with the wire's address reach other nodes over it.

        Raises OSError.
        """
        pointer = self._library.hca_wire_new(self._engine, ctypes.byref(hca_wire))
        return EngineWire(self._check_created(pointer, "a wire"))

    def remove_wire(self, wire: EngineWire) -> None:
        """Remove a wire and end the connections over the wire."""
        self._library.hca_wire_free(self._engine, wire)

    @property
    def pending_sources_fd(self) -> int:
        """Return the engine's eventfd, which is readable while ``pending_sources`` has entries."""
        number: int = self._library.hca_pending_sources_fd(self._engine)
        return number

    def pending_sources(self) -> list[HcaPendingSource]:
        """Return some of the remote senders whose datagrams wait for a verdict, each of them
        once.
        """
        sources = (HcaPendingSource * _MOST_PENDING)()
        count: int = self._library.hca_pending_sources(self._engine, sources, _MOST_PENDING)
        return list(sources[:count])

    def add_source(self, wire: EngineWire, gid: bytes) -> EngineAh:
        """Add a remote sender of datagrams, at first without any rights. Raises OSError.

        A later policy change grants rights to the sender, in the field ``receives``, as for an
        address handle.
        """
        assert len(gid) == 16
        pointer = self._library.hca_source_new(self._engine, wire, gid)
        return EngineAh(self._check_created(pointer, "a source of datagrams"))

    def process_source(self, source: EngineAh) -> None:
        """Deliver or drop the waiting datagrams of a remote sender, according to the verdict on the
        sender.
        """
        self._library.hca_source_take(self._engine, source)

    def remove_source(self, source: EngineAh) -> None:
        """Remove a remote sender of datagrams, whose wire must still exist.

        If the sender sends again, it becomes a pending source again.
        """
        self._library.hca_source_free(self._engine, source)

    def drop_source(self, wire: EngineWire, gid: bytes) -> None:
        """Drop the waiting datagrams of a remote sender.

        hcad calls this if no verdict on the sender is possible.
        """
        self._library.hca_source_unknown(self._engine, wire, gid)

    def set_mad_pipe(self, wire: EngineWire, descriptor: int) -> None:
        """Set the pipe for management datagrams that a wire receives for queue pair 1.

        The engine writes each datagram into the pipe as one ``HcaMad``. Raises OSError.
        """
        number = self._library.hca_wire_mads(self._engine, wire, descriptor)
        if number:
            raise OSError(number, os.strerror(number))

    def send_mad(self, wire: EngineWire, gid: bytes, mad: bytes, pkey: int) -> None:
        """Send a management datagram over a wire to queue pair 1 of the address ``gid``. Raises
        OSError.
        """
        assert len(gid) == 16
        assert len(mad) == HCA_MAD_BYTES
        number = self._library.hca_wire_send_mad(self._engine, wire, gid, mad, pkey)
        if number:
            raise OSError(number, os.strerror(number))

    def set_pkeys(self, client: EngineClient, pkeys: Sequence[int]) -> None:
        """Replace a client's P_Key table. Missing entries become 0, which is not a valid P_Key."""
        table = (ctypes.c_uint16 * HCA_PKEYS)(*pkeys)
        self._library.hca_client_set_pkeys(self._engine, client, table)

    def add_srq(
        self, client: EngineClient, created: HcaCreated, limit: int, page_fd: int
    ) -> EngineSrq:
        """Add a shared receive queue for a client. Raises OSError."""
        pointer = self._library.hca_srq_new(
            self._engine, client, ctypes.byref(created), limit, page_fd
        )
        return EngineSrq(self._check_created(pointer, "a shared receive queue"))

    def set_srq_limit(self, srq: EngineSrq, limit: int) -> None:
        """Arm the limit event of a shared receive queue; ``limit`` 0 disarms the event."""
        self._library.hca_srq_set_limit(self._engine, srq, limit)

    def srq_limit(self, srq: EngineSrq) -> int:
        """Return the armed limit of a shared receive queue; it becomes 0 when the event is
        raised.
        """
        limit: int = self._library.hca_srq_limit(self._engine, srq)
        return limit

    def remove_srq(self, srq: EngineSrq) -> None:
        """Remove a shared receive queue that no queue pair uses."""
        self._library.hca_srq_free(self._engine, srq)

    def add_ah(self, client: EngineClient, key: int, path: HcaAhCreate) -> EngineAh:
        """Add an address handle. Raises OSError."""
        pointer = self._library.hca_ah_new(self._engine, client, key, ctypes.byref(path))
        return EngineAh(self._check_created(pointer, "an address handle"))

    def remove_ah(self, ah: EngineAh) -> None:
        """Remove an address handle; requests that refer to it fail."""
        self._library.hca_ah_free(self._engine, ah)

    def add_window(self, client: EngineClient, key: int, request: HcaMwCreate) -> EngineWindow:
        """Add a memory window that is not bound to a region yet. Raises OSError."""
        pointer = self._library.hca_window_new(self._engine, client, key, ctypes.byref(request))
        return EngineWindow(self._check_created(pointer, "a memory window"))

    def remove_window(self, window: EngineWindow) -> None:
        """Remove a memory window."""
        self._library.hca_window_free(self._engine, window)

    def add_member(self, qp: EngineQp, gid: bytes, *, receives_all: bool) -> EngineMember:
        """Attach a queue pair to a multicast group. Raises OSError.

        If ``receives_all`` is true, the queue pair receives from every sender. Otherwise, it
        receives only what the rights of pairs permit: ``add_pair`` must be called for the queue
        pair's function and each sender of this engine.
        """
        assert len(gid) == 16
        pointer = self._library.hca_member_new(self._engine, qp, gid, receives_all)
        return EngineMember(self._check_created(pointer, "a membership"))

    def remove_member(self, member: EngineMember) -> None:
        """Remove a queue pair's membership in a multicast group.

        Call this before the queue pair is removed.
        """
        self._library.hca_member_free(self._engine, member)

    def add_pair(self, member: bytes, sender: bytes) -> EngineAh:
        """Add a pair of functions: a member of multicast groups, and a sender. Raises OSError.

        ``member`` and ``sender`` are the second GIDs (index 1) of the two functions. The pair has
        no rights yet. A later policy change grants the pair's rights in the field ``receives``, as
        it does for an address handle.
        """
        assert len(member) == len(sender) == 16
        pointer = self._library.hca_pair_new(self._engine, member, sender)
        return EngineAh(self._check_created(pointer, "a pair of a group"))

    def remove_pair(self, pair: EngineAh) -> None:
        """Remove a pair of functions that ``add_pair`` has added.

        The pair's member then receives nothing more from the pair's sender.
        """
        self._library.hca_pair_free(self._engine, pair)

    def join_group(self, wire: EngineWire, gid: bytes, descriptor: int) -> None:
        """Let a wire receive the traffic of a multicast group.

        ``descriptor`` is the descriptor of a socket that has joined the group. Raises OSError.
        """
        assert len(gid) == 16
        number = self._library.hca_wire_join(self._engine, wire, gid, descriptor)
        if number:
            raise OSError(number, os.strerror(number))

    def quit_group(self, wire: EngineWire, gid: bytes) -> None:
        """Stop receiving a multicast group's traffic for a wire."""
        self._library.hca_wire_quit(self._engine, wire, gid)

    def add_steer(self, request: HcaSteerCreate, targets: Sequence[EngineQp]) -> EngineSteer:
        """Add a rule that steers matching frames to raw packet queue pairs. Raises OSError."""
        listed = (ctypes.c_void_p * len(targets))(*targets)
        pointer = self._library.hca_steer_new(self._engine, ctypes.byref(request), listed)
        return EngineSteer(self._check_created(pointer, "a flow"))

    def remove_steer(self, steer: EngineSteer) -> None:
        """Remove a steering rule; call this before any of its queue pairs is removed."""
        self._library.hca_steer_free(self._engine, steer)

    @staticmethod
    def _check_created(pointer: int | None, kind: str) -> int:
        if not pointer:
            number = ctypes.get_errno()
            raise OSError(number, f"{kind}: {os.strerror(number)}")
        return pointer
