"""Shared receive queues of a client."""

import errno
import os
from ctypes import sizeof

from hca.binding.engine import Engine, EngineSrq
from hca.contract import hca, hca_engine, hca_objects
from hca.contract.hca import HcaCreated
from hca.daemon.common.handover_state import HandoverState, Row, from_base64, to_base64
from hca.daemon.common.numbers import Numbers
from hca.daemon.objects.checks import (
    check_range,
    check_room,
    get,
    new_page_descriptor,
    os_error,
    round_up_to_pages,
    round_up_to_power_of_two,
)
from hca.daemon.objects.domains import Domains
from vgpu_sim.records import dataclass


@dataclass(slots=True)
class _SharedReceives:
    engine: EngineSrq
    index: int
    pd: int
    count: int
    wanted: bytes
    created: bytes
    queue_pairs: int = 0


class SharedReceives(Domains):
    """A client's shared receive queues."""

    def __init__(
        self, engine: Engine, numbers: Numbers, gids: tuple[bytes, ...], memory_bytes: int
    ) -> None:
        """Add the client to the engine. It has no shared receive queues yet. Raises OSError."""
        super().__init__(engine, numbers, gids, memory_bytes)
        self._srqs: dict[int, _SharedReceives] = {}
        self._free_srqs = list(range(hca.HCA_MAX_SRQS - 1, -1, -1))

    def create_srq(self, request: hca_objects.HcaSrqCreate) -> tuple[HcaCreated, int]:
        """Make a shared receive queue. Raises OSError.

        Return the queue's description, and the descriptor of the memory for its work requests.
        """
        check_room(self._srqs, hca.HCA_MAX_SRQS)
        get(self._pds, request.pd)
        check_range(request.recv_wr, 1, hca.HCA_MAX_WR)
        receives = round_up_to_power_of_two(request.recv_wr)
        check_range(request.limit, 0, receives)
        size = round_up_to_pages(
            sizeof(hca_objects.HcaSrqPage) + receives * sizeof(hca.HcaRecvSlot)
        )
        handle, index = self._handle(), self._free_srqs[-1]
        created = HcaCreated(handle, index, size, 0, receives)
        with new_page_descriptor("hca-srq", size) as page:
            self._add_srq(request, created, page)
        self._free_srqs.pop()
        return created, page

    def _add_srq(
        self, request: hca_objects.HcaSrqCreate, created: HcaCreated, page: int
    ) -> EngineSrq:
        handle = created.handle
        with self._holding("srq", handle, page, created.page_bytes):
            engine_srq = self._engine.add_srq(self._client, created, request.limit, page)
        self._srqs[handle] = _SharedReceives(
            engine_srq,
            created.index,
            request.pd,
            created.second_count,
            bytes(request),
            bytes(created),
        )
        self._pds[request.pd] += 1
        return engine_srq

    def modify_srq(self, request: hca_objects.HcaSrqModify) -> None:
        """Arm the limit event of a shared receive queue. Raises OSError."""
        srq = get(self._srqs, request.handle)
        check_range(request.limit, 0, srq.count)
        self._engine.set_srq_limit(srq.engine, request.limit)

    def query_srq(self, handle: int) -> hca_objects.HcaSrqModify:
        """Return the limit at which the limit event of a shared receive queue is armed. Raises
        OSError.
        """
        return hca_objects.HcaSrqModify(
            handle, self._engine.srq_limit(get(self._srqs, handle).engine)
        )

    def destroy_srq(self, handle: int) -> None:
        """Remove a shared receive queue that no queue pair uses. Raises OSError."""
        srq = get(self._srqs, handle)
        if srq.queue_pairs:
            raise os_error(errno.EBUSY)
        del self._srqs[handle]
        self._engine.remove_srq(srq.engine)
        self.release("srq", handle)
        self._free_srqs.append(srq.index)
        self._pds[srq.pd] -= 1

    def save_srq(self, handle: int, handover_state: HandoverState) -> Row:
        """Return the shared receive queue's record for a successor.

        The engine must be suspended (``Engine.suspend``).
        """
        srq = self._srqs[handle]
        return {
            "request": to_base64(srq.wanted),
            "created": to_base64(srq.created),
            "page": handover_state.add_descriptor(self.held["srq", handle].descriptor),
            "progress": to_base64(bytes(self._engine.save_srq(srq.engine))),
        }

    def load_srq(self, row: Row, handover_state: HandoverState) -> None:
        """Restore a predecessor's shared receive queue; the engine must be suspended
        (``Engine.suspend``).

        Raises OSError, ValueError.
        """
        request = hca_objects.HcaSrqCreate.from_buffer_copy(from_base64(row["request"]))
        created = HcaCreated.from_buffer_copy(from_base64(row["created"]))
        progress = hca_engine.HcaSavedSrq.from_buffer_copy(from_base64(row["progress"]))
        self._free_srqs.remove(created.index)
        page = handover_state.take_descriptor(row["page"])
        try:
            engine_srq = self._add_srq(request, created, page)
        finally:
            os.close(page)
        self._engine.load_srq(engine_srq, progress)
