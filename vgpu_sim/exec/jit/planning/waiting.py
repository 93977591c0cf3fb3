"""Candidate plans for kernels whose threads wait for each other.

The lanes of a group must wait together (``wait_points``): if they do not, a narrower vector is
used, in the end one lane. If a loop contains a wait point, or the kernel has no loops, a group
has up to 8 vectors even if they exceed the registers, because each wait costs a context switch,
and as many as possible if there is little code between wait points. A block that is one group
needs no switches; it may have more vectors than other groups if no wait point is in a loop, or
if the values live at wait points stay in registers. On CPUs with short vectors, its vectors may
take several registers each if it waits only outside loops.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from vgpu_sim.exec.jit.analysis.value_shapes import analyse
from vgpu_sim.exec.jit.ir.ssa import SsaFunction
from vgpu_sim.exec.jit.planning import code_size, fitting, kernel_facts, sum_chains
from vgpu_sim.exec.jit.planning.candidates import Candidate, Case, plan_of
from vgpu_sim.exec.jit.planning.live_vectors import LiveVectors
from vgpu_sim.exec.jit.planning.plan import Plan
from vgpu_sim.exec.jit.planning.widths import geometries_within_size
from vgpu_sim.exec.jit.progress import wait_points
from vgpu_sim.exec.jit.shapes import geometry as geometries
from vgpu_sim.exec.jit.shapes.geometry import Geometry

_STOPPING_VECTORS: Final = 8
_CROWDED_VECTORS: Final = 2  # vectors share factors; sums are stored and loaded anyway
_TOO_MUCH_CODE: Final = "too much code"
_PLAIN: Final = "threads wait: one warp, without passes to bound compile time"
_MAY_PART: Final = "its lanes may diverge at a wait point"


def whole_block(case: Case) -> Iterator[Candidate]:
    """Yield the plan in which a block is one group, and each vector of the group takes several
    registers.

    The plan is a candidate only if no other plan makes the block one group, and only if all wait
    points are outside loops. Outside loops, a context switch costs more than spills.
    """
    ssa = case.ssa
    each = geometries.MAX_WIDTH // (case.vector_bits // 32)
    vectors = math.prod(case.block) // geometries.MAX_WIDTH
    if each < 2 or vectors * each <= geometries.MAX_VECTORS or kernel_facts.updates_in_loops(ssa):
        return
    around = set().union(*ssa.graph.loops.values())
    stopping = {at for at, _ in wait_points.find(ssa)}
    whole = Geometry(case.block, geometries.MAX_WIDTH, vectors)
    if not stopping or stopping & around:
        return
    if whole not in geometries.legal_geometries(case.block) or whole.groups > 1:
        return
    why = "threads wait outside loops: switches cost more than spills"
    against = ""
    if vectors * case.nodes > code_size.MAX_NODE_VECTORS:
        against = _TOO_MUCH_CODE
    elif not fitting.is_worth_its_vectors(ssa, whole):
        against = fitting.SAVES_NO_SWITCHES
    elif not wait_points.is_legal_geometry(ssa, whole):
        against = _MAY_PART
    elif ssa.graph.loops:
        live = each * _live_at_stops(ssa, whole)
        against = fitting.describe_excess(live, case.registers, "where threads wait, a group")
    yield Candidate(plan_of(whole), why, against)


def list_waiting_plans(case: Case) -> Iterator[Candidate]:
    """Yield candidates in which all vectors of a group wait together, the widest legal vector
    first.
    """
    ssa = case.ssa
    loops = ssa.graph.loops.values()
    # Otherwise a switch costs little compared with the loops.
    hot = not loops or any(b in body for b, _ in wait_points.find(ssa) for body in loops)
    for width, padding in case.shapes:
        why = _why(case, width)
        groups = _groups(case, width, padding)
        if not groups:
            yield from _list_plain_warps(case, width, padding)
            yield Candidate(Plan(width, 1, padding=padding), why, _TOO_MUCH_CODE)
        # Lanes that diverge within a vector diverge in every group of such vectors.
        elif not wait_points.is_legal_geometry(ssa, groups[0]):
            yield Candidate(plan_of(groups[0]), why, _MAY_PART)
        else:
            yield from _vectors(case, groups, why, hot=hot)
            return
    yield Candidate(Plan(1, 1, tier=case.tier), _why(case, 1))


def list_plain_warps(case: Case) -> Iterator[Candidate]:
    """Yield the plan of a kernel whose code is too large for LLVM's passes: one warp, if lanes of
    a warp wait for each other and never diverge where they wait.
    """
    for width, padding in case.shapes:
        yield from _list_plain_warps(case, width, padding)


def _list_plain_warps(case: Case, width: int, padding: geometries.Padding) -> Iterator[Candidate]:
    """Yield the plan of one warp in vectors of a width, if its code is small enough."""
    size_limit = code_size.MAX_PLAIN_WARP_NODE_VECTORS if case.collective else 0
    candidates = geometries_within_size(case.block, width, padding, case.nodes, size_limit)
    for geometry in [g for g in candidates if g.whole_warps][:1]:
        against = "" if wait_points.is_legal_geometry(case.ssa, geometry) else _MAY_PART
        yield Candidate(replace(plan_of(geometry), versioned=False, tier=0), _PLAIN, against)


def _why(case: Case, width: int) -> str:
    if width < case.width:
        return f"lanes of a vector wider than {width} may diverge at a wait point"
    return "threads wait: as many vectors as can wait together without spills"


def _groups(case: Case, width: int, padding: geometries.Padding) -> list[Geometry]:
    """Return the groups of a width whose code is not too large, the smallest first."""
    ssa = case.ssa
    groups = geometries_within_size(
        case.block, width, padding, case.nodes, code_size.MAX_NODE_VECTORS
    )
    groups = [g for g in groups if fitting.is_worth_its_vectors(ssa, g)]
    if not case.collective:
        return case.keep_warps_whole(groups)
    groups = [g for g in groups if g.whole_warps]
    if kernel_facts.has_matrix_products(ssa):  # a warp's totals alone exceed the registers
        groups = groups[:1]
    if groups:
        return groups
    size_limit = code_size.MAX_WARP_NODE_VECTORS
    warp_geometries = geometries_within_size(case.block, width, padding, case.nodes, size_limit)
    return [g for g in warp_geometries if g.whole_warps][:1]


def _vectors(case: Case, groups: list[Geometry], why: str, *, hot: bool) -> Iterator[Candidate]:
    """Yield groups of one width, from the one with the most vectors to the one with the fewest."""
    ssa, registers = case.ssa, case.registers
    if sum_chains.exceeds_registers(ssa, registers):
        groups = [g for g in groups if g.vectors <= _CROWDED_VECTORS] or groups[:1]
    for geometry in reversed(groups[1:]):
        against = _against(ssa, geometry, registers, hot=hot)
        if not against and not wait_points.is_legal_geometry(ssa, geometry):
            against = _MAY_PART
        yield Candidate(plan_of(geometry), why, against)
    yield Candidate(plan_of(groups[0]), why)


def _against(ssa: SsaFunction, geometry: Geometry, registers: int, *, hot: bool) -> str:
    if not hot and kernel_facts.updates_in_loops(ssa):
        return fitting.ATOMIC_LOOP
    if hot and kernel_facts.is_short_between_waits(ssa):
        return ""
    if (
        any(wait_points.find(ssa))
        and geometry.groups == 1
        # A switch stores the live values: where each wait point is reached once, a single group
        # that spills them stores no more, and saves the switches.
        and (not ssa.graph.loops or _live_at_stops(ssa, geometry) <= registers)
    ):
        return ""
    if hot and geometry.vectors <= _STOPPING_VECTORS:
        return ""
    return fitting.reason_against(ssa, geometry, registers)


def _live_at_stops(ssa: SsaFunction, geometry: Geometry) -> int:
    return LiveVectors(analyse(ssa, geometry, assume_guards=True)).at_stops()
