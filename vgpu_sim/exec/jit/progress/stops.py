"""Where the threads of a block wait for each other, and which lane groups can wait as one.

A group stops as a whole: the code of its lanes is one run. So no lane of it that has not ended may
be on another way when the others stop; where the analysis cannot show that, the group is one lane.
"""

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from vgpu_sim.exec.cfg import Cfg
from vgpu_sim.exec.jit.analysis.value_shapes import Analysis, analyse
from vgpu_sim.exec.jit.ir.divergence import apart
from vgpu_sim.exec.jit.ir.ssa import Operation, Source, SsaFunction, Value
from vgpu_sim.exec.jit.progress import lockstep, polling_loops
from vgpu_sim.exec.jit.shapes.geometry import Geometry, Padding, legal_geometries
from vgpu_sim.exec.jit.shapes.lane_shapes import Affine
from vgpu_sim.hal.compute.limits import WARP_THREADS
from vgpu_sim.isa import EFFECTS, Family, Literal, Op, VoteMode, has_stack
from vgpu_sim.isa.families.sync import BARRIERS

_ALL_LANES = (1 << WARP_THREADS) - 1
Cause = tuple[str, int]
Dimensions = tuple[int, int, int]


def stops(ssa: SsaFunction) -> Iterator[tuple[int, Operation]]:
    """Yield every stop with its block."""
    for block in ssa.blocks.values():
        for node in block.nodes:
            if isinstance(node, Operation) and EFFECTS[node.instruction.op].stops:
                yield block.index, node


def waits(ssa: SsaFunction) -> bool:
    """Return whether threads of a block wait for others anywhere but in collectives."""
    return any(stops(ssa)) or polling_loops.waits(ssa)


def collectives(ssa: SsaFunction) -> Iterator[tuple[int, Operation]]:
    """Yield every collective, and ACTIVEMASK, with its block."""
    for block in ssa.blocks.values():
        for node in block.nodes:
            if isinstance(node, Operation) and EFFECTS[node.instruction.op].collective:
                yield block.index, node


def shows_company(ssa: SsaFunction) -> bool:
    """Return whether code tells lanes that are alone from those with others (ACTIVEMASK)."""
    return any(node.instruction.op is Op.ACTIVEMASK for _, node in collectives(ssa))


def lanes_wait(ssa: SsaFunction, geometry: Geometry) -> bool:
    """Return whether lanes wait for others of their warp that are in other groups."""
    if geometry.span > 1:
        return False
    others = any(node.instruction.op is not Op.ACTIVEMASK for _, node in collectives(ssa))
    return others or bool(companies(ssa, geometry.block))


@functools.lru_cache(maxsize=4)
def companies(ssa: SsaFunction, block: Dimensions) -> frozenset[Operation]:
    """Return each ACTIVEMASK at which lanes that are groups of their own wait for their warp.

    It is one to which all lanes that have not ended come on one way, and before which none of them
    waits but where all do: what a lane polls for, or stops for while others are elsewhere, may be
    what somebody does behind it. Or it follows a barrier at which all of them have just met.
    """
    found = {node: place for place, node in collectives(ssa) if _asks_for_company(node)}
    met = _met(ssa, found.keys())
    warps = (g for g in legal_geometries(block) if g.whole_warps and g.span > 1)
    warp = min(warps, key=lambda geometry: geometry.span, default=None)
    if not found or warp is None:
        return met
    partial = _partial_blocks(analyse(ssa, warp, assume_guards=False))
    alone = {place for place, _ in stops(ssa)} | {
        place for place, node in collectives(ssa) if node not in found
    }
    graph = ssa.graph
    waits = (*polling_loops.polling(ssa), *(place for place in alone if place in partial))
    behind = {place for begin in waits for place in _reached(graph, begin, graph.exit)}
    away = behind | partial.keys()
    return met | {node for node, place in found.items() if place not in away}


def _met(ssa: SsaFunction, found: Iterable[Operation]) -> frozenset[Operation]:
    """Return those of ``found`` that follow a barrier of the whole warp, which all come to at once.

    Lanes at different barriers of one mask meet as well. They do not where there is one such
    barrier, or where each is passed once at most and of any two one dominates the other: then lanes
    come to the first one, all together to the next, and so on. Between the barrier and ACTIVEMASK
    is straight code that waits for nothing.
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
    wanted, answered = set(found), set()
    for block in ssa.blocks.values():
        here = False
        for node in block.nodes:
            if not isinstance(node, Operation):
                continue
            if node in wanted:
                answered |= {node} if here else set()
            elif EFFECTS[node.instruction.op].collective or EFFECTS[node.instruction.op].stops:
                here = node.instruction.op is Op.BAR_WARP and _is_whole(node)
    return frozenset(answered)


def _is_known(barrier: Operation) -> bool:
    return isinstance(barrier.sources[-1], Literal)


def _is_whole(barrier: Operation) -> bool:
    """Return whether a barrier names every lane of its warp, by a constant."""
    members = barrier.sources[-1]
    return isinstance(members, Literal) and members.bits & _ALL_LANES == _ALL_LANES


def _in_one_line(graph: Cfg, places: Sequence[int]) -> bool:
    """Return whether of any two blocks one dominates the other, and none is in a cycle."""
    for place in places:
        if any(place in _reached(graph, way, graph.exit) for way in graph.blocks[place].successors):
            return False
    pairs = itertools.combinations(set(places), 2)
    return all(graph.dominates(a, b) or graph.dominates(b, a) for a, b in pairs)


def _asks_for_company(node: Operation) -> bool:
    return node.instruction.op is Op.ACTIVEMASK and node.guard is None


@functools.lru_cache(maxsize=4)  # it is asked at every stop
def counted(ssa: SsaFunction, geometry: Geometry) -> bool:
    """Return whether there are stops that have to be counted.

    Where all are one barrier for all threads, and groups let others run nowhere else, not even for
    collectives, the turns that groups take say by themselves that all have come to it.
    """
    if lanes_wait(ssa, geometry):
        return True
    if polling_loops.waits(ssa):
        return any(stops(ssa))
    barriers = set()
    for _, node in stops(ssa):
        number, count = node.sources[:2]
        if node.instruction.op is not Op.BAR_SYNC or count != Literal(0):
            return True
        if not isinstance(number, Literal) or number.bits >= BARRIERS:
            return True
        barriers.add(number)
    return len(barriers) > 1


def has_local_memory(ssa: SsaFunction) -> bool:
    """Return whether lanes have memory of their own, which is laid out for threads alone."""
    return ssa.function.local_bytes > 0 or has_stack(ssa.function)


def legal(ssa: SsaFunction, geometry: Geometry) -> bool:
    """Return whether groups can wait as one, and hold the lanes that meet in a warp.

    All lanes of a group that have not ended are always at a stop together, and where stops are
    counted they name the same barrier and lie within one warp. Groups with collectives are whole
    warps, of which no lane that a collective names is ever elsewhere. See ``lockstep`` for loops
    that wait.
    """
    if geometry.padding != Padding.NONE and has_local_memory(ssa):
        return False
    found, meetings = list(stops(ssa)), list(collectives(ssa))
    if geometry.span == 1 or not (waits(ssa) or meetings):
        return True
    within_warps = geometry.linear and WARP_THREADS % geometry.span == 0
    if found and counted(ssa, geometry) and not within_warps:
        return False
    if meetings and not geometry.whole_warps:
        return False
    analysis = analyse(ssa, geometry, assume_guards=False)
    partial = _partial_blocks(analysis)
    if not all(_all_here(analysis, partial, block, node) for block, node in meetings):
        return False
    for block, node in found:
        if block in partial:
            return False
        if node.guard is not None and not analysis.uniform(node.guard, block):
            return False
        shapes = [analysis.shape(source, block, 32) for source in node.sources[:2]]
        if not all(isinstance(shape, Affine) and shape.uniform for shape in shapes):
            return False
    return lockstep.wait_as_one(analysis)


def _all_here(
    analysis: Analysis, partial: Mapping[int, set[Cause]], block: int, node: Operation
) -> bool:
    """Return whether every lane that ``node`` names is at it with the others, or has ended.

    It is where no lane is elsewhere, and where the mask was made of the lanes that were at some
    word, none of which has parted from the others since then: but on a branch whose condition was
    what they voted for.
    """
    if node.instruction.op is Op.ACTIVEMASK:
        return block not in _scattered(analysis)
    if node.guard is not None and not analysis.uniform(node.guard, block):
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
    """Return the block whose lanes a mask was made of, and what they voted for, if anything."""
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


def _scattered(analysis: Analysis) -> set[int]:
    """Return the blocks to which lanes may come on several paths that have not met yet."""
    graph = analysis.ssa.graph
    scattered: set[int] = set()
    for branch in analysis.divergence.branches:
        meet = graph.ipdom[branch]
        sides = [_reached(graph, side, meet) for side in graph.blocks[branch].successors]
        for place, side in enumerate(sides):
            for other in sides[place + 1 :]:
                scattered |= side & other
    return scattered


def _reached(graph: Cfg, start: int, end: int) -> set[int]:
    found: set[int] = set()
    pending = [start]
    while pending:
        block = pending.pop()
        if block in found or block in (end, graph.exit):
            continue
        found.add(block)
        pending += graph.blocks[block].successors
    return found


def _partial_blocks(analysis: Analysis) -> dict[int, set[Cause]]:
    """Map the blocks that may run while some lanes of the group are elsewhere to where those have
    parted from them: a branch, or a loop."""
    graph, divergence = analysis.ssa.graph, analysis.divergence
    partial: dict[int, set[Cause]] = {}
    for branch in divergence.branches:
        around = [header for header, body in graph.loops.items() if branch in body]
        ways = [(branch, target) for target in graph.blocks[branch].successors]
        for block in apart(graph, analysis.order, ways, around):
            partial.setdefault(block, set()).add(("branch", branch))
    for header in divergence.loops:
        body = graph.loops[header]
        around = [other for other, outer in graph.loops.items() if body < outer]
        ways = [
            (block, target)
            for block in sorted(body)
            for target in graph.blocks[block].successors
            if target not in body
        ]
        for block in body | apart(graph, analysis.order, ways, around):
            partial.setdefault(block, set()).add(("loop", header))
    return partial
