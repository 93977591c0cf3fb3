"""The candidate plans of a kernel, in order of preference, with the reason against each."""

from collections.abc import Callable, Iterator

from vgpu_sim.exec.jit.ir.ssa import SsaFunction
from vgpu_sim.exec.jit.planning import code_size
from vgpu_sim.exec.jit.planning.plan import Block, Plan
from vgpu_sim.exec.jit.shapes.geometry import Geometry, Padding
from vgpu_sim.records import dataclass


@dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate plan. ``against`` is the reason to reject the plan; it is empty if the plan is
    acceptable.
    """

    plan: Plan
    why: str
    """The rule by which the plan became a candidate."""
    against: str = ""
    """Why the plan is rejected; empty if it is acceptable."""


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel, a block shape and a CPU: the input of the rules of ``choose``."""

    ssa: SsaFunction
    block: Block
    vector_bits: int
    shapes: list[tuple[int, Padding]]
    """Legal widths with their padding, the one with the most active lanes first."""
    nodes: int
    """The code size of one vector of lanes, in ordinary instructions."""
    collective: bool
    """Whether lanes of a warp wait for each other."""
    exchanges: bool
    """Whether lanes of a warp rely on executing each instruction together (``exchanges``)."""

    def keep_warps_whole(self, candidates: list[Geometry]) -> list[Geometry]:
        """Return the geometries that may be used: only those of whole warps if lanes rely on
        executing each instruction together and there are any.
        """
        whole = [geometry for geometry in candidates if self.exchanges and geometry.whole_warps]
        return whole or candidates

    @property
    def width(self) -> int:
        """The vector width with the most active lanes."""
        return self.shapes[0][0]

    @property
    def tier(self) -> int:
        """The compilation tier of code that runs lane by lane.

        The tier is 1 (with LLVM's passes), or 0 if the code is too large for these passes.
        """
        return int(self.nodes <= code_size.MAX_NODE_VECTORS)

    @property
    def registers(self) -> int:
        """The number of vector registers of the CPU."""
        return 32 if self.vector_bits == 512 else 16


Rule = Callable[[Case], Iterator[Candidate]]
"""A rule that yields candidates, the best first; none if it does not apply to a kernel."""


def plan_of(geometry: Geometry) -> Plan:
    """Return the plan with this geometry that yields the fastest code: tier 1, with an additional
    version without masks.
    """
    return Plan(geometry.width, geometry.vectors, padding=geometry.padding)
