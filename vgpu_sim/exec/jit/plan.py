"""Plans: the free choices of code generation. Results are bit-equal for every legal plan."""

from collections.abc import Iterator
from dataclasses import dataclass

from vgpu_sim.exec.jit.errors import PlanError
from vgpu_sim.exec.jit.geometry import MAX_BLOCK_THREADS, Geometry, legal_geometries
from vgpu_sim.isa import Function

Block = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Plan:
    """``width`` lanes to a chunk, ``chunks`` chunks to a group.

    ``versioned``: guards at the top that end threads get a version without masks. ``tier`` 0 skips
    LLVM's passes and optimises code generation least: it compiles fast and runs slowly.
    """

    width: int
    chunks: int
    versioned: bool = True
    tier: int = 1

    def geometry(self, block: Block) -> Geometry:
        """This plan's view of a block.

        Raises:
            PlanError: when it is not legal for that block.
        """
        check_block(block)
        geometry = Geometry(block, self.width, self.chunks)
        if geometry not in set(legal_geometries(block)) or self.tier not in (0, 1):
            raise PlanError(f"{self} is not legal for a block of {block}")
        return geometry


def check_block(block: Block) -> None:
    """Raise PlanError for a block shape that no kernel can have."""
    threads = block[0] * block[1] * block[2]
    if min(block) < 1 or threads > MAX_BLOCK_THREADS:
        raise PlanError(f"a block of {block} has not between 1 and {MAX_BLOCK_THREADS} threads")


def legal_plans(function: Function, block: Block) -> Iterator[Plan]:
    """All plans that may run ``function`` with blocks of this shape (tier 1).

    Raises:
        PlanError: see ``check_block``.
    """
    check_block(block)
    del function  # none restricts them yet; shuffles and barriers will
    for geometry in legal_geometries(block):
        for versioned in (True, False):
            yield Plan(geometry.width, geometry.chunks, versioned)
