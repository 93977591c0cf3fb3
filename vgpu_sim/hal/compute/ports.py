"""What a backend is to the worker: the HAL at the height of one ring slot.

Copies, fills, waits and timestamps are the same for every backend and live in the worker's C
runtime. A backend loads containers and runs launches: a native one hands out entry points that the
C runtime calls by itself, an interpreted one is called for every launch.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NewType, Protocol, runtime_checkable

from vgpu_sim.hal.compute.limits import STACK_BYTES_PER_THREAD

ProgramHandle = NewType("ProgramHandle", int)


@dataclass(frozen=True, slots=True)
class Launch:
    """A validated launch. ``parameters`` is exactly the kernel's parameter block, ``shared_bytes``
    what it asks for beside the kernel's own shared memory, ``stack_bytes`` the stack of each thread
    where calls need one."""

    function: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    parameters: bytes
    shared_bytes: int = 0
    stack_bytes: int = STACK_BYTES_PER_THREAD


@dataclass(frozen=True, slots=True)
class FaultSite:
    """Where a kernel faulted, as far as the backend can tell (line 0: unknown).

    ``thread`` is the thread's index in its block, None where it is not known. ``source`` is the
    place in the program that the PTX was made of, ``text`` the PTX line. ``is_global``: the fault's
    address is one of global memory.
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
    """Native code of a kernel for one block shape: where it is, and how it is called.

    ``groups`` 0: ``address`` is a ``tessera_kernel_entry`` of the native headers, which runs whole
    blocks, and clears what each of them shares. Else a block's threads wait for each other in so
    many groups of lanes, ``address`` is a ``tessera_group_entry``, and each group needs
    ``stack_bytes`` of stack. ``counts`` is how many lanes a group has where groups come to barriers
    that are counted, or meet in a warp; else 0. ``polls`` says that they wait for other blocks
    too.

    ``provisional``: there will be better code, unless its compiler ends before. ``refused`` is how
    many objects of it were in the cache and could not be used.
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
    """The launch of a native kernel that faulted. ``block_index`` counts blocks, x first;
    ``local_bytes`` is what a thread has of local memory."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    block_index: int
    segment_base: int
    dynamic_shared_bytes: int
    multiprocessors: int
    local_bytes: int


@dataclass(frozen=True, slots=True)
class NativeFault:
    """What is left of a native kernel that faulted; ``kind`` is an ``abi.FaultKind``.

    ``address`` is where it faulted, confined to the aperture, or (``shared``) in shared memory; of
    an access to local memory (``local``) it is not known.
    ``trap_word`` is the number of the trap's instruction, plus 1, or 0, and ``message`` what the
    runtime says of it. ``parameters`` begins with the launch's parameter block. ``mapped`` is the
    memory that there is: addresses and sizes in bytes; ``shared_bytes`` is what a block has.
    ``launch`` is None where it is not known.
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
    """Where that was. ``address`` is what the program asked for, 0 where nobody knows."""

    site: FaultSite
    address: int


class LaunchFault(Exception):
    """A launch that ended its context: ``kind`` is an ``abi.FaultKind``, addresses are absolute."""

    def __init__(self, kind: int, site: FaultSite, address: int = 0, block: int = 0) -> None:
        super().__init__(f"{site.function}:{site.ptx_line}: {site.message}")
        self.kind = kind
        self.site = site
        self.address = address
        self.block = block


class EmitError(Exception):
    """There is no code for a request: a backend's own refusal, or the end of who was emitting.

    ``killed``: somebody else ended it, so that another attempt may end otherwise.
    """

    def __init__(self, message: str, *, killed: bool = False) -> None:
        super().__init__(message)
        self.killed = killed


class Emitter(Protocol):
    """Passes requests on to ``NativeBackend.emit`` of processes that may die."""

    def ask(self, request: bytes, *, at_leisure: bool = False) -> "Future[bytes]":
        """Begin to emit code; the result may be an EmitError. On any thread.

        ``at_leisure``: where nobody waits for it, so it takes what others leave of the CPUs.
        """


class Backend(Protocol):
    """Loads containers (``vgpu_sim.isa`` binaries)."""

    def load(self, container: bytes, segment_base: int, module: Any = None) -> ProgramHandle:
        """Take a container whose module variables begin at address ``segment_base``.

        ``module`` is the ``isa.Module`` in it, for those who have it at hand.
        """

    def refusals(self, module: Any) -> tuple[FaultSite, ...]:
        """Say what of a module (``isa.Module``) this backend cannot run yet, when it is loaded."""

    def unload(self, program: ProgramHandle) -> None:
        """Forget a program; launches of it must have ended."""


@runtime_checkable
class NativeBackend(Backend, Protocol):
    """Compiles to native code that the worker's C runtime calls by itself."""

    def use_cache(self, directory: Path | None) -> None:
        """Keep compiled code in this directory from now on, None: nowhere.

        The caller is inside its sandbox: code that is found there may be run at once.
        """

    def emit(self, request: bytes) -> bytes:
        """Emit code in this process, which a defect of the code generator may end.

        Raises:
            EmitError: when there is no code for the request.
        """

    def warm_up_to_emit(self) -> Iterator[None]:
        """Emit code that this machine has emitted before, so that ``emit`` takes less time.

        In this process, which forks those that ``emit``, or is one. In steps, the most useful
        first, after each of which it can be left.
        """

    def rehearse(self) -> Iterator[None]:
        """Do what comes before and after ``emit``, with nothing of a client's; in such steps."""

    def emit_by(self, emitter: Emitter) -> None:
        """Have code emitted by other processes."""

    def entry(
        self,
        program: ProgramHandle,
        function: str,
        block: tuple[int, int, int],
        improve: Callable[[NativeEntry], None],
    ) -> NativeEntry:
        """Return native code for this block shape, compiling it if need be; on several threads.

        Where it is provisional, ``improve`` is called with the better code when that is there, on
        another thread, even before this returns. Both stay as long as the program.

        Raises:
            LaunchFault: when the function cannot be compiled (kind COMPILE).
        """

    def locate(self, fault: NativeFault) -> NativeSite | None:
        """Say where a fault inside code of this backend came from."""


@runtime_checkable
class InterpretedBackend(Backend, Protocol):
    """Runs a launch to its end inside the call."""

    def run(self, program: ProgramHandle, launch: Launch) -> None:
        """Run every block. Several threads call it at once, whose launches may wait for each other.

        Raises:
            LaunchFault: kind ADDRESS or TRAP.
        """
