"""What groups of several strips cost kernels whose threads do not wait: registers, mostly.

A group has as many strips as leave the hottest loop's live vectors in registers, at most 4 where
lanes leave a loop one by one, few for kernels that only stream, up to 4 for straight code that
computes much more than it loads.
"""

from typing import Final

from vgpu_sim.exec.jit.analysis.value_shapes import analyse
from vgpu_sim.exec.jit.ir.ssa import SsaFunction
from vgpu_sim.exec.jit.planning import kernel_facts
from vgpu_sim.exec.jit.planning.live_vectors import LiveVectors, constants
from vgpu_sim.exec.jit.progress import stops
from vgpu_sim.exec.jit.shapes.geometry import MAX_STRIPS, Geometry, Padding

_DIVERGENT_STRIPS: Final = 4
_STREAMING_LOADS: Final = 4
_ENDING_STRIPS: Final = 4
_STREAMING_STRIPS: Final = 2
_LOOP_RESERVE: Final = 4  # registers that a loop's own code wants beside its values
ATOMIC_LOOP: Final = "a loop updates memory lane by lane: strips gain nothing"
SAVES_NO_SWITCHES: Final = "one group of a large block saves no switches"


def against(ssa: SsaFunction, geometry: Geometry, registers: int) -> str:
    """Return what speaks against a group of so many strips; empty: nothing."""
    if not ssa.graph.loops:
        return _against_straight_code(ssa, geometry, registers)
    if kernel_facts.updates_in_loops(ssa):
        return ATOMIC_LOOP
    analysis = analyse(ssa, geometry, assume_guards=True)
    loops = kernel_facts.innermost(analysis)
    if geometry.strips > _DIVERGENT_STRIPS and loops & analysis.divergence.loops:
        return f"lanes leave a loop one by one: {_DIVERGENT_STRIPS} strips are the most"
    if kernel_facts.has_strided_gather(analysis, loops):
        return "a hot loop reads by a stride known only at run time"
    live = LiveVectors(analysis)
    peak = max(live.peak(ssa.graph.loops[header]) for header in loops)
    return excess(peak, registers - _LOOP_RESERVE, "a hot loop")


def _against_straight_code(ssa: SsaFunction, geometry: Geometry, registers: int) -> str:
    # Each group costs the step to the next one, and on a line whose end is masked the question
    # whether it is the last.
    ends = geometry.padding == Padding.LINE
    few = geometry.strips <= (_ENDING_STRIPS if ends else _STREAMING_STRIPS)
    if few and sum(len(block.nodes) for block in ssa.blocks.values()) <= kernel_facts.BRIEF:
        return ""
    computes = kernel_facts.mostly_computes(ssa)
    if not computes and kernel_facts.loads(ssa) < _STREAMING_LOADS:
        return "it only streams: more strips gain nothing"
    analysis = analyse(ssa, geometry, assume_guards=True)
    peak = LiveVectors(analysis).peak(frozenset(analysis.order))
    if not computes:
        return excess(peak, registers, "the code")
    # To spill a few values costs less than to wait for results.
    if geometry.strips > _DIVERGENT_STRIPS:
        return f"{_DIVERGENT_STRIPS} strips fill the time of straight code"
    more = geometry.strips > _STREAMING_STRIPS  # fewer want as many constants
    return excess(peak + constants(ssa) if more else peak, 2 * registers, "the code")


def excess(live: int, most: int, where: str) -> str:
    """Return by how much live vectors are more than there should be; empty: they are not."""
    return f"{where} has {live} live vectors, {live - most} too many" if live > most else ""


def is_worth_its_strips(ssa: SsaFunction, geometry: Geometry) -> bool:
    """Return False for a large block as one group, if it saves no switches or they are in loops:
    there what lives in such a group is stored and loaded again in each turn."""
    if geometry.strips <= MAX_STRIPS:
        return True
    return not ssa.graph.loops and any(stops.stops(ssa))
