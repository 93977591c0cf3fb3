"""One access through memory as the JIT sees it: its elements, its address, what confines it."""

from dataclasses import dataclass

from vgpu_sim.exec.jit.lane_shapes import LaneShape
from vgpu_sim.exec.jit.ssa import Operation, Source
from vgpu_sim.exec.jit.text import BITS
from vgpu_sim.isa import Space


@dataclass(frozen=True, slots=True)
class Access:
    """An access through memory: scalar LLVM type of an element, elements, where.

    ``origin``: the pointer whose confinement confines the access, or None. ``aligned_as``: the
    pointer that the access is aligned as, or None where that has to be tested at the access,
    unless it is known to be ``aligned``.
    """

    node: Operation
    scalar: str
    address: Source
    shape: LaneShape
    origin: int | None
    aligned_as: int | None
    aligned: bool = False

    @property
    def shared(self) -> bool:
        """Whether it is one to shared memory."""
        return self.node.instruction.space is Space.SHARED

    @property
    def element_bytes(self) -> int:
        """Bytes of one element."""
        return BITS[self.scalar] // 8

    @property
    def size(self) -> int:
        """Bytes of the whole access, which its address has to be a multiple of."""
        return self.count * self.element_bytes

    @property
    def tested(self) -> bool:
        """Whether its alignment is tested at each execution."""
        return not self.aligned and self.aligned_as is None and self.size > 1

    @property
    def count(self) -> int:
        return self.node.instruction.vector

    @property
    def displacement(self) -> int:
        return self.node.instruction.displacement
