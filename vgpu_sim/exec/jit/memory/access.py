"""One access through memory as the JIT sees it: its elements, its address, what confines it."""

from dataclasses import dataclass
from enum import Enum

from vgpu_sim.exec.jit.ir.ssa import Operation, Source
from vgpu_sim.exec.jit.shapes.lane_shapes import LaneShape
from vgpu_sim.exec.jit.text.writer import BITS


class Where(Enum):
    """What an access reaches, and how its address is held."""

    GLOBAL = "global memory"
    SHARED = "shared memory, by an address of 32 bits"
    WINDOW = "shared memory, by a generic address"
    EITHER = "one of them, which the address of each lane says"


@dataclass(frozen=True, slots=True)
class Access:
    """An access through memory: scalar LLVM type of an element, elements, where.

    ``origin``: the pointer whose confinement confines the access, or None. ``aligned_as``: the
    pointer that the access is aligned as, or None where that has to be tested at the access,
    unless it is known to be ``aligned``. ``parts``: how many loads of neighbours it is.
    """

    node: Operation
    scalar: str
    address: Source
    shape: LaneShape
    origin: int | None
    aligned_as: int | None
    aligned: bool = False
    where: Where = Where.GLOBAL
    parts: int = 1

    @property
    def address_type(self) -> str:
        """The LLVM type of its address."""
        return "i32" if self.where is Where.SHARED else "i64"

    @property
    def element_bytes(self) -> int:
        """Bytes of one element."""
        return BITS[self.scalar] // 8

    @property
    def size(self) -> int:
        """Bytes of an access as it was written, which its address has to be a multiple of."""
        return self.count * self.element_bytes // self.parts

    @property
    def tested(self) -> bool:
        """Whether its alignment is tested at each execution."""
        return not self.aligned and self.aligned_as is None and self.size > 1

    @property
    def volatile(self) -> bool:
        """Whether it happens each time, needed or not."""
        return self.node.instruction.volatile

    @property
    def memory(self) -> str:
        """The memory that it is in, if that is known and others may be accessed before it."""
        named = self.where in (Where.GLOBAL, Where.SHARED) and not self.volatile
        return self.where.name if named else ""

    @property
    def load(self) -> str:
        """LLVM's word for loading it."""
        return "load volatile" if self.volatile else "load"

    @property
    def count(self) -> int:
        return self.node.instruction.vector

    @property
    def displacement(self) -> int:
        return self.node.instruction.displacement
