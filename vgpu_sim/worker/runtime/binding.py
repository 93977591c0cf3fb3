"""Binding of the worker's native runtime (``vgpu_sim/worker/runtime/tessera_worker.h``)."""

import ctypes
import math
import os
from collections.abc import Callable, Mapping
from ctypes import c_char_p, c_int, c_uint32, c_uint64
from dataclasses import field
from pathlib import Path
from typing import NewType

from vgpu_sim.config import LIBRARIES_DIR
from vgpu_sim.hal.compute import abi, ports
from vgpu_sim.records import dataclass
from vgpu_sim.worker.faults import fault_detail
from vgpu_sim.worker.pipes import PIPES
from vgpu_sim.worker.runtime import records
from vgpu_sim.worker.runtime.records import Call, Callback, Observer

LIBRARY_PATH = LIBRARIES_DIR / "libtessera_worker.so"

KernelHandle = NewType("KernelHandle", int)


_PLAIN = (
    "computed_ns",
    "blocks",
    "threads",
    "sm_active_ns",
    "sm_occupancy_ns",
    "set_bytes",
    "host_to_device_bytes",
    "device_to_host_bytes",
    "device_to_device_bytes",
)


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel, with the limits that its launches must respect.

    ``title`` is the name for messages (``vgpu_sim.kernel_names``).
    ``max_threads`` 0 means the device's limit.
    """

    title: str
    segment_base: int
    parameter_bytes: int
    max_threads: int
    required_block: tuple[int, int, int] | None
    interpreted: bool
    required_cluster: tuple[int, int, int] | None = None
    shared_bytes: int = 0
    local_bytes: int = 0
    has_stack: bool = False
    tensor_memory: bool = False
    parameter_image: int = 0  # address, or 0
    launch_buffer: int = 0  # address of the variable that has its address, or 0
    registers: int = 0
    pipes: tuple[int, ...] = (0,) * len(PIPES)


@dataclass(frozen=True, slots=True, order=True)
class Region:
    """A mapped chunk of the aperture, by absolute address."""

    address: int
    size: int


@dataclass(frozen=True, slots=True)
class Stats:
    """Counters of finished launches, and the kernel that has been running for the longest time.

    Times are in ns of CLOCK_MONOTONIC. ``busy_ns`` is the total time during which at least one
    launch ran, up to now. If no kernel runs, ``running`` is None and ``running_since_ns`` is 0.
    ``counters`` holds the other fields of ``hal.management.admin.Counters``, by name.
    """

    launches: int = 0
    first_launch_ns: int = 0
    last_launch_ns: int = 0
    busy_ns: int = 0
    running: KernelHandle | None = None
    running_name: str = ""
    running_since_ns: int = 0
    counters: Mapping[str, int] = field(default_factory=lambda: _counters(records.StatsRecord()))

    def running_ns(self, now_ns: int) -> int:
        """Return for how many ns the running kernel has been running; 0 if none runs."""
        return now_ns - self.running_since_ns if self.running is not None else 0


_PROTOTYPES: dict[str, tuple[object, list[object]]] = {
    "tessera_worker_reserve": (c_int, [c_uint64]),
    "tessera_worker_create_shared": (c_int, [ctypes.POINTER(c_int), ctypes.POINTER(c_int)]),
    "tessera_worker_start": (c_int, [ctypes.POINTER(records.Config)]),
    "tessera_worker_stop": (None, []),
    "tessera_worker_map_chunk": (c_int, [c_uint64, c_uint64, c_int]),
    "tessera_worker_unmap_chunk": (c_int, [c_uint64, c_uint64]),
    "tessera_worker_map_view": (c_int, [c_uint64, c_uint64, c_uint64]),
    "tessera_worker_unmap_view": (c_int, [c_uint64, c_uint64]),
    "tessera_worker_end_events": (c_int, [c_uint64]),
    "tessera_worker_end_participant": (c_int, [c_uint64, c_uint64]),
    "tessera_worker_add_kernel": (c_uint64, [ctypes.POINTER(records.KernelRecord)]),
    "tessera_worker_remove_kernel": (c_int, [c_uint64]),
    "tessera_worker_kernel_runs": (c_int, [c_uint64]),
    "tessera_worker_replace_code": (c_int, [ctypes.POINTER(Call)]),
    "tessera_worker_get_kernel_usage": (
        None,
        [c_uint64, ctypes.POINTER(records.KernelUsage)],
    ),
    "tessera_worker_fail": (c_int, [c_uint32, c_uint32, c_uint64, c_char_p]),
    "tessera_worker_fault": (ctypes.POINTER(abi.FaultRecord), []),
    "tessera_worker_get_fault_origin": (ctypes.POINTER(records.FaultOrigin), []),
    "tessera_worker_resolve_fault": (
        None,
        [c_uint32, c_uint64, c_char_p, ctypes.POINTER(abi.FaultDetail)],
    ),
    "tessera_worker_fault_reported": (None, []),
    "tessera_worker_get_stats": (None, [ctypes.POINTER(records.StatsRecord)]),
}


class NativeRuntime:
    """Calls the C runtime, of which a process has only one. Methods raise OSError with the
    runtime's errno.
    """

    def __init__(self, library: Path = LIBRARY_PATH) -> None:
        try:
            self._library = ctypes.CDLL(str(library))
        except OSError as err:
            raise OSError(
                f"the worker's native runtime cannot be loaded: {err};"
                " `python -m vgpu_sim.native.build` builds it"
            ) from err
        for name, (result, arguments) in _PROTOTYPES.items():
            function = getattr(self._library, name)
            function.restype, function.argtypes = result, arguments
        self._callback: object = None  # ctypes keeps no reference to it
        self._observer: object = None
        self._aperture_base = 0
        self._regions: tuple[Region, ...] = ()

    def reserve(self, aperture_base: int) -> None:
        """Reserve the address range of the aperture and its guards, as inaccessible memory."""
        _check(self._library.tessera_worker_reserve(aperture_base))
        self._aperture_base = aperture_base

    def create_shared(self) -> tuple[int, int]:
        """Return descriptors of the client area and of the worker's page; the caller owns them."""
        area, page = c_int(-1), c_int(-1)
        _check(self._library.tessera_worker_create_shared(ctypes.byref(area), ctypes.byref(page)))
        return area.value, page.value

    def start(
        self,
        *,
        aperture_base: int,
        threads: int,
        max_threads_per_block: int,
        multiprocessors: int,
        client_socket: int,
        fault_event: int,
        answer: Callable[[Call], None],
        sm_limits: tuple[int, int, int, int] = (0, 0, 0, 0),
        observe: Callable[[int, abi.Slot, int, bool], int] | None = None,
    ) -> None:
        """Start the runtime's scheduler and its pool of threads.

        ``answer`` is called on threads of the runtime, several at once; if it raises, the context
        ends.

        ``observe`` is called on threads of the runtime before each request runs, and again when a
        launch has ended. Its arguments are the stream, the slot (valid during the call), the
        address of a launch's parameters, and whether the launch has ended. ``observe`` returns the
        time in ns and must not raise.
        """

        def callback(call: "ctypes._Pointer[Call]") -> None:
            answer(call.contents)

        def observer(
            stream: int, slot: "ctypes._Pointer[abi.Slot]", parameters: int | None, ended: int
        ) -> int:
            assert observe is not None
            return observe(stream, slot.contents, parameters or 0, bool(ended))

        self._callback = Callback(callback)
        self._observer = Observer(observer) if observe is not None else Observer()
        config = records.Config(
            aperture_base=aperture_base,
            threads=threads,
            max_threads_per_block=max_threads_per_block,
            multiprocessors=multiprocessors,
            client_socket=client_socket,
            fault_event=fault_event,
            callback=self._callback,
            sm_threads=sm_limits[0],
            sm_blocks=sm_limits[1],
            sm_shared_bytes=sm_limits[2],
            sm_reserved_bytes=sm_limits[3],
            observer=self._observer,
        )
        _check(self._library.tessera_worker_start(ctypes.byref(config)))

    def map_chunk(self, offset: int, size: int, descriptor: int) -> None:
        """Map a memfd at an offset from the aperture's base."""
        _check(self._library.tessera_worker_map_chunk(offset, size, descriptor))
        region = Region(self._aperture_base + offset, size)
        self._regions = tuple(sorted((*self._regions, region)))

    def unmap_chunk(self, offset: int, size: int) -> None:
        """Release a chunk's pages and make its range inaccessible."""
        gone = Region(self._aperture_base + offset, size)
        self._regions = tuple(region for region in self._regions if region != gone)
        _check(self._library.tessera_worker_unmap_chunk(offset, size))

    def map_view(self, offset: int, source: int, size: int) -> None:
        """Map a part of a chunk at a second offset as well."""
        _check(self._library.tessera_worker_map_view(offset, source, size))
        region = Region(self._aperture_base + offset, size)
        self._regions = tuple(sorted((*self._regions, region)))

    def unmap_view(self, offset: int, size: int) -> None:
        """Make a view's range inaccessible; its pages remain in the chunk."""
        gone = Region(self._aperture_base + offset, size)
        self._regions = tuple(region for region in self._regions if region != gone)
        _check(self._library.tessera_worker_unmap_view(offset, size))

    def end_events(self, offset: int) -> None:
        """Note that the context that made the table of events at ``offset`` has ended."""
        _check(self._library.tessera_worker_end_events(offset))

    def end_participant(self, offset: int, participant: int) -> None:
        """Note that a participant of the table of events at ``offset`` has ended."""
        _check(self._library.tessera_worker_end_participant(offset, participant))

    def regions(self) -> tuple[Region, ...]:
        """Return a snapshot of the mapped chunks, sorted by address. Safe on any thread."""
        return self._regions

    def add_kernel(self, kernel: Kernel) -> KernelHandle:
        """Make a kernel available to launches; return the handle with which launches name it."""
        handle = self._library.tessera_worker_add_kernel(
            records.KernelRecord(
                segment_base=kernel.segment_base,
                parameter_bytes=kernel.parameter_bytes,
                max_threads=kernel.max_threads,
                required_block=kernel.required_block or (0, 0, 0),
                required_cluster=kernel.required_cluster or (0, 0, 0),
                interpreted=kernel.interpreted,
                shared_bytes=kernel.shared_bytes,
                local_bytes=kernel.local_bytes,
                has_stack=kernel.has_stack,
                parameter_image=kernel.parameter_image,
                launch_buffer=kernel.launch_buffer,
                registers=kernel.registers,
                tensor_memory=kernel.tensor_memory,
                pipes=kernel.pipes,
                name=kernel.title.encode()[:127],
            )
        )
        if handle == 0:
            raise MemoryError("too many kernels in one context")
        return KernelHandle(handle)

    def write(self, address: int, content: bytes) -> None:
        """Write to mapped memory of a module's segment, whose kernels cannot run yet."""
        ctypes.memmove(address, content, len(content))

    def remove_kernel(self, handle: KernelHandle) -> None:
        """Make a kernel unavailable to further launches. A launch of the kernel may still be
        running.
        """
        _check(self._library.tessera_worker_remove_kernel(handle))

    def kernel_runs(self, handle: KernelHandle) -> bool:
        """Return whether a launch of this kernel, removed or not, is running."""
        return bool(self._library.tessera_worker_kernel_runs(handle))

    def replace_code(
        self, kernel: int, block: tuple[int, int, int], better: ports.NativeEntry
    ) -> int:
        """Replace a kernel's code for its next blocks, including those of running launches.

        Returns how many running launches continue in the new code. Safe on any thread; has no
        effect for a removed kernel.
        """
        call = Call(kernel=kernel, block=block)
        call.set_entry(better)
        return int(self._library.tessera_worker_replace_code(ctypes.byref(call)))

    def kernel_usage(self, handle: KernelHandle) -> tuple[int, int]:
        """Return how many launches of a kernel have ended, and their total time in ns."""
        usage = records.KernelUsage()
        self._library.tessera_worker_get_kernel_usage(handle, ctypes.byref(usage))
        return usage.launches, usage.busy_ns

    def fail(
        self, kind: abi.FaultKind, error: int, message: str, kernel: KernelHandle | None = None
    ) -> bool:
        """End the context because of a fault. ``kernel`` is the kernel that faulted; None if the
        fault is not that of a kernel. Return False if the context had already ended.
        """
        text = message.encode()[:255]
        return bool(self._library.tessera_worker_fail(kind, error, kernel or 0, text))

    def fault(self) -> abi.FaultRecord:
        """Return the fault record in the worker's page, not a copy of it."""
        record: abi.FaultRecord = self._library.tessera_worker_fault().contents
        return record

    def native_fault(self) -> ports.NativeFault:
        """Return the facts about a native kernel's fault that the fault record omits."""
        record, origin = self.fault(), self._library.tessera_worker_get_fault_origin().contents
        parameters = b""
        if origin.parameters:
            parameters = ctypes.string_at(origin.parameters, abi.MAX_PARAMETER_BYTES)
        return ports.NativeFault(
            pc=record.pc,
            kind=record.kind,
            address=record.address,
            trap_word=origin.word,
            message=record.message.decode(errors="replace"),
            shared_bytes=origin.shared_bytes,
            shared=bool(origin.shared),
            local=bool(origin.local),
            parameters=parameters,
            aperture_base=self._aperture_base,
            mapped=tuple((region.address, region.size) for region in self._regions),
            launch=_faulted_launch(origin, record.block),
        )

    def resolve_fault(self, native_site: ports.NativeSite) -> None:
        """Store the source location of a native fault. The faulting thread waits for this, but for
        3 s at most.
        """
        site = native_site.site
        message = site.message.encode()[:255]
        origin = self._library.tessera_worker_get_fault_origin().contents
        launch = _faulted_launch(origin, 0)
        detail = fault_detail.record(site, launch.grid if launch is not None else None)
        self._library.tessera_worker_resolve_fault(
            site.ptx_line, native_site.address, message, ctypes.byref(detail)
        )

    def let_fault_end_process(self) -> None:
        """Allow the faulting thread to end the process."""
        self._library.tessera_worker_fault_reported()

    def stats(self) -> Stats:
        """Return the counters of all launches so far."""
        stats = records.StatsRecord()
        self._library.tessera_worker_get_stats(ctypes.byref(stats))
        return Stats(
            launches=stats.launches,
            first_launch_ns=stats.first_launch_ns,
            last_launch_ns=stats.last_launch_ns,
            busy_ns=stats.busy_ns,
            running=KernelHandle(stats.running_kernel) if stats.running_kernel else None,
            running_name=stats.running_name.decode(errors="replace"),
            running_since_ns=stats.running_since_ns,
            counters=_counters(stats),
        )


def _faulted_launch(origin: records.FaultOrigin, block_index: int) -> ports.FaultedLaunch | None:
    if not origin.launch:
        return None
    context = origin.launch.contents
    return ports.FaultedLaunch(
        grid=_three(context.grid),
        block=_three(context.block),
        block_index=block_index,
        segment_base=context.segment_base,
        dynamic_shared_bytes=context.dynamic_shared_bytes,
        multiprocessors=context.multiprocessors,
        local_bytes=context.local_bytes,
        cluster_blocks=math.prod(_three(context.cluster)),
    )


def _three(values: "ctypes.Array[c_uint32]") -> tuple[int, int, int]:
    return values[0], values[1], values[2]


def _counters(stats: records.StatsRecord) -> dict[str, int]:
    pipes = dict(zip(PIPES, stats.pipe_ns, strict=True))
    return {
        **{name: getattr(stats, name) for name in _PLAIN},
        **{f"{pipe}_ns": ns for pipe, ns in pipes.items()},
        "memory_ns": pipes["memory"] + stats.copy_ns,
    }


def _check(status: int) -> None:
    if status < 0:
        raise OSError(-status, os.strerror(-status))
