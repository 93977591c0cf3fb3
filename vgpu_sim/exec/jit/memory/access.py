"""One memory access as the JIT represents it: its elements, its address, and how that is
clamped.
"""

from enum import Enum

from vgpu_sim.exec.jit.ir.ssa import Operation, Source
from vgpu_sim.exec.jit.shapes.lane_shapes import LaneShape
from vgpu_sim.exec.jit.text.writer import BITS
from vgpu_sim.records import dataclass


class Where(Enum):
    """The memory to which an access refers: global or shared memory, or either of them.

    For shared memory, it also states whether the address has 32 bits or is generic.
    """

    GLOBAL = "global memory"
    SHARED = "shared memory, by an address of 32 bits"
    WINDOW = "shared memory, by a generic address"
    EITHER = "one of them, which the address of each lane says"


@dataclass(frozen=True, slots=True)
class Access:
    """A memory access: the LLVM type of its elements, their number, its address, and the memory
    that it accesses.

    ``origin`` is the pointer from which the address is derived, if clamping that pointer also
    clamps the access; otherwise it is None. ``aligned_as`` is the pointer whose alignment check
    covers this access. If it is None, the address itself is checked, unless ``aligned`` is set.
    ``parts`` is the number of adjacent loads that are combined in this access.
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
        """The LLVM type of the access's address."""
        return "i32" if self.where is Where.SHARED else "i64"

    @property
    def element_bytes(self) -> int:
        """The size of one element in bytes."""
        return BITS[self.scalar] // 8

    @property
    def size(self) -> int:
        """The size in bytes of one of the kernel's accesses that are combined in this access.

        An address counts as aligned if it is a multiple of this size.
        """
        return self.count * self.element_bytes // self.parts

    @property
    def tested(self) -> bool:
        """Whether the code tests the alignment of the address each time that the access
        executes.
        """
        return not self.aligned and self.aligned_as is None and self.size > 1

    @property
    def volatile(self) -> bool:
        """Whether the access must be executed each time, even if its result is unused."""
        return self.node.instruction.volatile

    @property
    def memory(self) -> str:
        """The name of the accessed memory; empty if it is unknown or may overlap other memory."""
        named = self.where in (Where.GLOBAL, Where.SHARED) and not self.volatile
        return self.where.name if named else ""

    @property
    def load_keyword(self) -> str:
        """LLVM's keyword for a load by this access."""
        return "load volatile" if self.volatile else "load"

    @property
    def count(self) -> int:
        return self.node.instruction.vector

    @property
    def displacement(self) -> int:
        return self.node.instruction.displacement
