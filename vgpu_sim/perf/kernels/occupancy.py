"""How many blocks are resident on a multiprocessor, and which resource limits them.

As the CUDA C++ Programming Guide states under "Occupancy", registers are allocated to warps in
units of 256, and warps to four quarters of the register file.
"""

from typing import Final

from vgpu_sim.perf.errors import BadShape
from vgpu_sim.perf.kernels.chip import (
    REGISTERS,
    SCHEDULERS,
    SHARED_OF_BLOCK_RESERVED,
    WARP,
    Chip,
)
from vgpu_sim.records import dataclass

_UNIT: Final = 256  # unit in which registers are allocated to a warp
_SHARED_UNIT: Final = 128


@dataclass(frozen=True, slots=True)
class Occupancy:
    """The number of blocks per multiprocessor that each resource permits. ``limiter`` names the
    resource that permits the fewest blocks.
    """

    warps_per_block: int
    by_warps: int
    by_registers: int
    by_shared: int
    by_blocks: int

    @property
    def blocks(self) -> int:
        """The number of blocks that are resident together on a multiprocessor."""
        return min(self.by_warps, self.by_registers, self.by_shared, self.by_blocks)

    @property
    def limiter(self) -> str:
        """The resource that runs out first. If several resources run out together, the result is
        the one that programs change most easily.
        """
        limits = {
            "registers": self.by_registers,
            "shared memory": self.by_shared,
            "warps": self.by_warps,
            "blocks": self.by_blocks,
        }
        return min(limits, key=lambda name: limits[name])


def occupancy_of(chip: Chip, threads: int, registers: int, shared: int) -> Occupancy:
    """Return the occupancy for blocks with these numbers of threads, registers and bytes of shared
    memory.

    Raises:
        BadShape: not even one block fits, or the block has no threads.
    """
    if threads <= 0:
        raise BadShape("a block must have at least one thread")
    warps = -(-threads // WARP)
    each = -(-max(registers, 1) * WARP // _UNIT) * _UNIT
    quarter = REGISTERS // SCHEDULERS // each
    shared_of_block = -(-(shared + SHARED_OF_BLOCK_RESERVED) // _SHARED_UNIT) * _SHARED_UNIT
    occupancy = Occupancy(
        warps_per_block=warps,
        by_warps=chip.warps // warps,
        by_registers=quarter * SCHEDULERS // warps,
        by_shared=chip.shared_bytes // shared_of_block,
        by_blocks=chip.blocks,
    )
    if occupancy.blocks < 1:
        raise BadShape(
            f"no block of {threads} threads, {registers} registers and {shared} bytes of shared"
            f" memory fits a multiprocessor of {chip.board.name}:"
            f" the limit is {occupancy.limiter}"
        )
    return occupancy
