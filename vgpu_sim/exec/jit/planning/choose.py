"""The default plan of a kernel: width by block shape, strips by register need, mode by rule.

Rules and their measurements: the width is the largest power of two that divides the block's x size
and fits the CPU, unless a padded block keeps more lanes busy; a group has as many strips as leave
the hottest loop's live vectors in registers, at most 4 where lanes leave a loop one by one, few for
kernels that only stream, up to 4 for straight code that computes much more than it loads; loops
whose lanes diverge and mostly gather run lane by lane, unless threads wait for each other, which
costs a switch a lane then. Code size is bounded before anything is emitted.

Lanes that wait for others of their block must stop together (``stops``): where they do not a
narrower strip is taken, at last one lane. A group of a loop that stops, or of a kernel without
loops, has up to 8 strips even if registers are short, because each turn costs a switch, and as many
as there are if little is done between stops. A block that is one group needs none; it may be one,
of more strips than other groups have, where no stop is in a loop, or what lives across its stops
stays in registers. Where vectors are short it is one of strips that take several registers each, if
it waits outside of loops alone.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from vgpu_sim.exec.jit.analysis.value_shapes import Analysis, analyse
from vgpu_sim.exec.jit.ir.ssa import Merge, Operation, SsaFunction, used_values
from vgpu_sim.exec.jit.planning import row_order, sum_chains, unrolled
from vgpu_sim.exec.jit.planning.code_size import amount
from vgpu_sim.exec.jit.planning.live_vectors import LiveVectors, constants
from vgpu_sim.exec.jit.planning.plan import Block, Plan, check_block
from vgpu_sim.exec.jit.progress import stops
from vgpu_sim.exec.jit.shapes import geometry as geometries
from vgpu_sim.exec.jit.shapes.geometry import Padding
from vgpu_sim.exec.jit.shapes.lane_shapes import Vector
from vgpu_sim.isa import Family, Function, Op, Space, reads_memory

# 2 s of compile time at code generation level 1 are about 20,000 LLVM instructions, and a node of
# a strip is about three of them before the passes.
MAX_NODE_STRIPS = 8_000
# Lane by lane a collective is a call and a switch for each lane, hundreds of times as slow: a group
# of one warp may have more. Products of matrices are long, and simple: 64 of m16n8k16 take 2 s.
MAX_WARP_NODE_STRIPS = 32_000
# Finding where lanes part and meet takes time by the square of the blocks; one lane never parts.
MAX_MASKED_BLOCKS = 1_000
_LANE_LOOP_COST = 12
# What a lane of padded geometries is worth: rows whose ends are masked, a line with one such end,
# a line on which thread indices are computed, so that what they address is gathered.
_MASKED, _ENDING, _COMPUTED = 0.6, 0.95, 0.25
_DIVERGENT_STRIPS = 4
_STOPPING_STRIPS = 8
_CROWDED_STRIPS = 2  # they share factors; sums are stored and loaded anyway
_BRIEF = 48  # nodes between stops, above which a strip more than registers hold costs more
_STREAMING_LOADS = 4
_ENDING_STRIPS, _STREAMING_STRIPS = 4, 2
_ARITHMETIC_PER_GATHER = 8
_NODES_PER_LOAD = 20


def choose(ssa: SsaFunction, block: Block, vector_bits: int) -> Plan:
    """Return the plan for ``ssa`` in blocks of this shape, on vectors of ``vector_bits``.

    Raises:
        PlanError: for a block shape that no kernel has.
    """
    return decide(ssa, block, vector_bits)[0]


def decide(ssa: SsaFunction, block: Block, vector_bits: int) -> tuple[Plan, str]:
    """Return the plan as ``choose``, and the rule that it follows from.

    Raises:
        PlanError: see ``choose``.
    """
    check_block(block)
    found = shapes(ssa, block, vector_bits)
    width, padding = found[0]
    nodes = nodes_of(ssa)
    if len(ssa.blocks) > MAX_MASKED_BLOCKS:
        why = f"{len(ssa.blocks)} basic blocks: lanes are not followed where they part and meet"
        return Plan(1, 1, versioned=False, tier=int(nodes <= MAX_NODE_STRIPS)), why
    collective = any(stops.collectives(ssa))
    if is_too_large(ssa, nodes):
        width = min(max(width for width, padding in found if padding == Padding.NONE), 4)
        while not stops.legal(ssa, geometries.Geometry(block, width, 1)):
            width //= 2
        return Plan(width, 1, versioned=False, tier=0), f"{nodes} nodes: compile time is bounded"
    if width > 1 and ssa.graph.loops and not collective and not stops.waits(ssa):
        single = analyse(ssa, geometries.Geometry(block, width, 1, padding), assume_guards=False)
        if _gathers_in_divergent_loops(single):
            return Plan(1, 1), "loops whose lanes diverge mostly gather"
    if width == 1:
        small = int(nodes <= MAX_NODE_STRIPS)
        return Plan(1, 1, tier=small), "no wider strip keeps more lanes busy"
    registers = 32 if vector_bits == 512 else 16
    if collective or stops.waits(ssa):
        whole = _whole_block(ssa, block, nodes, vector_bits // 32, registers)
        if whole is not None:
            return _plan(whole), "threads wait outside of loops: switches cost more than registers"
        plan = _choose_stopping(ssa, block, found, nodes, registers)
        if plan.width < width:
            return plan, f"lanes of a wider strip than {plan.width} may part where threads wait"
        return plan, "threads wait: as many strips as wait together and keep their registers"
    legal = _small_enough(block, width, padding, nodes, MAX_NODE_STRIPS)
    legal = [g for g in legal if _worth_so_many_strips(ssa, g) and not row_order.crowds(ssa, g)]
    return _choose_streaming(ssa, legal, found[0], registers)


def _choose_streaming(
    ssa: SsaFunction,
    found: list[geometries.Geometry],
    shape: tuple[int, Padding],
    registers: int,
) -> tuple[Plan, str]:
    for geometry in reversed(found):
        if geometry.strips == 1 or _fits(ssa, geometry, registers):
            why = "as many strips as keep a hot loop's values in registers"
            if geometry.strips == 1:
                why = "more strips would stream no better, or leave the registers"
            return _plan(geometry), why
    width, padding = shape
    return Plan(width, 1, padding=padding), "more strips would be too much code"


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
    shapes = [g for g in geometries.legal_geometries(block) if _worth_so_many_strips(form, g)]
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
        yield replace(_plan(geometry), versioned=versioned)


def _plan(geometry: geometries.Geometry) -> Plan:
    return Plan(geometry.width, geometry.strips, padding=geometry.padding)


def nodes_of(ssa: SsaFunction) -> int:
    """Return how much there is to be emitted for one strip, in ordinary nodes."""
    return sum(_cost(node) for block in ssa.blocks.values() for node in block.nodes)


def is_too_large(ssa: SsaFunction, nodes: int) -> bool:
    """Return whether a kernel of so many nodes is compiled as narrow code without passes alone."""
    return nodes > (MAX_WARP_NODE_STRIPS if any(stops.collectives(ssa)) else MAX_NODE_STRIPS)


def shapes(ssa: SsaFunction, block: Block, vector_bits: int) -> list[tuple[int, Padding]]:
    """Return widths, and what to pad for them, from the one that keeps most lanes busy on."""
    found = _shapes(block, min(geometries.MAX_WIDTH, vector_bits // 32))
    if stops.has_local_memory(ssa):
        return [(width, padding) for width, padding in found if padding == Padding.NONE]
    return found


def _shapes(block: Block, widest: int) -> list[tuple[int, Padding]]:
    busy: dict[tuple[int, Padding], float] = {}
    width = widest
    while width > 1:
        if block[0] % width == 0:
            busy[width, Padding.NONE] = width
        for padding in (Padding.ROWS, Padding.LINE):
            geometry = geometries.Geometry(block, width, 1, padding)
            if geometry.legal:
                known = all(axis is not None for axis in geometry.axes())
                worth = _MASKED if padding == Padding.ROWS else _ENDING if known else _COMPUTED
                busy[width, padding] = worth * width * geometry.threads / geometry.slots
        width //= 2
    return [*sorted(busy, key=lambda shape: (-busy[shape], shape)), (1, Padding.NONE)]


def _choose_stopping(
    ssa: SsaFunction,
    block: Block,
    shapes: Iterable[tuple[int, Padding]],
    nodes: int,
    registers: int,
) -> Plan:
    loops = ssa.graph.loops.values()
    # Else a switch costs little beside the loops.
    hot = not loops or any(b in body for b, _ in stops.stops(ssa) for body in loops)
    for width, padding in shapes:
        found = _small_enough(block, width, padding, nodes, MAX_NODE_STRIPS)
        found = [g for g in found if _worth_so_many_strips(ssa, g)]
        if any(stops.collectives(ssa)):
            found = [g for g in found if g.whole_warps]
            if _multiplies(ssa):  # a warp's totals alone are more than there are registers
                found = found[:1]
            if not found:
                more = _small_enough(block, width, padding, nodes, MAX_WARP_NODE_STRIPS)
                found = [g for g in more if g.whole_warps][:1]
        # Lanes that part in a strip part in every group of such strips.
        if found and stops.legal(ssa, found[0]):
            if sum_chains.crowded(ssa, registers):
                found = [g for g in found if g.strips <= _CROWDED_STRIPS] or found[:1]
            for g in reversed(found[1:]):
                if _suits(ssa, g, registers, hot=hot) and stops.legal(ssa, g):
                    return _plan(g)
            return _plan(found[0])
    return Plan(1, 1, tier=int(nodes <= MAX_NODE_STRIPS))


def _whole_block(
    ssa: SsaFunction, block: Block, nodes: int, lanes: int, registers: int
) -> geometries.Geometry | None:
    """Return a block as one group whose strips take several registers of ``lanes`` each, if it is
    one only so, and its threads wait where they come once: to switch costs more than to spill."""
    each, strips = geometries.MAX_WIDTH // lanes, math.prod(block) // geometries.MAX_WIDTH
    if each < 2 or strips * each <= geometries.MAX_STRIPS or _updates_in_loops(ssa):
        return None
    around = set().union(*ssa.graph.loops.values())
    stopping = {at for at, _ in stops.stops(ssa)}
    whole = geometries.Geometry(block, geometries.MAX_WIDTH, strips)
    if not stopping or stopping & around or whole not in set(geometries.legal_geometries(block)):
        return None
    if whole.groups > 1 or strips * nodes > MAX_NODE_STRIPS:
        return None
    if not _worth_so_many_strips(ssa, whole) or not stops.legal(ssa, whole):
        return None
    spills = ssa.graph.loops and each * _live_at_stops(ssa, whole) > registers
    return None if spills else whole


def _multiplies(ssa: SsaFunction) -> bool:
    return any(node.instruction.op is Op.MMA for _, node in stops.collectives(ssa))


def _small_enough(
    block: Block, width: int, padding: Padding, nodes: int, most: int
) -> list[geometries.Geometry]:
    """Return the geometries of a width whose code is not too large, the narrowest group first."""
    legal = geometries.legal_geometries(block)
    found = (g for g in legal if g.width == width and g.padding == padding)
    return sorted((g for g in found if g.strips * nodes <= most), key=lambda g: g.strips)


def _suits(ssa: SsaFunction, geometry: geometries.Geometry, registers: int, *, hot: bool) -> bool:
    if not hot and _updates_in_loops(ssa):
        return False
    if hot and _briefly(ssa):
        return True
    if (
        any(stops.stops(ssa))
        and geometry.groups == 1
        # To switch, a group stores what lives: where each stop is come to once, one group that
        # spills it stores no more, and saves the switches.
        and (not ssa.graph.loops or _live_at_stops(ssa, geometry) <= registers)
    ):
        return True
    return (hot and geometry.strips <= _STOPPING_STRIPS) or _fits(ssa, geometry, registers)


def _worth_so_many_strips(ssa: SsaFunction, geometry: geometries.Geometry) -> bool:
    """Return False for a large block as one group, if it saves no switches or they are in loops:
    there what lives in such a group is stored and loaded again in each turn."""
    if geometry.strips <= geometries.MAX_STRIPS:
        return True
    return not ssa.graph.loops and any(stops.stops(ssa))


def _briefly(ssa: SsaFunction) -> bool:
    """Return whether lanes do little between stops, so that switches cost more than registers."""
    blocks = {block for block, _ in stops.stops(ssa)}
    around = [body for body in ssa.graph.loops.values() if body & blocks]
    parts = around or [frozenset(ssa.blocks)]
    return all(sum(len(ssa.blocks[b].nodes) for b in part) <= _BRIEF for part in parts)


def _live_at_stops(ssa: SsaFunction, geometry: geometries.Geometry) -> int:
    return LiveVectors(analyse(ssa, geometry, assume_guards=True)).at_stops()


def _cost(node: Operation | Merge) -> int:
    """Return how much text a node is for a lane group, in ordinary nodes."""
    if not isinstance(node, Operation):
        return 1
    if node.instruction.op.family is Family.ATOMIC:
        return _LANE_LOOP_COST
    return amount(node.instruction)


def _fits(ssa: SsaFunction, geometry: geometries.Geometry, registers: int) -> bool:
    if not ssa.graph.loops:
        # Each group costs the step to the next one, and on a line whose end is masked the question
        # whether it is the last.
        ends = geometry.padding == Padding.LINE
        few = geometry.strips <= (_ENDING_STRIPS if ends else _STREAMING_STRIPS)
        if few and sum(len(block.nodes) for block in ssa.blocks.values()) <= _BRIEF:
            return True
        computes = _mostly_computes(ssa)
        if not computes and _loads(ssa) < _STREAMING_LOADS:
            return False
        analysis = analyse(ssa, geometry, assume_guards=True)
        peak = LiveVectors(analysis).peak(frozenset(analysis.order))
        if computes:  # to spill a few values costs less than to wait for results
            more = geometry.strips > _STREAMING_STRIPS  # fewer want as many constants
            wanted = peak + constants(ssa) if more else peak
            return geometry.strips <= _DIVERGENT_STRIPS and wanted <= 2 * registers
        return peak <= registers
    if _updates_in_loops(ssa):
        return False
    analysis = analyse(ssa, geometry, assume_guards=True)
    loops = _innermost(analysis)
    if geometry.strips > _DIVERGENT_STRIPS and loops & analysis.divergence.loops:
        return False
    if _has_strided_gather(analysis, loops):
        return False
    live = LiveVectors(analysis)
    return all(live.peak(ssa.graph.loops[header]) <= registers - 4 for header in loops)


def _updates_in_loops(ssa: SsaFunction) -> bool:
    """Return whether a loop has atomic updates lane by lane: there strips gain nothing.

    Of integers in shared memory whose results nobody reads they are loads and stores in a row, and
    so, mostly, are sums in global memory (``combined_sums``).
    """
    used = used_values(ssa)
    return any(
        isinstance(node, Operation)
        and node.instruction.op in (Op.ATOM, Op.RED)
        and not (
            node.instruction.space in (Space.SHARED, Space.GLOBAL)
            and not node.instruction.type.is_float
            and used.isdisjoint(node.results)
        )
        for block in set().union(*ssa.graph.loops.values())
        for node in ssa.blocks[block].nodes
    )


def _innermost(analysis: Analysis) -> set[int]:
    loops = analysis.ssa.graph.loops
    return {h for h, body in loops.items() if not any(o in body for o in loops if o != h)}


def _loads(ssa: SsaFunction) -> int:
    return sum(_reads_memory(node) for b in ssa.blocks.values() for node in b.nodes)


def _mostly_computes(ssa: SsaFunction) -> bool:
    """Return whether results are waited for, not memory: a few strips then fill the time."""
    nodes = sum(isinstance(n, Operation) for b in ssa.blocks.values() for n in b.nodes)
    return nodes > _NODES_PER_LOAD * _loads(ssa)


def _reads_memory(node: Operation | Merge) -> bool:
    return isinstance(node, Operation) and reads_memory(node.instruction)


def _has_strided_gather(analysis: Analysis, loops: Iterable[int]) -> bool:
    """Return whether a hot loop reads by a stride known only at run time: never interleave."""
    for header in loops:
        for block in analysis.ssa.graph.loops[header]:
            for node in analysis.ssa.blocks[block].nodes:
                if isinstance(node, Operation) and _reads_memory(node):
                    shape = analysis.shape(node.sources[0], block, 64)
                    if isinstance(shape, Vector) and shape.strided:
                        return True
    return False


def _gathers_in_divergent_loops(analysis: Analysis) -> bool:
    graph = analysis.ssa.graph
    for header in _innermost(analysis) & analysis.divergence.loops:
        gathers = loads = arithmetic = 0
        for block in graph.loops[header]:
            for node in analysis.ssa.blocks[block].nodes:
                if not isinstance(node, Operation):
                    continue
                if _reads_memory(node):
                    loads += 1
                    shape = analysis.shape(node.sources[0], block, 64)
                    gathers += isinstance(shape, Vector)
                arithmetic += node.instruction.op.family is Family.FLOAT
        if gathers * 2 > loads and arithmetic < _ARITHMETIC_PER_GATHER * gathers:
            return True
    return False
