"""The cost of groups of several vectors for kernels whose threads do not wait: mostly registers.

A group has as many vectors as keep the live values of the hottest loop in registers: at most 4
if lanes leave a loop one by one, few for kernels that only stream, up to 4 for straight-line
code that computes much more than it loads.
"""

from typing import Final

from vgpu_sim.exec.jit.analysis.value_shapes import analyse
from vgpu_sim.exec.jit.ir.ssa import SsaFunction
from vgpu_sim.exec.jit.planning import kernel_facts
from vgpu_sim.exec.jit.planning.live_vectors import LiveVectors, count_constants
from vgpu_sim.exec.jit.progress import wait_points
from vgpu_sim.exec.jit.shapes.geometry import MAX_VECTORS, Geometry, Padding

_DIVERGENT_VECTORS: Final = 4
_STREAMING_LOADS: Final = 4
_ENDING_VECTORS: Final = 4
_STREAMING_VECTORS: Final = 2
_LOOP_RESERVE: Final = 4  # registers that a loop's own code needs in addition to its values
ATOMIC_LOOP: Final = "a loop updates memory lane by lane: more vectors gain nothing"
SAVES_NO_SWITCHES: Final = "one group of a large block saves no switches"


def reason_against(ssa: SsaFunction, geometry: Geometry, registers: int) -> str:
    """Return the reason why groups must not have as many vectors as in ``geometry``; empty if there
    is no reason.

    ``registers`` is the number of vector registers of the CPU.
    """
    if not ssa.graph.loops:
        return _against_straight_code(ssa, geometry, registers)
    if kernel_facts.updates_in_loops(ssa):
        return ATOMIC_LOOP
    analysis = analyse(ssa, geometry, assume_guards=True)
    loops = kernel_facts.innermost(analysis)
    if geometry.vectors > _DIVERGENT_VECTORS and loops & analysis.divergence.loops:
        return f"lanes leave a loop one by one: at most {_DIVERGENT_VECTORS} vectors"
    if kernel_facts.has_strided_gather(analysis, loops):
        return "a hot loop loads with a stride known only at run time"
    live = LiveVectors(analysis)
    peak = max(live.peak(ssa.graph.loops[header]) for header in loops)
    return describe_excess(peak, registers - _LOOP_RESERVE, "a hot loop")


def _against_straight_code(ssa: SsaFunction, geometry: Geometry, registers: int) -> str:
    # Each group costs the step to the next one, and with a masked tail also the test for the last
    # one.
    ends = geometry.padding == Padding.LINE
    few = geometry.vectors <= (_ENDING_VECTORS if ends else _STREAMING_VECTORS)
    if few and sum(len(block.nodes) for block in ssa.blocks.values()) <= kernel_facts.BRIEF:
        return ""
    computes = kernel_facts.mostly_computes(ssa)
    if not computes and kernel_facts.loads(ssa) < _STREAMING_LOADS:
        return "it only streams: more vectors gain nothing"
    analysis = analyse(ssa, geometry, assume_guards=True)
    peak = LiveVectors(analysis).peak(frozenset(analysis.order))
    if not computes:
        return describe_excess(peak, registers, "the code")
    # Spilling a few values costs less than waiting for results.
    if geometry.vectors > _DIVERGENT_VECTORS:
        return f"{_DIVERGENT_VECTORS} vectors hide the latency of straight-line code"
    # Fewer vectors need as many constants.
    has_extra_vectors = geometry.vectors > _STREAMING_VECTORS
    return describe_excess(
        peak + count_constants(ssa) if has_extra_vectors else peak, 2 * registers, "the code"
    )


def describe_excess(live: int, limit: int, where: str) -> str:
    """Describe by how much the number ``live`` of live vectors exceeds ``limit``; empty if it does
    not.

    ``where`` names the code that the description is about.
    """
    return f"{where} has {live} live vectors, {live - limit} too many" if live > limit else ""


def is_worth_its_vectors(ssa: SsaFunction, geometry: Geometry) -> bool:
    """Return whether groups with as many vectors as in ``geometry`` may pay off.

    A group has more than ``MAX_VECTORS`` vectors only if the group is an entire large block.
    Such a group pays off only if it saves context switches in a kernel without loops. In a loop,
    the values that are live in the group would spill in every iteration.
    """
    if geometry.vectors <= MAX_VECTORS:
        return True
    return not ssa.graph.loops and any(wait_points.find(ssa))
