"""The sampled blocks of a launch."""

from vgpu_sim.exec.errors import Block
from vgpu_sim.isa import Function
from vgpu_sim.records import dataclass
from vgpu_sim.worker.modelling.watch import Watch
from vgpu_sim.worker.observing.dependence import Dependence


@dataclass(frozen=True, slots=True)
class Shape:
    """The kernel and the shape of a launch, and its shared memory in bytes. These values are needed
    after the launch's blocks have run.
    """

    function: Function
    grid: Block
    threads_per_block: int
    warps_per_block: int
    shared_bytes: int

    @property
    def block_count(self) -> int:
        """The number of blocks in the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]


@dataclass(frozen=True, slots=True)
class Sample:
    """The sampled blocks of a launch; ``places`` are their positions in the grid. The latencies of
    an instruction are taken from the first warp that reaches it, which is usually in the first
    of these blocks.
    """

    launch: Shape
    watch: Watch
    places: tuple[Block, ...]
    truncated: bool
    dependence: Dependence
    extents: tuple[tuple[int, int], ...]
