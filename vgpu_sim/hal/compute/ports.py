"""The interface between a worker and its backend, at the level of one ring slot.

Copies, fills, waits and timestamps are the same for every backend and are implemented in the
worker's C runtime. A backend loads containers and runs launches. A native backend returns entry
points, which the C runtime calls without the backend; an interpreted backend is called for every
launch.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NewType, Protocol, runtime_checkable

from vgpu_sim.hal.compute.limits import STACK_BYTES_PER_THREAD
from vgpu_sim.records import dataclass

ProgramHandle = NewType("ProgramHandle", int)


@dataclass(frozen=True, slots=True)
class Launch:
    """A validated launch of a kernel.

    ``parameters`` is exactly the kernel's parameter block. ``shared_bytes`` is the size of the
    dynamic shared memory, in addition to the kernel's own; ``stack_bytes`` is the size of each
    thread's stack if calls need one. ``multiprocessors`` is how many of the device's the launch may
    use; 0 for all. ``cluster`` is the number of a cluster's blocks in x, y and z, if the launch
    states it. ``depth`` is how many grids launched one another before this one.
    """

    function: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    parameters: bytes
    shared_bytes: int = 0
    stack_bytes: int = STACK_BYTES_PER_THREAD
    multiprocessors: int = 0
    cluster: tuple[int, int, int] | None = None
    depth: int = 0


@dataclass(frozen=True, slots=True)
class FaultSite:
    """The place at which a kernel faulted, as far as the backend knows it.

    ``ptx_line`` is the number of the PTX line, or 0 if it is unknown, and ``text`` is that line.
    ``source`` is the position in the original source code from which the PTX line was compiled.
    ``thread`` is the index of the faulting thread in its block, or None if it is unknown.
    ``is_global`` is set if the fault's address is in global memory.
    """

    function: str
    ptx_line: int
    message: str
    thread: tuple[int, int, int] | None = None
    source: str = ""
    text: str = ""
    is_global: bool = False


@dataclass(frozen=True, slots=True)
class NativeEntry:
    """A kernel's native code for one block shape: its address and its calling convention.

    If ``groups`` is 0, ``address`` is a ``tessera_kernel_entry`` of the native headers, which
    runs whole blocks and clears each block's shared memory. Otherwise the threads of a block may
    wait for each other, so the block runs as ``groups`` groups of lanes: ``address`` is a
    ``tessera_group_entry``, and each group needs ``stack_bytes`` of stack. ``counts`` is the
    number of lanes per group if groups wait at counted barriers or in warp collectives, else 0.
    ``polls`` is set if the code also waits for other blocks.

    ``provisional`` is set if the backend can compile better code to replace this code
    (``NativeBackend.improve``).
    ``refused`` is the number of the kernel's cached objects that were unusable.
    """

    address: int
    groups: int = 0
    stack_bytes: int = 0
    counts: int = 0
    polls: bool = False
    provisional: bool = False
    refused: int = 0


@dataclass(frozen=True, slots=True)
class FaultedLaunch:
    """The launch of a native kernel that faulted. ``block_index`` is the faulting block's index,
    counted with x varying fastest; ``local_bytes`` is the size of each thread's local memory, and
    ``cluster_blocks`` the number of blocks of a cluster.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    block_index: int
    segment_base: int
    dynamic_shared_bytes: int
    multiprocessors: int
    local_bytes: int
    cluster_blocks: int = 1


@dataclass(frozen=True, slots=True)
class NativeFault:
    """The state of a native kernel that faulted; ``kind`` is an ``abi.FaultKind``.

    ``address`` is the faulting address after it was clamped to the aperture. If ``shared`` is
    set, the address is in shared memory; if ``local`` is set, the access was to local memory and
    its address is unknown. ``trap_word`` is the number of the trap's instruction plus 1, or 0 if
    there is none; ``message`` is the runtime's description of the fault. ``parameters`` begins
    with the launch's parameter block. ``mapped`` lists the address and the size in bytes of each
    range of mapped memory; ``shared_bytes`` is the size of a block's shared memory. ``launch``
    is None if unknown.
    """

    pc: int
    kind: int = 0
    address: int = 0
    trap_word: int = 0
    message: str = ""
    shared_bytes: int = 0
    shared: bool = False
    local: bool = False
    parameters: bytes = b""
    aperture_base: int = 0
    mapped: tuple[tuple[int, int], ...] = ()
    launch: FaultedLaunch | None = None


@dataclass(frozen=True, slots=True)
class NativeSite:
    """The place of a native fault. ``address`` is the address that the program requested, before
    the code clamped it; 0 if that address is unknown.
    """

    site: FaultSite
    address: int


class LaunchFault(Exception):
    """Raised by a launch that ended its context. ``kind`` is an ``abi.FaultKind``; addresses are
    absolute.
    """

    def __init__(self, kind: int, site: FaultSite, address: int = 0, block: int = 0) -> None:
        super().__init__(f"{site.function}:{site.ptx_line}: {site.message}")
        self.kind = kind
        self.site = site
        self.address = address
        self.block = block


class EmitError(Exception):
    """A request produced no code: the backend refused it, or the emitting process ended.

    ``killed`` is set if the cause is unrelated to the request, for example if the process was
    killed. Another attempt may then succeed.
    """

    def __init__(self, message: str, *, killed: bool = False) -> None:
        super().__init__(message)
        self.killed = killed


class Emitter(Protocol):
    """Forwards requests to ``NativeBackend.emit`` in other processes. If such a process dies, this
    process continues.
    """

    def request_code(self, request: bytes, *, at_leisure: bool = False) -> "Future[bytes]":
        """Start to emit the code that ``request`` describes. Return a future; its result is the
        code, or it raises EmitError. Any thread may call this.

        If ``at_leisure`` is set, no launch waits for the code, so it is emitted at low priority.
        """


class Backend(Protocol):
    """Loads containers (``vgpu_sim.isa`` binaries) and determines how their kernels run."""

    def load(self, container: bytes, segment_base: int, module: Any = None) -> ProgramHandle:
        """Load a container whose module variables begin at address ``segment_base``.

        ``module`` is the decoded ``isa.Module`` of the container, if the caller has it.
        """

    def refusals(self, module: Any) -> tuple[FaultSite, ...]:
        """Return the places in ``module`` (an ``isa.Module``) that this backend cannot execute. The
        ``message`` of each place is the reason.

        It is called when the module is loaded.
        """

    def unload(self, program: ProgramHandle) -> None:
        """Unload a program. All launches of the program must have ended."""


@runtime_checkable
class NativeBackend(Backend, Protocol):
    """A backend that compiles kernels to native code, which the worker's C runtime calls without
    the backend.
    """

    def use_cache(self, directory: Path | None) -> None:
        """Cache compiled code in this directory from now on; None: do not cache.

        The calling process must already be in its sandbox, because cached code may be run at
        once.
        """

    def emit(self, request: bytes) -> bytes:
        """Emit code in this process. A defect of the code generator may end the process.

        Raises:
            EmitError: the request produced no code.
        """

    def warm_up_to_emit(self) -> Iterator[None]:
        """Emit code that this machine has emitted before, to speed up a later ``emit``.

        Call this in a process that will call ``emit``, or that will fork processes that call
        ``emit``. The returned iterator performs one step at a time, and the most useful steps
        first. The caller may stop after each step.
        """

    def warm_up_in_steps(self) -> Iterator[None]:
        """Warm up the code generator: run the parts of a compilation that precede and follow
        ``emit``. No data of a client is used.

        The returned iterator performs one step at a time; the caller may stop after each step.
        """

    def use_emitter(self, emitter: Emitter) -> None:
        """From now on, emit no code in this process. Send each request to ``emitter`` instead;
        another process then emits the code.
        """

    def entry(
        self,
        program: ProgramHandle,
        function: str,
        block: tuple[int, int, int],
        replace_code: Callable[[NativeEntry], None],
    ) -> NativeEntry:
        """Return native code of a kernel for blocks of the shape ``block``. If there is no such
        code yet, compile the kernel. Several threads may call this at the same time.

        If the returned code is provisional, ``improve`` can compile better code, for which it calls
        ``replace_code``. The returned code and the better code both remain valid until the program
        is unloaded.

        Raises:
            LaunchFault: the function cannot be compiled (kind COMPILE).
        """

    def improve(self, program: ProgramHandle, function: str, block: tuple[int, int, int]) -> None:
        """Start to compile better code than the provisional code that ``entry`` has returned. When
        it is ready, the function ``replace_code`` that ``entry`` got is called, on another thread.
        Further calls for the same function and block have no effect.
        """

    def locate(self, fault: NativeFault) -> NativeSite | None:
        """Return the place in the program at which this backend's code faulted; None if it is
        unknown.
        """


@runtime_checkable
class InterpretedBackend(Backend, Protocol):
    """A backend that runs each launch to its end within one call."""

    def run(self, program: ProgramHandle, launch: Launch) -> None:
        """Run every block of a launch. Several threads may call this at the same time, and their
        launches may wait for each other.

        Raises:
            LaunchFault: kind ADDRESS or TRAP.
        """
