"""The effect of a divergent branch on the blocks around it (synchronization dependence).

Lanes are followed through one iteration of each loop; a back edge ends the iteration.
Post-dominance in the whole graph would not suffice: a block that every lane eventually reaches
may still be reached in different iterations.
"""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import field

from vgpu_sim.exec.cfg import Cfg
from vgpu_sim.records import dataclass

_Way = tuple[int, int]


@dataclass(slots=True)
class Divergence:
    """The blocks and loops in which lanes diverge.

    ``joins`` are the blocks at which lanes from different paths join. In these blocks, a phi takes
    values from different predecessors in different lanes. ``loops`` are the headers of loops that
    lanes leave in different iterations. ``latches`` are the headers of loops in which lanes take
    different back edges in the same iteration.
    """

    branches: frozenset[int] = frozenset()
    joins: set[int] = field(default_factory=set)
    loops: set[int] = field(default_factory=set)
    latches: set[int] = field(default_factory=set)


def analyse(graph: Cfg, branches: Iterable[int]) -> Divergence:
    """Return where lanes diverge and join again. ``branches`` are the blocks that end in a
    divergent branch.
    """
    result = Divergence(frozenset(branches))
    position = {block: place for place, block in enumerate(graph.reverse_post_order)}
    for branch in result.branches:
        around = [header for header, body in graph.loops.items() if branch in body]
        ways = [(branch, target) for target in graph.blocks[branch].successors]
        _Propagation(graph, result, position, around).run(ways)
    analysed: set[int] = set()
    while result.loops - analysed:
        header = min(result.loops - analysed)
        analysed.add(header)
        body = graph.loops[header]
        around = [outer_header for outer_header, outer in graph.loops.items() if body < outer]
        ways = [
            (block, target)
            for block in sorted(body)
            for target in graph.blocks[block].successors
            if target not in body
        ]
        _Propagation(graph, result, position, around).run(ways)
    return result


def blocks_until_join(
    graph: Cfg, order: Sequence[int], ways: Iterable[tuple[int, int]], around: Sequence[int]
) -> set[int]:
    """Return the blocks that lanes execute from where they diverge to where all of them join.

    ``ways`` are the edges on which the lanes diverge. ``order`` is the order of emission, in which
    the blocks are visited. A path on which the threads end is ignored. ``around`` are the headers
    of the enclosing loops. Edges that leave one of these loops are not followed: either all lanes
    leave the loop together, or its exit edges are the ``ways`` of another call.
    """
    position = {block: place for place, block in enumerate(order)}
    pending: list[int] = []
    blocks: set[int] = set()
    turned: set[int] = set()  # headers of enclosing loops to which some lanes have returned

    def follow(source: int, target: int) -> None:
        leaves = any(source in graph.loops[h] and target not in graph.loops[h] for h in around)
        if target == graph.exit or leaves:
            return
        if position[target] <= position[source]:
            turned.update({target} & set(around))
        elif position[target] not in pending:
            heapq.heappush(pending, position[target])

    for source, target in ways:
        follow(source, target)
    while pending and (len(pending) > 1 or turned):
        block = order[heapq.heappop(pending)]
        blocks.add(block)
        for target in graph.blocks[block].successors:
            follow(block, target)
    return blocks


class _Propagation:
    """Labels blocks by the path that leads to them.

    ``around`` are the loops whose iteration the lanes share where they diverge.
    """

    def __init__(
        self, graph: Cfg, result: Divergence, position: dict[int, int], around: Sequence[int]
    ) -> None:
        self._graph = graph
        self._result = result
        self._position = position
        self._label: dict[int, _Way] = {}
        self._pending: list[int] = []  # a heap of positions in reverse post-order
        self._back: dict[int, set[_Way]] = {}
        self._out: dict[int, set[_Way]] = {header: set() for header in around}

    def run(self, ways: Sequence[_Way]) -> None:
        """Follow ``ways`` (edges) and record the joins, loops and latches that diverge."""
        for source, target in ways:
            self._follow(source, target, (source, target))
        while self._pending:
            if len(self._pending) == 1 and not any((*self._out.values(), *self._back.values())):
                break  # all lanes have joined, and none has taken another path
            block = self._graph.reverse_post_order[heapq.heappop(self._pending)]
            for target in self._graph.blocks[block].successors:
                self._follow(block, target, self._label[block])
        for header, out in self._out.items():
            if out and len(out | self._back.get(header, set())) > 1:
                self._result.loops.add(header)
        self._result.latches |= {h for h, labels in self._back.items() if len(labels) > 1}

    def _follow(self, source: int, target: int, exit_edge: _Way) -> None:
        for header, out in self._out.items():
            body = self._graph.loops[header]
            if source in body and target not in body:
                out.add(exit_edge)
        if target == self._graph.exit:
            return
        if self._position[target] <= self._position[source]:
            self._back.setdefault(target, set()).add(exit_edge)
        elif target not in self._label:
            self._label[target] = exit_edge
            heapq.heappush(self._pending, self._position[target])
        elif self._label[target] not in (exit_edge, (target, target)):
            self._label[target] = (target, target)
            self._result.joins.add(target)
