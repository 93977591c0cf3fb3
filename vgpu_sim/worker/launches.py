"""Answers the native scheduler's requests: provide code for a block shape, or run a launch."""

import ctypes
import threading
from collections.abc import Callable
from functools import partial
from time import monotonic_ns
from typing import Final

from vgpu_sim.hal.compute.abi import FaultKind, cluster_size
from vgpu_sim.hal.compute.cuda import CudaError
from vgpu_sim.hal.compute.ports import (
    InterpretedBackend,
    Launch,
    LaunchFault,
    NativeBackend,
    NativeEntry,
)
from vgpu_sim.worker.faults import fault_detail
from vgpu_sim.worker.programs import Programs
from vgpu_sim.worker.runtime.records import Call
from vgpu_sim.worker.usage import Usage

ERROR_OF_FAULT: Final = {
    FaultKind.ADDRESS: CudaError.ILLEGAL_ADDRESS,
    FaultKind.MISALIGNED: CudaError.MISALIGNED_ADDRESS,
    FaultKind.TRAP: CudaError.LAUNCH_FAILED,
    FaultKind.PROTOCOL: CudaError.LAUNCH_FAILED,
    FaultKind.COMPILE: CudaError.NOT_SUPPORTED,
    FaultKind.INTERNAL: CudaError.LAUNCH_FAILED,
    FaultKind.FENCED: CudaError.DEVICE_UNAVAILABLE,
    FaultKind.OUT_OF_MEMORY: CudaError.OUT_OF_MEMORY,
    FaultKind.TIMEOUT: CudaError.LAUNCH_TIMEOUT,
    FaultKind.STACK: CudaError.HARDWARE_STACK_ERROR,
    FaultKind.FUNCTION: CudaError.INVALID_PC,
    FaultKind.ASSERTION: CudaError.ASSERT,
    FaultKind.INSTRUCTION: CudaError.ILLEGAL_INSTRUCTION,
    FaultKind.DEVICE: CudaError.UNKNOWN,
}

_Block = tuple[int, int, int]
_MESSAGE_BYTES: Final = Call.message.size - 1


class Launches:
    """Answers the calls that the native runtime makes while it runs launches. Several threads of
    the runtime may call at once.

    ``watch`` gets each kernel handle and block shape whose launches run in provisional code.
    """

    def __init__(
        self,
        backend: NativeBackend | InterpretedBackend,
        programs: Programs,
        usage: Usage,
        replace_code: Callable[[int, _Block, NativeEntry], int],
        watch: Callable[[int, _Block], None],
    ) -> None:
        self._backend = backend
        self._replace = replace_code
        self._watch = watch
        self._programs = programs
        self._usage = usage
        self._ready: set[tuple[int, _Block]] = set()  # by kernel handle and block shape
        self._lock = threading.Lock()

    def answer(self, call: Call) -> None:
        """Answer one call by storing its result; any failure becomes a fault of this context."""
        try:
            self._run(call)
        except LaunchFault as err:
            call.fault_kind = err.kind
            call.error = ERROR_OF_FAULT[FaultKind(err.kind)]
            call.ptx_line = err.site.ptx_line
            call.address = err.address
            call.faulting_block = err.block
            call.message = err.site.message.encode()[:_MESSAGE_BYTES]
            grid = (call.grid[0], call.grid[1], call.grid[2])
            call.detail = fault_detail.record(err.site, grid)
        except Exception as err:  # noqa: BLE001 - the caller is C and cannot handle an exception
            call.message = f"{type(err).__name__}: {err}".encode()[:_MESSAGE_BYTES]
        else:
            call.fault_kind = FaultKind.NONE

    def _run(self, call: Call) -> None:
        site = self._programs.site(call.kernel)
        block = (call.block[0], call.block[1], call.block[2])
        backend = self._backend
        if isinstance(backend, NativeBackend):
            begin_ns = monotonic_ns()
            native_entry = None
            try:
                replace_code = partial(self._replace_code, call.kernel, block)
                native_entry = backend.entry(site.program, site.function, block, replace_code)
            finally:
                self._count((call.kernel, block), monotonic_ns() - begin_ns, native_entry)
            call.set_entry(native_entry)
            if native_entry.provisional:
                self._watch(call.kernel, block)
            return
        grid = (call.grid[0], call.grid[1], call.grid[2])
        parameters = ctypes.string_at(call.parameters, call.parameter_bytes)
        launch = Launch(
            site.function,
            grid,
            block,
            parameters,
            shared_bytes=call.shared_bytes,
            stack_bytes=call.thread_stack_bytes,
            multiprocessors=call.multiprocessors,
            cluster=cluster_size(call.cluster),
            depth=call.depth,
        )
        backend.run(site.program, launch)

    def _replace_code(self, kernel: int, block: _Block, better: NativeEntry) -> None:
        swapped = self._replace(kernel, block, better)
        with self._lock:
            self._usage.improved += 1
            self._usage.swapped += swapped

    def _count(self, shape: tuple[int, _Block], ns: int, native_entry: NativeEntry | None) -> None:
        """Count a compiled shape once, even if several streams have waited for it."""
        with self._lock:
            first = shape not in self._ready
            self._ready.add(shape)
            if first and native_entry is not None:
                self._usage.provisional += native_entry.provisional
                self._usage.refused += native_entry.refused
        if first:
            self._usage.shapes.add(1, ns)
