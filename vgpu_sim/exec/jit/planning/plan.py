"""Plans: the free choices of code generation. Results are bit-equal for every legal plan."""

from vgpu_sim.exec.errors import PlanError
from vgpu_sim.exec.jit.shapes.geometry import Geometry, Padding, legal_geometries
from vgpu_sim.hal.compute import limits
from vgpu_sim.records import dataclass

Block = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Plan:
    """How a kernel is compiled: with ``width`` lanes per vector and ``vectors`` vectors per group.

    If ``versioned`` is set, there is also a version without masks, which assumes that no
    top-level guard ends a thread. ``tier`` 0 skips LLVM's passes and generates code at the
    lowest optimisation level: such code compiles fast and runs slowly. ``padding`` specifies
    where lanes are added to the block so that the geometry becomes legal
    (``Geometry.is_legal``).
    """

    width: int
    vectors: int
    versioned: bool = True
    tier: int = 1
    padding: Padding = Padding.NONE

    def geometry(self, block: Block) -> Geometry:
        """Return the geometry of a block under this plan.

        Raises:
            PlanError: the plan is not legal for that block.
        """
        check_block(block)
        geometry = Geometry(block, self.width, self.vectors, self.padding)
        if geometry not in legal_geometries(block) or self.tier not in (0, 1):
            raise PlanError(f"{self} is not legal for a block of {block}")
        return geometry


def check_block(block: Block) -> None:
    """Raise PlanError for an invalid block shape."""
    try:
        limits.check_block(block)
    except ValueError as err:
        raise PlanError(str(err)) from err
