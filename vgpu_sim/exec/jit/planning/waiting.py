"""Candidates for kernels whose threads wait for each other.

Lanes that wait for others of their block must stop together (``stops``): where they do not a
narrower strip is taken, at last one lane. A group of a loop that stops, or of a kernel without
loops, has up to 8 strips even if registers are short, because each turn costs a switch, and as many
as there are if little is done between stops. A block that is one group needs none; it may be one,
of more strips than other groups have, where no stop is in a loop, or what lives across its stops
stays in registers. Where vectors are short it is one of strips that take several registers each, if
it waits outside of loops alone.
"""

import math
from collections.abc import Iterator
from typing import Final

from vgpu_sim.exec.jit.analysis.value_shapes import analyse
from vgpu_sim.exec.jit.ir.ssa import SsaFunction
from vgpu_sim.exec.jit.planning import code_size, fitting, kernel_facts, sum_chains
from vgpu_sim.exec.jit.planning.candidates import Candidate, Case, plan_of
from vgpu_sim.exec.jit.planning.live_vectors import LiveVectors
from vgpu_sim.exec.jit.planning.plan import Plan
from vgpu_sim.exec.jit.planning.widths import small_enough
from vgpu_sim.exec.jit.progress import stops
from vgpu_sim.exec.jit.shapes import geometry as geometries
from vgpu_sim.exec.jit.shapes.geometry import Geometry

_STOPPING_STRIPS: Final = 8
_CROWDED_STRIPS: Final = 2  # they share factors; sums are stored and loaded anyway
_TOO_MUCH_CODE: Final = "too much code"
_MAY_PART: Final = "its lanes may part where threads wait"


def whole_block(case: Case) -> Iterator[Candidate]:
    """Yield a block as one group whose strips take several registers each, if it is one only so,
    and its threads wait where they come once: to switch costs more than to spill."""
    ssa = case.ssa
    each = geometries.MAX_WIDTH // (case.vector_bits // 32)
    strips = math.prod(case.block) // geometries.MAX_WIDTH
    if each < 2 or strips * each <= geometries.MAX_STRIPS or kernel_facts.updates_in_loops(ssa):
        return
    around = set().union(*ssa.graph.loops.values())
    stopping = {at for at, _ in stops.stops(ssa)}
    whole = Geometry(case.block, geometries.MAX_WIDTH, strips)
    if not stopping or stopping & around:
        return
    if whole not in set(geometries.legal_geometries(case.block)) or whole.groups > 1:
        return
    why = "threads wait outside of loops: switches cost more than registers"
    against = ""
    if strips * case.nodes > code_size.MAX_NODE_STRIPS:
        against = _TOO_MUCH_CODE
    elif not fitting.is_worth_its_strips(ssa, whole):
        against = fitting.SAVES_NO_SWITCHES
    elif not stops.legal(ssa, whole):
        against = _MAY_PART
    elif ssa.graph.loops:
        live = each * _live_at_stops(ssa, whole)
        against = fitting.excess(live, case.registers, "where threads wait, a group")
    yield Candidate(plan_of(whole), why, against)


def together(case: Case) -> Iterator[Candidate]:
    """Yield groups of strips that wait together, the widest strip that may first."""
    ssa = case.ssa
    loops = ssa.graph.loops.values()
    # Else a switch costs little beside the loops.
    hot = not loops or any(b in body for b, _ in stops.stops(ssa) for body in loops)
    for width, padding in case.shapes:
        why = _why(case, width)
        found = _groups(case, width, padding)
        if not found:
            yield Candidate(Plan(width, 1, padding=padding), why, _TOO_MUCH_CODE)
        # Lanes that part in a strip part in every group of such strips.
        elif not stops.legal(ssa, found[0]):
            yield Candidate(plan_of(found[0]), why, _MAY_PART)
        else:
            yield from _strips(case, found, why, hot=hot)
            return
    yield Candidate(Plan(1, 1, tier=case.tier), _why(case, 1))


def _why(case: Case, width: int) -> str:
    if width < case.width:
        return f"lanes of a wider strip than {width} may part where threads wait"
    return "threads wait: as many strips as wait together and keep their registers"


def _groups(case: Case, width: int, padding: geometries.Padding) -> list[Geometry]:
    """Return the groups of a width that are not too much code, the narrowest first."""
    ssa = case.ssa
    found = small_enough(case.block, width, padding, case.nodes, code_size.MAX_NODE_STRIPS)
    found = [g for g in found if fitting.is_worth_its_strips(ssa, g)]
    if not case.collective:
        return found
    found = [g for g in found if g.whole_warps]
    if kernel_facts.multiplies(ssa):  # a warp's totals alone are more than there are registers
        found = found[:1]
    if found:
        return found
    most = code_size.MAX_WARP_NODE_STRIPS
    more = small_enough(case.block, width, padding, case.nodes, most)
    return [g for g in more if g.whole_warps][:1]


def _strips(case: Case, found: list[Geometry], why: str, *, hot: bool) -> Iterator[Candidate]:
    """Yield groups of one width, from the one with most strips to the one with fewest."""
    ssa, registers = case.ssa, case.registers
    if sum_chains.crowded(ssa, registers):
        found = [g for g in found if g.strips <= _CROWDED_STRIPS] or found[:1]
    for geometry in reversed(found[1:]):
        against = _against(ssa, geometry, registers, hot=hot)
        if not against and not stops.legal(ssa, geometry):
            against = _MAY_PART
        yield Candidate(plan_of(geometry), why, against)
    yield Candidate(plan_of(found[0]), why)


def _against(ssa: SsaFunction, geometry: Geometry, registers: int, *, hot: bool) -> str:
    if not hot and kernel_facts.updates_in_loops(ssa):
        return fitting.ATOMIC_LOOP
    if hot and kernel_facts.briefly(ssa):
        return ""
    if (
        any(stops.stops(ssa))
        and geometry.groups == 1
        # To switch, a group stores what lives: where each stop is come to once, one group that
        # spills it stores no more, and saves the switches.
        and (not ssa.graph.loops or _live_at_stops(ssa, geometry) <= registers)
    ):
        return ""
    if hot and geometry.strips <= _STOPPING_STRIPS:
        return ""
    return fitting.against(ssa, geometry, registers)


def _live_at_stops(ssa: SsaFunction, geometry: Geometry) -> int:
    return LiveVectors(analyse(ssa, geometry, assume_guards=True)).at_stops()
