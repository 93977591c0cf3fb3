"""Plans: the free choices of code generation. Results are bit-equal for every legal plan."""

from dataclasses import dataclass

from vgpu_sim.exec.errors import PlanError
from vgpu_sim.exec.jit.shapes.geometry import Geometry, Padding, legal_geometries
from vgpu_sim.hal.compute import limits

Block = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Plan:
    """``width`` lanes to a strip, ``strips`` strips to a group.

    ``versioned``: guards at the top that end threads get a version without masks. ``tier`` 0 skips
    LLVM's passes and optimises code generation least: it compiles fast and runs slowly. ``padding``
    is what makes the block nest.
    """

    width: int
    strips: int
    versioned: bool = True
    tier: int = 1
    padding: Padding = Padding.NONE

    def geometry(self, block: Block) -> Geometry:
        """This plan's view of a block.

        Raises:
            PlanError: when it is not legal for that block.
        """
        check_block(block)
        geometry = Geometry(block, self.width, self.strips, self.padding)
        if geometry not in set(legal_geometries(block)) or self.tier not in (0, 1):
            raise PlanError(f"{self} is not legal for a block of {block}")
        return geometry


def check_block(block: Block) -> None:
    """Raise PlanError for a block shape that no kernel can have."""
    try:
        limits.check_block(block)
    except ValueError as err:
        raise PlanError(str(err)) from err
