"""The worker's main loop: the client's set-up requests, gpud's channel, faults.

Launches do not pass through the loop. The loop ends the process with status 0 when the client
has gone, and with status 70 when the context died.
"""

import os
import select
import socket
import time
from collections.abc import Callable
from functools import partial
from typing import Final, NoReturn

from vgpu_sim.hal import messages
from vgpu_sim.hal.compute import spawn
from vgpu_sim.hal.compute.abi import FaultKind
from vgpu_sim.hal.compute.cuda import CudaError
from vgpu_sim.hal.compute.ports import Backend, FaultSite, NativeBackend, NativeSite
from vgpu_sim.hal.compute.spawn import WorkerConfig
from vgpu_sim.hal.messages import MessageType
from vgpu_sim.worker import wire
from vgpu_sim.worker.channel import Channel, GpudGoneError
from vgpu_sim.worker.chunks import BadChunkError, ChunkRequest, Chunks, OutOfBudgetError
from vgpu_sim.worker.hot_kernels import HotKernels
from vgpu_sim.worker.launches import ERROR_OF_FAULT
from vgpu_sim.worker.module_requests import ModuleRequests
from vgpu_sim.worker.programs import Programs
from vgpu_sim.worker.runtime.binding import KernelHandle, NativeRuntime, Stats
from vgpu_sim.worker.wire import ProtocolError, Request

_STATS_PERIOD_S: Final = 1.0
_LAST_WORDS_S: Final = 5.0
_LOOKS_PER_TIMEOUT: Final = 8  # so a kernel may run an eighth longer than allowed


class Control:
    """Serves one client until the client or its context ends."""

    def __init__(
        self,
        config: WorkerConfig,
        client: socket.socket,
        gpud: socket.socket,
        fault_event: int,
        runtime: NativeRuntime,
    ) -> None:
        self._config = config
        self._client = client
        self._fault_event = fault_event
        self._runtime = runtime
        self.channel = Channel(gpud, fault_event, self._fence, self._export, self._pass_share)
        self.channel.on_reconnected = self._resume
        self._reported, self._reported_at = Stats(), time.monotonic()

    def serve(
        self, backend: Backend, programs: Programs, chunks: Chunks, hot_kernels: HotKernels
    ) -> NoReturn:
        """Serve the client's requests; this does not return."""
        self._backend, self._programs, self._chunks = backend, programs, chunks
        modules = ModuleRequests(self._client, self._config, self.channel, programs, self._attend)
        handlers: dict[MessageType, Callable[[Request], None]] = {
            MessageType.MODULE_LOAD: modules.load,
            MessageType.MODULE_LINK: modules.link,
            MessageType.MODULE_UNLOAD: modules.unload,
            MessageType.MODULE_KERNEL: modules.load_kernel,
            MessageType.CHUNK_ALLOCATE: self._chunk_allocate,
            MessageType.CHUNK_FREE: self._chunk_free,
            MessageType.RANGE_SHARE: self._range_share,
            MessageType.MEMORY_INFO: self._memory_info,
            MessageType.SHARE: self._share,
            MessageType.SHARE_END: self._share_end,
            MessageType.SHARE_OPEN: self._share_open,
            MessageType.VIEW_MAP: self._view_map,
            MessageType.VIEW_UNMAP: self._view_unmap,
            MessageType.ALLOCATION: self._record_allocation,
        }
        poller = select.poll()
        for source in (self._fault_event, self._client, modules, hot_kernels):
            poller.register(source, select.POLLIN)
        polled: set[int] = set()
        period_s = _STATS_PERIOD_S
        if self._config.kernel_timeout_s is not None:
            period_s = min(period_s, self._config.kernel_timeout_s / _LOOKS_PER_TIMEOUT)
        while True:
            channel, peers = self.channel.descriptors(), chunks.peers.descriptors()
            polled = self._poll(poller, polled, channel | peers)
            pause_s = min(period_s, hot_kernels.pause_s(time.monotonic()))
            ready = [descriptor for descriptor, _ in poller.poll(max(1, pause_s * 1000))]
            if self._fault_event in ready:
                self._report_fault()
            if self.channel.alive and self.channel.fileno() in ready:
                self.channel.read()
            if channel & set(ready) and self.channel.accept_reconnect():
                self._resume()
            for descriptor in peers & set(ready):
                chunks.peers.read(descriptor)
            if self._client.fileno() in ready:
                self._guard(lambda: self._serve_request(handlers))
            if modules.fileno() in ready:
                for request, outcome in modules.take():
                    self._guard(partial(modules.finish, request, outcome))
            hot_kernels.look(time.monotonic())
            self._watch_kernel()
            if time.monotonic() - self._reported_at >= _STATS_PERIOD_S:
                self._send_stats()

    def _resume(self) -> None:
        self.channel.resume(**self._counters(self._runtime.stats()))
        self._chunks.shares.renew()

    def _poll(self, poller: select.poll, polled: set[int], present: set[int]) -> set[int]:
        """Poll the present descriptors instead of ``polled``; return them."""
        for gone in polled - present:
            poller.unregister(gone)
        for new in present - polled:
            poller.register(new, select.POLLIN)
        return present

    def _serve_request(self, handlers: dict[MessageType, Callable[[Request], None]]) -> None:
        request = wire.receive(self._client)
        if request is None:
            self._leave()
        handlers[request.kind](request)

    def _guard(self, serve: Callable[[], None]) -> None:
        """Serve a request; an unexpected error ends the context."""
        try:
            serve()
        except ConnectionError:
            self._leave()
        except ProtocolError as err:
            self._end(FaultKind.PROTOCOL, str(err))
        except Exception as err:  # noqa: BLE001 - client and gpud must get the reason
            self._end(FaultKind.INTERNAL, f"the worker failed: {type(err).__name__}: {err}")

    # Requests of the client, in the order of ``MessageType``.

    def _attend(self) -> None:
        """During a request that takes long, spend up to a millisecond on urgent events."""
        self._watch_kernel()
        poller = select.poll()
        poller.register(self._fault_event, select.POLLIN)
        poller.register(self._client, select.POLLRDHUP)
        if self.channel.alive:
            poller.register(self.channel, select.POLLIN)
        ready = dict(poller.poll(1))
        if self._fault_event in ready:
            self._report_fault()
        if self._client.fileno() in ready:
            self._leave()
        if self.channel.fileno() in ready:
            self.channel.read()

    def _chunk_allocate(self, request: Request) -> None:
        chunk = _chunk_request(request)
        try:
            descriptor = self._chunks.allocate(chunk)
        except BadChunkError:
            self._reply(request, CudaError.INVALID_VALUE)
        except OutOfBudgetError:
            self.channel.report_event("out_of_memory", requested_bytes=chunk.size)
            self._reply(request, CudaError.OUT_OF_MEMORY)
        else:
            self._reply(request, CudaError.SUCCESS, None, (descriptor,))
            os.close(descriptor)

    def _chunk_free(self, request: Request) -> None:
        try:
            self._chunks.free(_chunk_request(request))
        except BadChunkError:
            self._reply(request, CudaError.INVALID_VALUE)
        else:
            self._reply(request, CudaError.SUCCESS)

    def _record_allocation(self, request: Request) -> None:
        allocation = _chunk_request(request)
        self._programs.record_allocation(allocation.offset, allocation.size)
        self._reply(request, CudaError.SUCCESS)

    def _range_share(self, request: Request) -> None:
        chunk_range = _chunk_request(request)
        try:
            descriptor = self._chunks.exports.share(chunk_range.offset, chunk_range.size)
        except (KeyError, OSError):
            self._reply(request, CudaError.INVALID_VALUE)
            return
        try:
            self._reply(request, CudaError.SUCCESS, None, (descriptor,))
        finally:
            os.close(descriptor)

    def _memory_info(self, request: Request) -> None:
        free, total = self._slice_memory()
        self._reply(request, CudaError.SUCCESS, messages.MemoryInfo(free, total))

    def _share(self, request: Request) -> None:
        try:
            memory = self._chunks.share(_chunk_request(request))
        except BadChunkError:
            self._reply(request, CudaError.INVALID_VALUE)
        except OutOfBudgetError:
            self._reply(request, CudaError.OUT_OF_MEMORY)
        else:
            self._reply(request, CudaError.SUCCESS, memory)

    def _share_end(self, request: Request) -> None:
        self._chunks.shares.withdraw(request.payload_as(messages.SharedMemory))
        self._reply(request, CudaError.SUCCESS)

    def _share_open(self, request: Request) -> None:
        share = request.payload_as(messages.ShareOpen)
        try:
            descriptor = self._chunks.open_shared(share.memory, share.offset)
        except BadChunkError:
            self._reply(request, CudaError.INVALID_HANDLE)
        except OutOfBudgetError:
            self._reply(request, CudaError.OUT_OF_MEMORY)
        else:
            passed = () if descriptor is None else (descriptor,)
            self._reply(request, CudaError.SUCCESS, None, passed)
            for fd in passed:
                os.close(fd)

    def _view_map(self, request: Request) -> None:
        view = request.payload_as(messages.View)
        try:
            self._chunks.map_view(view.offset, view.source, view.bytes)
        except BadChunkError:
            self._reply(request, CudaError.INVALID_VALUE)
        except OutOfBudgetError:
            self._reply(request, CudaError.OUT_OF_MEMORY)
        else:
            self._reply(request, CudaError.SUCCESS)

    def _view_unmap(self, request: Request) -> None:
        view = request.payload_as(messages.View)
        try:
            self._chunks.unmap_view(view.offset, view.bytes)
        except BadChunkError:
            self._reply(request, CudaError.INVALID_VALUE)
        else:
            self._reply(request, CudaError.SUCCESS)

    def _slice_memory(self) -> tuple[int, int]:
        try:
            return self.channel.memory()
        except GpudGoneError:
            return 0, self._config.memory_limit_bytes  # and no more is available

    def _reply(
        self,
        request: Request,
        status: CudaError,
        payload: messages.MemoryInfo | messages.SharedMemory | None = None,
        descriptors: tuple[int, ...] = (),
    ) -> None:
        kind = MessageType(request.kind + 1)
        wire.reply(self._client, kind, request.id, status, payload, descriptors)

    def _export(self, asker: socket.socket, address: int, size: int, named: bytes) -> None:
        exports = self._chunks.exports
        if named:
            exports.export_shared_range(asker, named, address, size)
        else:
            exports.export_range(asker, address - self._config.aperture_base, size)

    def _pass_share(self, asker: socket.socket, key: str) -> None:
        self._chunks.shares.grant(asker, key)

    # The end of the context.

    def _fence(self, reason: str, error: int) -> None:
        if error:
            self._end(FaultKind.DEVICE, reason, error=error)
        self._end(FaultKind.FENCED, f"the slice was taken away: {reason}")

    def _watch_kernel(self) -> None:
        """End the context if a kernel has exceeded its time limit."""
        limit_s = self._config.kernel_timeout_s
        if limit_s is None:
            return
        stats = self._runtime.stats()
        if stats.running is not None and stats.running_ns(time.monotonic_ns()) >= limit_s * 1e9:
            text = f"the kernel ran for more than the {limit_s:g} s that --kernel-timeout allows"
            self._end(FaultKind.TIMEOUT, text, stats.running)

    def _end(
        self, kind: FaultKind, message: str, kernel: KernelHandle | None = None, error: int = 0
    ) -> NoReturn:
        if self._runtime.fail(kind, error or ERROR_OF_FAULT[kind], message, kernel):
            self._tell_gpud_of_fault()
            os._exit(spawn.FAULTED_STATUS)
        self._report_fault()

    def _report_fault(self) -> NoReturn:
        """Find out where a kernel faulted and report it; the faulting thread then ends the
        process.
        """
        record = self._runtime.fault()
        if record.pc and isinstance(self._backend, NativeBackend):
            native_site = self._backend.locate(self._runtime.native_fault())
            if native_site is None:
                site = FaultSite("", 0, record.message.decode(errors="replace"))
                native_site = NativeSite(site, record.address)
            self._runtime.resolve_fault(native_site)
        self._tell_gpud_of_fault()
        self._runtime.let_fault_end_process()
        time.sleep(_LAST_WORDS_S)
        os._exit(spawn.FAULTED_STATUS)

    def _tell_gpud_of_fault(self) -> None:
        record = self._runtime.fault()
        self._send_stats()
        self._send_usage()
        self.channel.report_event(
            "fault",
            kind=FaultKind(record.kind).name,
            kernel=record.kernel_name.decode(errors="replace"),
            ptx_line=record.ptx_line,
            address=record.address,
            block=record.block,
            message=record.message.decode(errors="replace"),
        )

    def _leave(self) -> NoReturn:
        # Before the client sees its socket close: a context that it opens after that must find this
        # one's memory released, and peers must not reach it by RDMA any more.
        self._chunks.exports.revoke_all()
        self._chunks.shares.leave_all()
        self.channel.release_all()
        self._send_stats()
        self._send_usage()
        os._exit(0)

    def _send_usage(self) -> None:
        if self._config.report_usage:
            for fields in self._programs.usage().messages():
                self.channel.report_usage(**fields)
            for fields in self._programs.modelled_records():
                self.channel.report_modelled(fields)

    def _send_stats(self) -> None:
        stats = self._runtime.stats()
        if stats == self._reported and stats.running is None:
            return
        self.channel.report_stats(**self._counters(stats))

    def _counters(self, stats: Stats) -> dict[str, int | str]:
        """Return the fields of a report of the counters; the caller sends it at once."""
        self._reported, self._reported_at = stats, time.monotonic()
        return {
            "launches": stats.launches,
            "first_launch_ns": stats.first_launch_ns,
            "last_launch_ns": stats.last_launch_ns,
            "busy_ns": stats.busy_ns,
            "running_kernel": stats.running_name,
            "running_since_ns": stats.running_since_ns,
            **stats.counters,
        }


def _chunk_request(request: Request) -> ChunkRequest:
    chunk = request.payload_as(messages.Chunk)
    return ChunkRequest(chunk.offset, chunk.bytes, chunk.kind)
