"""The order in which blocks are emitted: loop by loop, topological within each level.

No structurizer is needed: in a reducible graph, the blocks of one loop level, with inner loops
collapsed to their headers, form a directed acyclic graph; masks handle the rest.
"""

import heapq
from collections.abc import Iterator, Mapping, Sequence

from vgpu_sim.exec.cfg import Cfg
from vgpu_sim.records import dataclass


@dataclass(frozen=True, slots=True)
class Level:
    """A loop (or the whole function), with its units in topological order.

    A unit is a block at this level, or an inner loop as a ``Level`` of its own. The meeting
    point of a unit is the next unit that all lanes of the unit reach in the same iteration.
    Meeting points form a chain, since a meeting point may itself have a meeting point.
    ``meeting`` maps a unit to its meeting point, and to the number of units that follow the
    meeting point in the chain. A unit without a meeting point has no entry. A loop is identified
    by its header.
    """

    header: int
    blocks: frozenset[int]
    units: tuple["int | Level", ...]
    meeting: Mapping[int, tuple[int, int]]

    def all_lanes_reach(self, above: int, block: int) -> bool:
        """Return whether all lanes that execute ``above`` reach ``block`` in the same iteration."""
        least_depth = self.meeting[block][1] + 1 if block in self.meeting else 0
        while above in self.meeting and self.meeting[above][1] >= least_depth:
            above = self.meeting[above][0]
            if above == block:
                return True
        return False

    def blocks_in_order(self) -> Iterator[int]:
        """Yield all blocks in the order of emission."""
        for unit in self.units:
            if isinstance(unit, Level):
                yield from unit.blocks_in_order()
            else:
                yield unit


def build(graph: Cfg) -> Level:
    """Return the order in which the reachable blocks of a reducible graph are emitted.

    The order is nested: each loop is a ``Level`` inside the level that contains it.
    """
    order = graph.reverse_post_order
    return _level(graph, order[0], frozenset(order))


def _level(graph: Cfg, header: int, blocks: frozenset[int]) -> Level:
    inner = {
        head: body
        for head, body in graph.loops.items()
        if head != header and body <= blocks and header not in body
    }
    outermost = {
        head: body
        for head, body in inner.items()
        if not any(body < outer_body for outer_body in inner.values())
    }
    owner = {block: head for head, body in outermost.items() for block in body}
    # Reverse post-order places a collapsed loop's predecessors before its header, and is
    # topological without back edges; but a block after a loop may be placed between the loop's
    # blocks, so sort the collapsed graph itself.
    position = {block: place for place, block in enumerate(graph.reverse_post_order)}
    successors: dict[int, set[int]] = {}
    waiting: dict[int, int] = {}
    leaving: set[int] = set()
    for block in blocks:
        unit = owner.get(block, block)
        targets = successors.setdefault(unit, set())
        for target in graph.blocks[block].successors:
            if target not in blocks or target == header:
                leaving.add(unit)
                continue
            target_unit = owner.get(target, target)
            if target_unit != unit and target_unit not in targets:
                targets.add(target_unit)
                waiting[target_unit] = waiting.get(target_unit, 0) + 1
    order: list[int] = []
    ready = [(position[header], header)]
    while ready:
        _, unit = heapq.heappop(ready)
        order.append(unit)
        for successor in successors[unit]:
            waiting[successor] -= 1
            if not waiting[successor]:
                heapq.heappush(ready, (position[successor], successor))
    units = tuple(
        _level(graph, unit, outermost[unit]) if unit in outermost else unit for unit in order
    )
    return Level(header, blocks, units, _meetings(order, successors, leaving))


def _meetings(
    order: Sequence[int], successors: Mapping[int, set[int]], leaving: set[int]
) -> dict[int, tuple[int, int]]:
    """Return ``Level.meeting``: the post-dominators of an acyclic graph, computed from its end."""
    meeting: dict[int, tuple[int, int]] = {}

    def depth(unit: int) -> int:
        return meeting[unit][1] + 1 if unit in meeting else 0

    for unit in reversed(order):
        if unit in leaving or not successors[unit]:
            continue
        common: int | None = None
        for target in successors[unit]:
            post_dominator: int | None = target
            common = target if common is None else common
            while common != post_dominator and common is not None and post_dominator is not None:
                if depth(common) >= depth(post_dominator):
                    common = meeting[common][0] if common in meeting else None
                else:
                    post_dominator = meeting[post_dominator][0]
            if common is None or post_dominator is None:
                common = None
                break
        if common is not None:
            meeting[unit] = (common, depth(common))
    return meeting
