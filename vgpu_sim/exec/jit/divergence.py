"""What a divergent branch does to the blocks around it (synchronisation dependence)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from vgpu_sim.exec.cfg import Cfg


@dataclass(slots=True)
class Divergence:
    """``joins``: blocks where lanes from different ways meet, so their phis mix lanes.

    ``loops``: headers of loops that lanes leave in different iterations. ``latches``: headers whose
    back edges are taken by different lanes of one iteration.
    """

    branches: frozenset[int] = frozenset()
    joins: set[int] = field(default_factory=set)
    loops: set[int] = field(default_factory=set)
    latches: set[int] = field(default_factory=set)


def analyse(graph: Cfg, branches: Iterable[int]) -> Divergence:
    """Follow the lanes from each of ``branches`` (blocks that end in a divergent branch)."""
    result = Divergence(frozenset(branches))
    position = {block: place for place, block in enumerate(graph.reverse_post_order)}
    for branch in result.branches:
        meeting = graph.ipdom[branch]
        for header, body in graph.loops.items():
            if branch in body and meeting not in body:
                result.loops.add(header)
        ways = [(branch, target) for target in graph.blocks[branch].successors]
        _propagate(graph, position, ways, result)
    for header in result.loops:
        body = graph.loops[header]
        exits = [
            (block, target)
            for block in sorted(body)
            for target in graph.blocks[block].successors
            if target not in body
        ]
        _propagate(graph, position, exits, result)
    return result


_Way = tuple[int, int]


def _propagate(
    graph: Cfg,
    position: dict[int, int],
    ways: Sequence[_Way],
    result: Divergence,
) -> None:
    """Mark blocks that disjoint paths from different ``ways`` (edges) reach."""
    label: dict[int, _Way] = {}
    back: dict[int, set[_Way]] = {}

    def arrive(source: int, target: int, way: _Way) -> None:
        if target == graph.exit:
            return
        if position[target] <= position[source]:
            back.setdefault(target, set()).add(way)
        elif label.setdefault(target, way) not in (way, (target, target)):
            label[target] = (target, target)
            result.joins.add(target)

    for source, target in ways:
        arrive(source, target, (source, target))
    for block in graph.reverse_post_order:
        if block in label:
            for target in graph.blocks[block].successors:
                arrive(block, target, label[block])
    result.latches |= {target for target, labels in back.items() if len(labels) > 1}
