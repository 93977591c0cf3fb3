"""Completion channels and completion queues of a client."""

import errno
import os
from ctypes import sizeof

from hca.binding.engine import Engine, EngineCq
from hca.contract import hca, hca_engine, hca_objects
from hca.contract.hca import HcaCreated, HcaHandle
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
from hca.daemon.objects.client import ClientPlace
from vgpu_sim.records import dataclass


@dataclass(slots=True)
class _Channel:
    writing_fd: int
    queues: int = 0


@dataclass(slots=True)
class _Cq:
    engine: EngineCq
    channel: int
    size: int
    entries: int
    queue_pairs: int = 0


class Completions(ClientPlace):
    """A client's completion channels and queues."""

    def __init__(
        self, engine: Engine, numbers: Numbers, gids: tuple[bytes, ...], memory_bytes: int
    ) -> None:
        """Add the client to the engine. It has no channels or queues yet. Raises OSError."""
        super().__init__(engine, numbers, gids, memory_bytes)
        self._channels: dict[int, _Channel] = {}
        self._cqs: dict[int, _Cq] = {}

    def create_channel(self) -> tuple[HcaHandle, int]:
        """Make a completion channel; return its handle and the reading end of its pipe. Raises
        OSError.
        """
        check_room(self._channels, hca.HCA_MAX_CHANNELS)
        reading, writing = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(writing, False)  # hcad's end only: the client sets its own
        handle = self._handle()
        try:
            self.share.charge(2)
        except OSError:
            os.close(reading)
            os.close(writing)
            raise
        self._channels[handle] = _Channel(writing)
        return HcaHandle(handle), reading

    def destroy_channel(self, handle: int) -> None:
        """Close a completion channel that no completion queue uses. Raises OSError."""
        if get(self._channels, handle).queues:
            raise os_error(errno.EBUSY)
        os.close(self._channels.pop(handle).writing_fd)
        self.share.refund(2)

    def create_cq(self, request: hca.HcaCqCreate) -> tuple[HcaCreated, int]:
        """Make a completion queue; return its description and its page's descriptor. Raises
        OSError.
        """
        check_room(self._cqs, hca.HCA_MAX_CQS)
        check_range(request.entries, 1, hca.HCA_MAX_CQE)
        channel = get(self._channels, request.channel) if request.channel else None
        entries = round_up_to_power_of_two(request.entries)
        size = round_up_to_pages(sizeof(hca.HcaCqPage) + entries * sizeof(hca.HcaCqe))
        handle = self._handle()
        with (
            new_page_descriptor("hca-cq", size) as page,
            self._holding("cq", handle, page, size, descriptors=2),
        ):
            notify = channel.writing_fd if channel is not None else -1
            engine_cq = self._engine.add_cq(self._client, handle, page, size, entries, notify)
            self._cqs[handle] = _Cq(engine_cq, request.channel, size, entries)
            if channel is not None:
                channel.queues += 1
            return HcaCreated(handle, 0, size, entries, 0), page

    def shrinks(self, request: hca_objects.HcaCqResize) -> bool:
        """Return whether a resize request makes the completion queue smaller. Raises OSError."""
        entries = get(self._cqs, request.handle).entries
        check_range(request.entries, 1, hca.HCA_MAX_CQE)
        return round_up_to_power_of_two(request.entries) < entries

    def count_engine_visits(self) -> int:
        """Wake the engine; return how often it has finished processing this client's function."""
        return self._engine.count_visits(self._client)

    def resize_cq(self, request: hca_objects.HcaCqResize) -> tuple[HcaCreated, int]:
        """Resize a completion queue; return its description and its new page's descriptor. Raises
        OSError.

        Only completions that are already in the queue must fit into the new size. Requests in
        flight will still add completions, so ``programs.resizing`` waits for these requests
        before it makes a queue smaller.
        """
        cq = get(self._cqs, request.handle)
        check_range(request.entries, 1, hca.HCA_MAX_CQE)
        entries = round_up_to_power_of_two(request.entries)
        size = round_up_to_pages(sizeof(hca.HcaCqPage) + entries * sizeof(hca.HcaCqe))
        with (
            new_page_descriptor("hca-cq", size) as page,
            self._replacing("cq", request.handle, page, size),
        ):
            self._engine.resize_cq(cq.engine, page, size, entries)
        cq.size, cq.entries = size, entries
        return HcaCreated(request.handle, 0, size, entries, 0), page

    def destroy_cq(self, handle: int) -> None:
        """Remove a completion queue that no queue pair uses. Raises OSError."""
        cq = get(self._cqs, handle)
        if cq.queue_pairs:
            raise os_error(errno.EBUSY)
        del self._cqs[handle]
        self._engine.remove_cq(cq.engine)
        self.release("cq", handle)
        if cq.channel:
            self._channels[cq.channel].queues -= 1

    def save_channel(self, handle: int, handover_state: HandoverState) -> Row:
        """Return the completion channel's record for a successor."""
        return {
            "handle": handle,
            "end": handover_state.add_descriptor(self._channels[handle].writing_fd),
        }

    def load_channel(self, row: Row, handover_state: HandoverState) -> None:
        """Restore a predecessor's completion channel. Raises OSError, ValueError."""
        self.share.charge(2)
        self._channels[int(row["handle"])] = _Channel(handover_state.take_descriptor(row["end"]))

    def save_cq(self, handle: int, handover_state: HandoverState) -> Row:
        """Return the completion queue's record for a successor.

        The engine must be suspended (``Engine.suspend``).
        """
        cq = self._cqs[handle]
        return {
            "handle": handle,
            "page": handover_state.add_descriptor(self.held["cq", handle].descriptor),
            "size": cq.size,
            "entries": cq.entries,
            "channel": cq.channel,
            "progress": to_base64(bytes(self._engine.save_cq(cq.engine))),
        }

    def load_cq(self, row: Row, handover_state: HandoverState) -> None:
        """Restore a predecessor's completion queue.

        The engine must be suspended (``Engine.suspend``). Raises OSError, ValueError.
        """
        handle, size, entries = (int(row[name]) for name in ("handle", "size", "entries"))
        channel = self._channels[row["channel"]] if row["channel"] else None
        notify = channel.writing_fd if channel is not None else -1
        progress = hca_engine.HcaSavedCq.from_buffer_copy(from_base64(row["progress"]))
        page = handover_state.take_descriptor(row["page"])
        try:
            with self._holding("cq", handle, page, size, descriptors=2):
                engine_cq = self._engine.add_cq(self._client, handle, page, size, entries, notify)
        finally:
            os.close(page)
        self._engine.load_cq(engine_cq, progress)
        self._cqs[handle] = _Cq(engine_cq, row["channel"], size, entries)
        if channel is not None:
            channel.queues += 1
