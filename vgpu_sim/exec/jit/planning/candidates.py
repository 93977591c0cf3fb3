"""Plans that are considered for a kernel, in order of preference, and what speaks against each."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from vgpu_sim.exec.jit.ir.ssa import SsaFunction
from vgpu_sim.exec.jit.planning import code_size
from vgpu_sim.exec.jit.planning.plan import Block, Plan
from vgpu_sim.exec.jit.shapes.geometry import Geometry, Padding


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan that was considered; it is the one to take if nothing speaks ``against`` it."""

    plan: Plan
    why: str
    """The rule by which it was considered."""
    against: str = ""
    """What it would cost more than the next one; empty: nothing."""


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel in blocks of one shape, on one CPU: what rules of ``choose`` decide about."""

    ssa: SsaFunction
    block: Block
    vector_bits: int
    shapes: list[tuple[int, Padding]]
    """Widths and their padding, from the one that keeps most lanes busy on."""
    nodes: int
    """Code of one strip, in ordinary instructions."""
    collective: bool
    """Lanes of a warp meet."""

    @property
    def width(self) -> int:
        """The width that keeps most lanes busy."""
        return self.shapes[0][0]

    @property
    def tier(self) -> int:
        """The tier of one lane: LLVM's passes run unless even that is much code."""
        return int(self.nodes <= code_size.MAX_NODE_STRIPS)

    @property
    def registers(self) -> int:
        """Vector registers of the CPU."""
        return 32 if self.vector_bits == 512 else 16


Rule = Callable[[Case], Iterator[Candidate]]
"""Yields candidates, the best first; none where it has nothing to say about a kernel."""


def plan_of(geometry: Geometry) -> Plan:
    """Return the plan of best code for a geometry."""
    return Plan(geometry.width, geometry.strips, padding=geometry.padding)
