"""The points at which threads of a block wait, and the lane groups that may wait as one.

A group suspends as a whole, since the code of its lanes is one call. So no live lane of it may
be on another path when the others wait; if the analysis cannot prove that, each group is one
lane.
"""

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from vgpu_sim.exec.cfg import Cfg
from vgpu_sim.exec.jit.analysis.value_shapes import Analysis, analyse
from vgpu_sim.exec.jit.ir.divergence import blocks_until_join
from vgpu_sim.exec.jit.ir.ssa import Operation, Source, SsaFunction, Value
from vgpu_sim.exec.jit.progress import lockstep, polling_loops
from vgpu_sim.exec.jit.shapes.geometry import Geometry, Padding, legal_geometries
from vgpu_sim.exec.jit.shapes.lane_shapes import Affine
from vgpu_sim.hal.compute.limits import WARP_THREADS
from vgpu_sim.isa import EFFECTS, Family, Literal, Op, VoteMode, has_stack
from vgpu_sim.isa.families.sync import BARRIERS, CLUSTER_OPS, WARPGROUP_BARRIER, WARPGROUP_WARPS

_ALL_LANES = (1 << WARP_THREADS) - 1
Cause = tuple[str, int]
Dimensions = tuple[int, int, int]


def find(ssa: SsaFunction) -> Iterator[tuple[int, Operation]]:
    """Yield the block and the operation of every wait point."""
    for block in ssa.blocks.values():
        for node in block.nodes:
            if isinstance(node, Operation) and EFFECTS[node.instruction.op].stops:
                yield block.index, node


def meets_peers(ssa: SsaFunction) -> bool:
    """Return whether threads wait at the barrier of their cluster."""
    return any(node.instruction.op in CLUSTER_OPS for _, node in find(ssa))


def waits(ssa: SsaFunction) -> bool:
    """Return whether threads of a block wait for each other outside collectives."""
    return any(find(ssa)) or polling_loops.polls_or_pauses(ssa)


def collectives(ssa: SsaFunction) -> Iterator[tuple[int, Operation]]:
    """Yield the block and the operation of every collective and every ACTIVEMASK."""
    for block in ssa.blocks.values():
        for node in block.nodes:
            if isinstance(node, Operation) and EFFECTS[node.instruction.op].collective:
                yield block.index, node


def reads_active_mask(ssa: SsaFunction) -> bool:
    """Return whether the code observes which lanes are active (ACTIVEMASK)."""
    return any(node.instruction.op is Op.ACTIVEMASK for _, node in collectives(ssa))


def lanes_wait(ssa: SsaFunction, geometry: Geometry) -> bool:
    """Return whether lanes wait for lanes of their warp that are in other groups."""
    if geometry.span > 1:
        return False
    has_collectives = any(node.instruction.op is not Op.ACTIVEMASK for _, node in collectives(ssa))
    return has_collectives or bool(waiting_active_masks(ssa, geometry.block))


@functools.lru_cache(maxsize=4)
def waiting_active_masks(ssa: SsaFunction, block: Dimensions) -> frozenset[Operation]:
    """Return the ACTIVEMASKs at which each lane waits for the rest of its warp. The caller ensures
    that each lane is a group of its own.

    An ACTIVEMASK is returned in two cases:

    1. All live lanes reach the ACTIVEMASK on one path, the only earlier waits are those of all
       lanes of the warp, and lanes that never reach it end without waiting. Otherwise a lane that
       polls, or that waits while other lanes are elsewhere, may be waiting for code after the
       ACTIVEMASK.
    2. The ACTIVEMASK follows a barrier at which all lanes of the warp have just met.
    """
    active_masks = {node: place for place, node in collectives(ssa) if _is_active_mask(node)}
    met = _after_whole_warp_barriers(ssa, active_masks.keys())
    warps = (g for g in legal_geometries(block) if g.whole_warps and g.span > 1)
    warp = min(warps, key=lambda geometry: geometry.span, default=None)
    if not active_masks or warp is None:
        return met
    partial = _partial_blocks(analyse(ssa, warp, assume_guards=False))
    alone = {place for place, _ in find(ssa)} | {
        place for place, node in collectives(ssa) if node not in active_masks
    }
    graph = ssa.graph
    polls = set(polling_loops.polling_headers(ssa))
    waits = (*polls, *(place for place in alone if place in partial))
    behind = {place for begin in waits for place in _reachable(graph, begin, graph.exit)}
    away = behind | partial.keys()
    away |= {
        place
        for place in active_masks.values()
        if _waits_on_other_paths(graph, place, polls | alone)
    }
    return met | {node for node, place in active_masks.items() if place not in away}


def _waits_on_other_paths(graph: Cfg, block: int, waits: Iterable[int]) -> bool:
    """Return whether a lane that never reaches ``block`` may wait (``waits`` are the blocks with
    waits).
    """
    other_blocks = _reachable(graph, graph.reverse_post_order[0], block)
    return any(
        place in other_blocks and block not in _reachable(graph, place, graph.exit)
        for place in waits
    )


def _after_whole_warp_barriers(
    ssa: SsaFunction, active_masks: Iterable[Operation]
) -> frozenset[Operation]:
    """Return those of ``active_masks`` that follow a barrier of the whole warp, at which all lanes
    meet.

    Lanes at different barriers with one mask meet as well. That is impossible if there is only
    one such barrier, or if each is passed at most once and of any two one dominates the other:
    then all lanes arrive at the first one, then all at the next, and so on. The code between the
    barrier and ACTIVEMASK is straight-line code without waits.
    """
    barriers = [
        (place, node)
        for place, node in collectives(ssa)
        if node.instruction.op is Op.BAR_WARP and (_is_whole(node) or not _is_known(node))
    ]
    if any(node.guard is not None for _, node in barriers):
        return frozenset()
    if len(barriers) > 1 and not _in_one_line(ssa.graph, [place for place, _ in barriers]):
        return frozenset()
    mask_set, answered = set(active_masks), set()
    for block in ssa.blocks.values():
        is_after_barrier = False
        for node in block.nodes:
            if not isinstance(node, Operation):
                continue
            if node in mask_set:
                answered |= {node} if is_after_barrier else set()
            elif EFFECTS[node.instruction.op].collective or EFFECTS[node.instruction.op].stops:
                is_after_barrier = node.instruction.op is Op.BAR_WARP and _is_whole(node)
    return frozenset(answered)


def _is_known(barrier: Operation) -> bool:
    return isinstance(barrier.sources[-1], Literal)


def _is_whole(barrier: Operation) -> bool:
    """Return whether a barrier names every lane of its warp by a constant."""
    members = barrier.sources[-1]
    return isinstance(members, Literal) and members.bits & _ALL_LANES == _ALL_LANES


def _in_one_line(graph: Cfg, places: Sequence[int]) -> bool:
    """Return whether of any two blocks one dominates the other, and none is in a cycle."""
    for place in places:
        if any(
            place in _reachable(graph, successor, graph.exit)
            for successor in graph.blocks[place].successors
        ):
            return False
    pairs = itertools.combinations(set(places), 2)
    return all(graph.dominates(a, b) or graph.dominates(b, a) for a, b in pairs)


def _is_active_mask(node: Operation) -> bool:
    return node.instruction.op is Op.ACTIVEMASK and node.guard is None


def passes_with_warpgroup(node: Operation) -> bool:
    """Return whether a wait point is the barrier of the thread's warpgroup."""
    named = (Literal(WARPGROUP_BARRIER), Literal(0))
    return node.instruction.op is Op.BAR_SYNC and tuple(node.sources[:2]) == named


@functools.lru_cache(maxsize=4)  # called for every wait point
def needs_counting(ssa: SsaFunction, geometry: Geometry) -> bool:
    """Return whether arrivals at wait points must be counted.

    Counting is unnecessary if every wait point is the same barrier for all threads, and groups
    yield nowhere else, not even for collectives. All groups have then arrived once each group
    has had its time slice. In a block of one warpgroup, the barrier of the warpgroup is a barrier
    of all threads that all of them pass (PTX: ``.aligned``); in a block of one group, lanes that
    pass it have arrived together. The cluster counts groups, whatever lanes they have; but if a
    block has several, those that wait for the cluster miss their time slices.
    """
    if lanes_wait(ssa, geometry) or (meets_peers(ssa) and geometry.groups > 1):
        return True
    if polling_loops.polls_or_pauses(ssa):
        return any(find(ssa))
    met = geometry.groups == 1 or geometry.threads <= WARPGROUP_WARPS * WARP_THREADS
    barriers = set()
    for _, node in find(ssa):
        if node.instruction.op in CLUSTER_OPS:
            continue
        number, count = node.sources[:2]
        if met and passes_with_warpgroup(node):
            continue
        if node.instruction.op is not Op.BAR_SYNC or count != Literal(0):
            return True
        if not isinstance(number, Literal) or number.bits >= BARRIERS:
            return True
        barriers.add(number)
    return len(barriers) > 1


def has_local_memory(ssa: SsaFunction) -> bool:
    """Return whether the function uses local memory, whose layout has no slots for padding
    lanes.
    """
    return ssa.function.local_bytes > 0 or has_stack(ssa.function)


def is_legal_geometry(ssa: SsaFunction, geometry: Geometry) -> bool:
    """Return whether the lanes of each group may wait together under this geometry.

    All live lanes of a group must always be at a wait point together. If arrivals are counted,
    the lanes of a group must also name the same barrier and be in one warp. If there are
    collectives, each group must consist of whole warps, and every lane that a collective names
    must be present. For polling loops see ``lockstep``.
    """
    if geometry.padding != Padding.NONE and has_local_memory(ssa):
        return False
    wait_places, meetings = list(find(ssa)), list(collectives(ssa))
    if geometry.span == 1 or not (waits(ssa) or meetings):
        return True
    within_warps = geometry.linear and WARP_THREADS % geometry.span == 0
    if wait_places and needs_counting(ssa, geometry) and not within_warps:
        return False
    if meetings and not geometry.whole_warps:
        return False
    analysis = analyse(ssa, geometry, assume_guards=False)
    partial = _partial_blocks(analysis)
    if not all(_all_here(analysis, partial, block, node) for block, node in meetings):
        return False
    for block, node in wait_places:
        if block in partial:
            return False
        if node.guard is not None and not analysis.is_uniform(node.guard, block):
            return False
        shapes = [analysis.shape(source, block, 32) for source in node.sources[:2]]
        if not all(isinstance(shape, Affine) and shape.uniform for shape in shapes):
            return False
    return lockstep.can_wait_as_one(analysis)


def _all_here(
    analysis: Analysis, partial: Mapping[int, set[Cause]], block: int, node: Operation
) -> bool:
    """Return whether every live lane that ``node`` names is present at it.

    This holds if no lane is elsewhere, or if the mask was computed by lanes that have not
    diverged since, except on a branch whose condition was the predicate of their ballot.
    """
    if node.instruction.op is Op.ACTIVEMASK:
        return block not in _blocks_with_several_paths(analysis)
    if node.guard is not None and not analysis.is_uniform(node.guard, block):
        return False
    causes = partial.get(block, set())
    if not causes:
        return True
    if node.instruction.op.family is Family.MATRIX:  # all lanes are members
        return False
    home = _named_at(analysis.ssa, node.sources[-1])
    if home is None:
        return False
    at, vote = home
    since = causes - partial.get(at, set())
    if not since:
        return True
    return since == {("branch", at)} and _on_the_true_side(analysis.ssa, at, vote, block)


def _named_at(ssa: SsaFunction, members: Source) -> tuple[int, Source | None] | None:
    """Return the block whose lanes a mask was computed from, and the predicate of their ballot, if
    any.
    """
    if not isinstance(members, Value):
        return None
    definition = ssa.definition.get(members)
    if not isinstance(definition, Operation):
        return None
    instruction = definition.instruction
    if instruction.op is Op.AND:
        return _named_at(ssa, definition.sources[0]) or _named_at(ssa, definition.sources[1])
    if not EFFECTS[instruction.op].collective or definition.guard is not None:
        return None
    if instruction.op is Op.VOTE and instruction.vote is VoteMode.BALLOT:
        return ssa.block_of[members], definition.sources[0]
    if instruction.op in (Op.ACTIVEMASK, Op.MATCH):
        return ssa.block_of[members], None
    return None


def _on_the_true_side(ssa: SsaFunction, branch: int, vote: Source | None, block: int) -> bool:
    condition, successors = ssa.blocks[branch].condition, ssa.blocks[branch].successors
    if condition is None or vote is None or condition.value is not vote:
        return False
    side = successors[1 if condition.negated else 0]
    if side == ssa.graph.exit or len(ssa.graph.blocks[side].predecessors) != 1:
        return False
    return ssa.graph.dominates(side, block)


def _blocks_with_several_paths(analysis: Analysis) -> set[int]:
    """Return the blocks that lanes may reach on several paths that have not joined yet."""
    graph = analysis.ssa.graph
    scattered: set[int] = set()
    for branch in analysis.divergence.branches:
        meet = graph.ipdom[branch]
        sides = [_reachable(graph, side, meet) for side in graph.blocks[branch].successors]
        for place, side in enumerate(sides):
            for other_side in sides[place + 1 :]:
                scattered |= side & other_side
    return scattered


def _reachable(graph: Cfg, start: int, end: int) -> set[int]:
    reached_blocks: set[int] = set()
    pending = [start]
    while pending:
        block = pending.pop()
        if block in reached_blocks or block in (end, graph.exit):
            continue
        reached_blocks.add(block)
        pending += graph.blocks[block].successors
    return reached_blocks


def _partial_blocks(analysis: Analysis) -> dict[int, set[Cause]]:
    """Map the blocks that may run while some lanes of the group are elsewhere to the causes.

    A cause is the branch or loop at which those lanes diverged.
    """
    graph, divergence = analysis.ssa.graph, analysis.divergence
    partial: dict[int, set[Cause]] = {}
    for branch in divergence.branches:
        around = [header for header, body in graph.loops.items() if branch in body]
        ways = [(branch, target) for target in graph.blocks[branch].successors]
        for block in blocks_until_join(graph, analysis.order, ways, around):
            partial.setdefault(block, set()).add(("branch", branch))
    for header in divergence.loops:
        body = graph.loops[header]
        around = [outer_header for outer_header, outer in graph.loops.items() if body < outer]
        ways = [
            (block, target)
            for block in sorted(body)
            for target in graph.blocks[block].successors
            if target not in body
        ]
        for block in body | blocks_until_join(graph, analysis.order, ways, around):
            partial.setdefault(block, set()).add(("loop", header))
    return partial
