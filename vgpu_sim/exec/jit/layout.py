"""The order in which blocks are emitted: loop by loop, topological within each level.

No structuriser is needed: in a reducible graph the blocks of one loop level, with inner loops
collapsed to their headers, form a directed acyclic graph; masks carry the rest.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from vgpu_sim.exec.cfg import Cfg


@dataclass(frozen=True, slots=True)
class Level:
    """A loop (or the whole function): its units in topological order.

    A unit is a block of this level, or an inner loop as a ``Level`` of its own.
    """

    header: int
    blocks: frozenset[int]
    units: tuple["int | Level", ...]

    def linear(self) -> Iterator[int]:
        """All blocks in the order of emission."""
        for unit in self.units:
            if isinstance(unit, Level):
                yield from unit.linear()
            else:
                yield unit


def build(graph: Cfg) -> Level:
    """Order all reachable blocks of a reducible graph."""
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
        if not any(body < other for other in inner.values())
    }
    owner = {block: head for head, body in outermost.items() for block in body}
    # Reverse post-order visits a collapsed loop's predecessors before its header, and is
    # topological once back edges are gone; but a block after a loop may come between the loop's
    # blocks, so order the collapsed graph itself.
    position = {block: place for place, block in enumerate(graph.reverse_post_order)}
    successors: dict[int, set[int]] = {}
    waiting: dict[int, int] = {}
    for block in blocks:
        unit = owner.get(block, block)
        targets = successors.setdefault(unit, set())
        for target in graph.blocks[block].successors:
            if target not in blocks or target == header:
                continue
            other = owner.get(target, target)
            if other != unit and other not in targets:
                targets.add(other)
                waiting[other] = waiting.get(other, 0) + 1
    units: list[int | Level] = []
    ready = [header]
    while ready:
        unit = min(ready, key=position.__getitem__)
        ready.remove(unit)
        body = outermost.get(unit)
        units.append(unit if body is None else _level(graph, unit, body))
        for other in successors[unit]:
            waiting[other] -= 1
            if not waiting[other]:
                ready.append(other)
    return Level(header, blocks, tuple(units))
