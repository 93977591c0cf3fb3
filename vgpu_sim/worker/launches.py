"""Answers the native scheduler's questions: code for a block shape, or run this launch."""

import ctypes
from typing import Final

from vgpu_sim.hal.abi import FaultKind
from vgpu_sim.hal.cuda import CudaError
from vgpu_sim.hal.ports import InterpretedBackend, Launch, LaunchFault, NativeBackend
from vgpu_sim.worker.programs import Programs
from vgpu_sim.worker.runtime import Call
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
}

_MESSAGE_BYTES: Final = Call.message.size - 1


class Launches:
    """Called on the scheduler's thread only."""

    def __init__(
        self, backend: NativeBackend | InterpretedBackend, programs: Programs, usage: Usage
    ) -> None:
        self._backend = backend
        self._programs = programs
        self._usage = usage

    def answer(self, call: Call) -> None:
        """Fill in the call's result; any failure becomes a fault of this context."""
        try:
            self._run(call)
        except LaunchFault as err:
            call.fault_kind = err.kind
            call.error = ERROR_OF_FAULT[FaultKind(err.kind)]
            call.ptx_line = err.site.ptx_line
            call.address = err.address
            call.faulting_block = err.block
            call.message = err.site.message.encode()[:_MESSAGE_BYTES]
        except Exception as err:  # noqa: BLE001 - C is the caller: nothing above could catch it
            call.message = f"{type(err).__name__}: {err}".encode()[:_MESSAGE_BYTES]
        else:
            call.fault_kind = FaultKind.NONE

    def _run(self, call: Call) -> None:
        site = self._programs.site(call.kernel)
        block = (call.block[0], call.block[1], call.block[2])
        backend = self._backend
        if isinstance(backend, NativeBackend):
            found = self._usage.shapes.measure(
                lambda: backend.entry(site.program, site.function, block)
            )
            call.entry, call.groups = found.address, found.groups
            call.stack_bytes, call.counts = found.stack_bytes, found.counts
            return
        grid = (call.grid[0], call.grid[1], call.grid[2])
        parameters = ctypes.string_at(call.parameters, call.parameter_bytes)
        backend.run(site.program, Launch(site.function, grid, block, parameters, call.shared_bytes))
