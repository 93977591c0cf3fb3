"""The default plan of a kernel: width by block shape, vectors by register pressure, mode by rules.

``RULES`` are in order of preference. Each yields candidates, the best first, with the reason
against each; the first candidate without one is chosen. Rules and their measurements: the width is
the largest power of two that divides the block's x size and fits the CPU, unless a padded block has
more active lanes; loops whose lanes diverge and mostly gather run lane by lane, unless threads wait
for each other, which would cost a context switch per lane; vectors per group follow ``fitting`` and
``waiting``. Where lanes exchange values without waiting (``exchanges``), a group has whole warps.
Code size is bounded before anything is emitted.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

from vgpu_sim.exec.jit.analysis.value_shapes import analyse
from vgpu_sim.exec.jit.ir.ssa import SsaFunction
from vgpu_sim.exec.jit.planning import (
    code_size,
    fitting,
    full_unrolling,
    kernel_facts,
    row_order,
    waiting,
    widths,
)
from vgpu_sim.exec.jit.planning.candidates import Candidate, Case, Rule, plan_of
from vgpu_sim.exec.jit.planning.plan import Block, Plan, check_block
from vgpu_sim.exec.jit.progress import exchanges, wait_points
from vgpu_sim.exec.jit.shapes import geometry as geometries
from vgpu_sim.exec.jit.shapes.geometry import Padding
from vgpu_sim.isa import Function

# The divergence analysis takes time quadratic in the blocks; a single lane never diverges.
MAX_MASKED_BLOCKS = 1_000
_MOST_LARGE_WIDTH: Final = 4


def choose(ssa: SsaFunction, block: Block, vector_bits: int) -> Plan:
    """Return the plan for ``ssa`` in blocks of this shape, on vectors of ``vector_bits``.

    Raises:
        PlanError: the block shape is invalid.
    """
    *_, chosen = list_candidates(ssa, block, vector_bits)
    return chosen.plan


def list_candidates(ssa: SsaFunction, block: Block, vector_bits: int) -> Iterator[Candidate]:
    """Yield the candidates for ``ssa`` in order, up to the plan that ``choose`` returns.

    Raises:
        PlanError: see ``choose``.
    """
    check_block(block)
    padded_widths = widths.shapes(ssa, block, vector_bits)
    collective = any(wait_points.collectives(ssa))
    together = exchanges.exchanges_without_waits(ssa)
    case = Case(
        ssa, block, vector_bits, padded_widths, code_size.nodes_of(ssa), collective, together
    )
    for rule in RULES:
        for candidate in rule(case):
            yield candidate
            if not candidate.against:
                return


def _many_blocks(case: Case) -> Iterator[Candidate]:
    count = len(case.ssa.blocks)
    if count > MAX_MASKED_BLOCKS:
        why = f"{count} basic blocks: too many for an analysis of divergence"
        yield Candidate(Plan(1, 1, versioned=False, tier=case.tier), why)


def _much_code(case: Case) -> Iterator[Candidate]:
    if not code_size.is_too_large(case.ssa, case.nodes):
        return
    yield from waiting.list_plain_warps(case)
    exact = max(width for width, padding in case.shapes if padding == Padding.NONE)
    width = min(exact, _MOST_LARGE_WIDTH)
    while not wait_points.is_legal_geometry(case.ssa, geometries.Geometry(case.block, width, 1)):
        width //= 2
    why = f"{case.nodes} nodes: lane by lane, to bound compile time"
    yield Candidate(Plan(width, 1, versioned=False, tier=0), why)


def _lane_by_lane(case: Case) -> Iterator[Candidate]:
    ssa, (width, padding) = case.ssa, case.shapes[0]
    together = case.collective or case.exchanges or wait_points.waits(ssa)
    if width > 1 and ssa.graph.loops and not together:
        geometry = geometries.Geometry(case.block, width, 1, padding)
        single = analyse(ssa, geometry, assume_guards=False)
        if kernel_facts.gathers_in_divergent_loops(single):
            yield Candidate(Plan(1, 1), "loops whose lanes diverge mostly gather")


def _one_lane(case: Case) -> Iterator[Candidate]:
    if case.width == 1:
        yield Candidate(Plan(1, 1, tier=case.tier), "no wider vector has more active lanes")


def _waiting(case: Case) -> Iterator[Candidate]:
    if case.collective or wait_points.waits(case.ssa):
        yield from waiting.whole_block(case)
        yield from waiting.list_waiting_plans(case)


def _streaming(case: Case) -> Iterator[Candidate]:
    ssa, (width, padding) = case.ssa, case.shapes[0]
    size_limit = code_size.MAX_NODE_VECTORS
    sized_geometries = widths.geometries_within_size(
        case.block, width, padding, case.nodes, size_limit
    )
    allowed = case.keep_warps_whole(sized_geometries)
    for geometry in reversed(allowed):
        why = "as many vectors as keep a hot loop's values in registers"
        against = ""
        if not fitting.is_worth_its_vectors(ssa, geometry):
            against = fitting.SAVES_NO_SWITCHES
        elif row_order.has_too_many_rows(ssa, geometry):
            against = "its rows evict each other from the cache"
        elif geometry.vectors == 1:
            why = "more vectors would not stream faster, or would spill"
        else:
            against = fitting.reason_against(ssa, geometry, case.registers)
        yield Candidate(plan_of(geometry), why, against)
    if allowed is not sized_geometries:
        yield Candidate(plan_of(allowed[0]), "its lanes rely on executing instructions together")
    yield Candidate(Plan(width, 1, padding=padding), "more vectors would be too much code")


RULES: Final[tuple[Rule, ...]] = (
    _many_blocks,
    _much_code,
    _lane_by_lane,
    _one_lane,
    _waiting,
    _streaming,
)


def legal_plans(
    function: Function,
    block: Block,
    order: Callable[[list[geometries.Geometry]], Iterable[geometries.Geometry]] = iter,
) -> Iterator[Plan]:
    """Yield the plans, all of tier 1, that are legal for ``function`` in blocks of this shape. A
    plan is legal if it does not change the function's results.

    ``order`` returns the order in which geometries are tried. A geometry is checked only when
    its plans are requested, since each check requires an analysis.

    Raises:
        PlanError: see ``check_block``.
    """
    check_block(block)
    form = full_unrolling.build(function, block)
    shapes = [
        g for g in geometries.legal_geometries(block) if fitting.is_worth_its_vectors(form, g)
    ]
    last: list[geometries.Geometry] = []  # yielded only if no others are legal
    company, together = wait_points.reads_active_mask(form), False
    for geometry in order(shapes):
        if company and geometry.span == 1:
            last.append(geometry)
        elif wait_points.is_legal_geometry(form, geometry):
            together = True
            yield from _plans(geometry)
    if not together:
        for geometry in last:
            yield from _plans(geometry)


def _plans(geometry: geometries.Geometry) -> Iterator[Plan]:
    for versioned in (True, False):
        yield replace(plan_of(geometry), versioned=versioned)
