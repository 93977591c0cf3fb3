"""What a backend is to the worker: the HAL at the height of one ring slot.

Copies, fills, waits and timestamps are the same for every backend and live in the worker's C
runtime. A backend loads containers and runs launches: a native one hands out entry points that the
C runtime calls by itself, an interpreted one is called for every launch.
"""

from dataclasses import dataclass
from typing import NewType, Protocol, runtime_checkable

ProgramHandle = NewType("ProgramHandle", int)


@dataclass(frozen=True, slots=True)
class Launch:
    """A validated launch. ``parameters`` is exactly the kernel's parameter block."""

    function: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    parameters: bytes


@dataclass(frozen=True, slots=True)
class FaultSite:
    """Where a kernel faulted, as far as the backend can tell (line 0: unknown)."""

    function: str
    ptx_line: int
    message: str


class LaunchFault(Exception):
    """A launch that ended its context: ``kind`` is an ``abi.FaultKind``, addresses are absolute."""

    def __init__(self, kind: int, site: FaultSite, address: int = 0, block: int = 0) -> None:
        super().__init__(f"{site.function}:{site.ptx_line}: {site.message}")
        self.kind = kind
        self.site = site
        self.address = address
        self.block = block


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

    def entry(self, program: ProgramHandle, function: str, block: tuple[int, int, int]) -> int:
        """Return the address of native code for this block shape, compiling it if need be.

        The code's signature is ``tessera_kernel_entry`` of the native headers.

        Raises:
            LaunchFault: when the function cannot be compiled (kind COMPILE).
        """

    def locate(self, pc: int) -> FaultSite | None:
        """Map a program counter inside code of this backend to where it came from."""


@runtime_checkable
class InterpretedBackend(Backend, Protocol):
    """Runs a launch to its end inside the call."""

    def run(self, program: ProgramHandle, launch: Launch) -> None:
        """Run every block.

        Raises:
            LaunchFault: kind ADDRESS or TRAP.
        """
