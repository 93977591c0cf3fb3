"""The interpreter as a backend: runs each launch within the call, in time slices with other
launches.
"""

import ctypes
import itertools
import math
import struct
from collections.abc import Callable, Sequence
from typing import Final

from vgpu_sim.exec import interp
from vgpu_sim.exec.errors import (
    AddressFault,
    BarrierFault,
    KernelError,
    MisalignedFault,
    UnsupportedError,
)
from vgpu_sim.exec.local_bytes import local_bytes
from vgpu_sim.hal.compute.abi import GRID_DEPTH_SHIFT, FaultKind
from vgpu_sim.hal.compute.ports import FaultSite, Launch, LaunchFault, ProgramHandle
from vgpu_sim.isa import Function, Instruction, Module, Space, TrapCause, container
from vgpu_sim.worker.backends.aperture_memory import ApertureMemory
from vgpu_sim.worker.backends.fair_lock import FairLock
from vgpu_sim.worker.faults import fault_text, source_places
from vgpu_sim.worker.runtime.binding import Region
from vgpu_sim.worker.warm_up import BUFFER_BYTES, KERNEL, warm_up_module

_TRAPS: Final = {
    TrapCause.STACK: FaultKind.STACK,
    TrapCause.FUNCTION: FaultKind.FUNCTION,
    TrapCause.ASSERTION: FaultKind.ASSERTION,
    TrapCause.TENSOR_COPY: FaultKind.INSTRUCTION,
}


class InterpBackend:
    """Implements ``hal.compute.ports.InterpretedBackend``; ``regions`` is the mapped memory."""

    def __init__(self, regions: Callable[[], Sequence[Region]], multiprocessors: int) -> None:
        self._regions = regions
        self._multiprocessors = multiprocessors
        self._grid_ids = itertools.count(1)
        self._containers: dict[ProgramHandle, tuple[bytes, int]] = {}
        self._decoded: dict[ProgramHandle, Module] = {}
        self._numbers = itertools.count(1)
        self._turns = FairLock()
        _warm_up()

    def load(
        self, container_bytes: bytes, segment_base: int, module: Module | None = None
    ) -> ProgramHandle:
        """See ``hal.compute.ports.Backend.load``; the container is decoded when the program first
        runs.
        """
        handle = ProgramHandle(next(self._numbers))
        self._containers[handle] = (container_bytes, segment_base)
        if module is not None:
            self._decoded[handle] = module
        return handle

    def refusals(self, module: Module) -> tuple[FaultSite, ...]:
        """See ``hal.compute.ports.Backend.refusals``."""
        return tuple(
            FaultSite(function.name, _line(function, err.word), str(err))
            for function in module.functions
            for err in interp.refusals(function)
        )

    def unload(self, program: ProgramHandle) -> None:
        """See ``hal.compute.ports.Backend.unload``."""
        del self._containers[program]
        self._decoded.pop(program, None)

    def run(self, program: ProgramHandle, launch: Launch) -> None:
        """See ``hal.compute.ports.InterpretedBackend.run``."""
        container_bytes, segment_base = self._containers[program]
        module = self._decoded.get(program)
        if module is None:
            module = self._decoded[program] = container.decode(container_bytes)
        function = module.function(launch.function)
        try:
            with self._turns:
                interp.run(
                    module,
                    function,
                    launch.grid,
                    launch.block,
                    launch.parameters,
                    ApertureMemory(self._regions()),
                    segment_base,
                    launch.shared_bytes,
                    interp.Surroundings(
                        next(self._grid_ids) | launch.depth << GRID_DEPTH_SHIFT,
                        launch.multiprocessors or self._multiprocessors,
                        launch.stack_bytes,
                    ),
                    self._turns.yield_to_waiting,
                    launch.cluster,
                )
        except KernelError as err:
            raise _kernel_fault(err, module, function, launch) from err
        except UnsupportedError as err:
            site = FaultSite(function.name, _line(function, err.word), str(err))
            raise LaunchFault(FaultKind.COMPILE, site) from err


def _line(function: Function, word: int | None) -> int:
    return 0 if word is None else function.lines[word]


def _warm_up() -> None:
    """Run a kernel in private memory, because numpy imports parts of itself on first use."""
    module = warm_up_module()
    memory = ctypes.create_string_buffer(BUFFER_BYTES)
    address = ctypes.addressof(memory)
    parameters = struct.pack("<Qf", address, 1.0)
    aperture = ApertureMemory([Region(address, BUFFER_BYTES)])
    interp.run(module, module.function(KERNEL), (1, 1, 1), (32, 1, 1), parameters, aperture)


def _kernel_fault(
    err: KernelError, module: Module, function: Function, launch: Launch
) -> LaunchFault:
    x, y, z = err.block
    block = x + launch.grid[0] * (y + launch.grid[1] * z)
    instruction, line = function.code[err.word], function.lines[err.word]
    kind, address, is_global = FaultKind.TRAP, 0, False
    if isinstance(err, BarrierFault):
        message = fault_text.describe_barrier_error(instruction, err.what)
    elif isinstance(err, AddressFault | MisalignedFault):
        illegal = isinstance(err, AddressFault)
        kind = FaultKind.ADDRESS if illegal else FaultKind.MISALIGNED
        fault_name = "illegal address" if illegal else "misaligned address"
        address = err.address
        size = _private_bytes(instruction, function, launch)
        cluster = launch.cluster or function.required_cluster or (1, 1, 1)
        message = fault_text.describe_access(
            fault_name, instruction, address, size, math.prod(cluster)
        )
        is_global = size is None and instruction.space is not Space.PARAM
    else:
        kind = _TRAPS.get(instruction.cause, FaultKind.TRAP)
        message = fault_text.describe_trap(instruction)
    site = FaultSite(function.name, line, message, err.thread, is_global=is_global)
    return LaunchFault(kind, source_places.add_source(site, module.source), address, block)


def _private_bytes(instruction: Instruction, function: Function, launch: Launch) -> int | None:
    """Return the size of the private memory space that an instruction accesses; None if the space
    is not private.
    """
    if instruction.space is Space.SHARED:
        return function.shared_bytes + launch.shared_bytes
    if instruction.space is Space.LOCAL:
        return local_bytes(function, launch.stack_bytes)
    return None
