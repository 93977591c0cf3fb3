"""What a backend is to the worker: the HAL at the height of one ring slot.

Copies, fills, waits and timestamps are the same for every backend and live in the worker's C
runtime. A backend loads containers and runs launches: a native one hands out entry points that the
C runtime calls by itself, an interpreted one is called for every launch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NewType, Protocol, runtime_checkable

ProgramHandle = NewType("ProgramHandle", int)


@dataclass(frozen=True, slots=True)
class Launch:
    """A validated launch. ``parameters`` is exactly the kernel's parameter block, ``shared_bytes``
    what it asks for beside the kernel's own shared memory."""

    function: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    parameters: bytes
    shared_bytes: int = 0


@dataclass(frozen=True, slots=True)
class FaultSite:
    """Where a kernel faulted, as far as the backend can tell (line 0: unknown)."""

    function: str
    ptx_line: int
    message: str


@dataclass(frozen=True, slots=True)
class NativeEntry:
    """Native code of a kernel for one block shape: where it is, and how it is called.

    ``groups`` 0: ``address`` is a ``tessera_kernel_entry`` of the native headers, which runs whole
    blocks. Else a block's threads wait for each other in so many groups of lanes, ``address`` is a
    ``tessera_group_entry``, and each group needs ``stack_bytes`` of stack. ``counts`` says that
    groups come to barriers that are counted.
    """

    address: int
    groups: int = 0
    stack_bytes: int = 0
    counts: bool = False


@dataclass(frozen=True, slots=True)
class NativeFault:
    """What is left of a native kernel that faulted; ``kind`` is an ``abi.FaultKind``.

    ``address`` is where it faulted, confined to the aperture, or (``shared``) in shared memory.
    ``trap_word`` is the number of the trap's instruction, plus 1, or 0, and ``message`` what the
    runtime says of it. ``parameters`` begins with the launch's parameter block. ``mapped`` is the
    memory that there is: addresses and sizes in bytes; ``shared_bytes`` is what a block has.
    """

    pc: int
    kind: int = 0
    address: int = 0
    trap_word: int = 0
    message: str = ""
    shared_bytes: int = 0
    shared: bool = False
    parameters: bytes = b""
    aperture_base: int = 0
    mapped: tuple[tuple[int, int], ...] = ()


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
    """There is no code for a request: a backend's own refusal, or the end of who was emitting."""


class Backend(Protocol):
    """Loads containers (``vgpu_sim.isa`` binaries)."""

    def load(self, container: bytes, segment_base: int) -> ProgramHandle:
        """Take a container whose module variables begin at address ``segment_base``."""

    def refusals(self, container: bytes) -> tuple[FaultSite, ...]:
        """Say what of a container this backend cannot run yet, so that loading it can fail."""

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

    def emit_by(self, emit: Callable[[bytes], bytes]) -> None:
        """Have code emitted by a function that passes on to ``emit`` of another process."""

    def entry(
        self, program: ProgramHandle, function: str, block: tuple[int, int, int]
    ) -> NativeEntry:
        """Return native code for this block shape, compiling it if need be.

        Raises:
            LaunchFault: when the function cannot be compiled (kind COMPILE).
        """

    def locate(self, fault: NativeFault) -> NativeSite | None:
        """Say where a fault inside code of this backend came from."""


@runtime_checkable
class InterpretedBackend(Backend, Protocol):
    """Runs a launch to its end inside the call."""

    def run(self, program: ProgramHandle, launch: Launch) -> None:
        """Run every block.

        Raises:
            LaunchFault: kind ADDRESS or TRAP.
        """
