"""The default plan of a kernel: width by block shape, strips by register need, mode by rule.

``RULES`` are in order of preference. Each yields the plans that it considers, the best first, and
what speaks against each; the first plan that nothing speaks against is taken. Rules and their
measurements: the width is the largest power of two that divides the block's x size and fits the
CPU, unless a padded block keeps more lanes busy; loops whose lanes diverge and mostly gather run
lane by lane, unless threads wait for each other, which costs a switch a lane then; strips as
``fitting`` and ``waiting`` say. Code size is bounded before anything is emitted.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

from vgpu_sim.exec.jit.analysis.value_shapes import analyse
from vgpu_sim.exec.jit.ir.ssa import SsaFunction
from vgpu_sim.exec.jit.planning import (
    code_size,
    fitting,
    kernel_facts,
    row_order,
    unrolled,
    waiting,
    widths,
)
from vgpu_sim.exec.jit.planning.candidates import Candidate, Case, Rule, plan_of
from vgpu_sim.exec.jit.planning.plan import Block, Plan, check_block
from vgpu_sim.exec.jit.progress import stops
from vgpu_sim.exec.jit.shapes import geometry as geometries
from vgpu_sim.exec.jit.shapes.geometry import Padding
from vgpu_sim.isa import Function

# Finding where lanes part and meet takes time by the square of the blocks; one lane never parts.
MAX_MASKED_BLOCKS = 1_000
_MOST_LARGE_WIDTH: Final = 4


def choose(ssa: SsaFunction, block: Block, vector_bits: int) -> Plan:
    """Return the plan for ``ssa`` in blocks of this shape, on vectors of ``vector_bits``.

    Raises:
        PlanError: for a block shape that no kernel has.
    """
    *_, chosen = considered(ssa, block, vector_bits)
    return chosen.plan


def considered(ssa: SsaFunction, block: Block, vector_bits: int) -> Iterator[Candidate]:
    """Yield what is considered for ``ssa``, in order, up to the plan that ``choose`` returns.

    Raises:
        PlanError: see ``choose``.
    """
    check_block(block)
    found = widths.shapes(ssa, block, vector_bits)
    collective = any(stops.collectives(ssa))
    case = Case(ssa, block, vector_bits, found, code_size.nodes_of(ssa), collective)
    for rule in RULES:
        for candidate in rule(case):
            yield candidate
            if not candidate.against:
                return


def _many_blocks(case: Case) -> Iterator[Candidate]:
    count = len(case.ssa.blocks)
    if count > MAX_MASKED_BLOCKS:
        why = f"{count} basic blocks: lanes are not followed where they part and meet"
        yield Candidate(Plan(1, 1, versioned=False, tier=case.tier), why)


def _much_code(case: Case) -> Iterator[Candidate]:
    if not code_size.is_too_large(case.ssa, case.nodes):
        return
    exact = max(width for width, padding in case.shapes if padding == Padding.NONE)
    width = min(exact, _MOST_LARGE_WIDTH)
    while not stops.legal(case.ssa, geometries.Geometry(case.block, width, 1)):
        width //= 2
    why = f"{case.nodes} nodes: compile time is bounded"
    yield Candidate(Plan(width, 1, versioned=False, tier=0), why)


def _lane_by_lane(case: Case) -> Iterator[Candidate]:
    ssa, (width, padding) = case.ssa, case.shapes[0]
    if width > 1 and ssa.graph.loops and not case.collective and not stops.waits(ssa):
        geometry = geometries.Geometry(case.block, width, 1, padding)
        single = analyse(ssa, geometry, assume_guards=False)
        if kernel_facts.gathers_in_divergent_loops(single):
            yield Candidate(Plan(1, 1), "loops whose lanes diverge mostly gather")


def _one_lane(case: Case) -> Iterator[Candidate]:
    if case.width == 1:
        yield Candidate(Plan(1, 1, tier=case.tier), "no wider strip keeps more lanes busy")


def _waiting(case: Case) -> Iterator[Candidate]:
    if case.collective or stops.waits(case.ssa):
        yield from waiting.whole_block(case)
        yield from waiting.together(case)


def _streaming(case: Case) -> Iterator[Candidate]:
    ssa, (width, padding) = case.ssa, case.shapes[0]
    most = code_size.MAX_NODE_STRIPS
    for geometry in reversed(widths.small_enough(case.block, width, padding, case.nodes, most)):
        why = "as many strips as keep a hot loop's values in registers"
        against = ""
        if not fitting.is_worth_its_strips(ssa, geometry):
            against = fitting.SAVES_NO_SWITCHES
        elif row_order.crowds(ssa, geometry):
            against = "its rows crowd each other out of the cache"
        elif geometry.strips == 1:
            why = "more strips would stream no better, or leave the registers"
        else:
            against = fitting.against(ssa, geometry, case.registers)
        yield Candidate(plan_of(geometry), why, against)
    yield Candidate(Plan(width, 1, padding=padding), "more strips would be too much code")


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
    """Yield all plans that give ``function`` the same results in blocks of this shape (tier 1).

    Whether one is legal is found out when its geometry's turn in ``order`` comes: it costs an
    analysis.

    Raises:
        PlanError: see ``check_block``.
    """
    check_block(block)
    form = unrolled.build(function, block)
    shapes = [g for g in geometries.legal_geometries(block) if fitting.is_worth_its_strips(form, g)]
    last: list[geometries.Geometry] = []  # where lanes see their company: if no others are legal
    company, together = stops.shows_company(form), False
    for geometry in order(shapes):
        if company and geometry.span == 1:
            last.append(geometry)
        elif stops.legal(form, geometry):
            together = True
            yield from _plans(geometry)
    if not together:
        for geometry in last:
            yield from _plans(geometry)


def _plans(geometry: geometries.Geometry) -> Iterator[Plan]:
    for versioned in (True, False):
        yield replace(plan_of(geometry), versioned=versioned)
