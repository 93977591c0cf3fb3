"""Demanded lanes of each value: the lanes in which some instruction reads it.

If only lane 0 stores a warp's sum, for example, half of the additions are unused.

Demanded lanes are computed backward from the stores, like LLVM's demanded bits: a store demands
its data in the lanes that may reach it; a lane-wise operation demands in its operands the lanes
that are demanded of its result; a shuffle by known distances demands the source lanes. Every
other operation demands all lanes. Sets of lanes are encoded as in ``comparison_outcomes``.
"""

from collections.abc import Iterable, Iterator

from vgpu_sim.exec.jit.analysis import comparison_outcomes
from vgpu_sim.exec.jit.analysis.shuffle_lanes import shuffle_source
from vgpu_sim.exec.jit.analysis.value_shapes import Analysis
from vgpu_sim.exec.jit.ir.ssa import (
    Merge,
    Operation,
    Phi,
    Source,
    Value,
    results_of,
    sources_of,
)
from vgpu_sim.exec.jit.shapes.lane_shapes import Vector
from vgpu_sim.hal.compute.limits import WARP_THREADS
from vgpu_sim.isa import Family, Op

_BY_LANE = frozenset(
    (Family.INTEGER, Family.FLOAT, Family.COMPARE, Family.CONVERT, Family.MOVE, Family.BITWISE)
)


class DemandedLanes:
    """The demanded lanes of each value in one function version: the lanes in which the value may be
    read.
    """

    def __init__(
        self, analysis: Analysis, reaching_lanes: comparison_outcomes.ReachingLanes
    ) -> None:
        self._analysis = analysis
        self._reaching_lanes = reaching_lanes
        self._all = comparison_outcomes.every_lane(analysis.algebra)
        self._lanes: dict[Value, int] = {}
        nodes = [(block, node) for block in reversed(analysis.order) for node in self._nodes(block)]
        for block in analysis.ssa.blocks.values():
            if block.condition is not None and isinstance(block.condition.value, Value):
                self._lanes[block.condition.value] = self._all
        changed = True
        while changed:
            changed = False
            for block_index, node in nodes:
                for source, lanes in self._reads(block_index, node):
                    earlier_lanes = self._lanes.get(source, 0)
                    if lanes & ~earlier_lanes:
                        self._lanes[source] = earlier_lanes | lanes
                        changed = True

    def of(self, value: Value) -> int:
        """Return the demanded lanes of ``value``, those in which it may be read, as a bit mask.

        If ``value`` is not held as vectors, return all lanes.
        """
        if not isinstance(self._analysis.shapes[value], Vector):
            return self._all
        return self._lanes.get(value, 0)

    def _nodes(self, block: int) -> Iterator[Phi | Operation | Merge]:
        ssa_block = self._analysis.ssa.blocks[block]
        yield from reversed(ssa_block.nodes)
        yield from ssa_block.phis

    def _reads(self, block: int, node: Phi | Operation | Merge) -> Iterator[tuple[Value, int]]:
        if isinstance(node, Operation) and node.instruction.op is Op.ST:
            yield from self._values(node.sources[:1], self._all)
            yield from self._values(node.sources[1:], self._reaching_lanes.to(block))
            if node.guard is not None:
                yield from self._values((node.guard.value,), self._all)
        elif isinstance(node, Operation) and node.instruction.op is Op.SHFL:
            yield from self._shuffle_sources(node, block)
        elif not isinstance(node, Operation) or node.instruction.op.family in _BY_LANE:
            lanes = 0
            for result in results_of(node):
                lanes |= self.of(result)
            yield from self._values(sources_of(node), lanes)
        else:
            yield from self._values(sources_of(node), self._all)

    @staticmethod
    def _values(sources: Iterable[Source], lanes: int) -> Iterator[tuple[Value, int]]:
        for source in sources:
            if isinstance(source, Value):
                yield source, lanes

    def _shuffle_sources(self, node: Operation, block: int) -> Iterator[tuple[Value, int]]:
        value, result, lanes = node.sources[0], node.results[0], self._all
        yield from self._values(node.sources[1:], self._all)
        ways = self._ways(node, block)
        if ways is not None:
            demanded = self.of(result) if result is not None else 0
            lanes = 0
            for lane, operands in enumerate(ways):
                if demanded >> lane & 1:
                    first = lane - lane % WARP_THREADS
                    source, _ = shuffle_source(
                        node.instruction.shuffle, lane % WARP_THREADS, *operands
                    )
                    lanes |= 1 << first + (source & WARP_THREADS - 1)
        yield from self._values((value,), lanes & self._all)

    def _ways(self, node: Operation, block: int) -> list[tuple[int, int]] | None:
        algebra, operand_lanes = self._analysis.algebra, []
        for source in node.sources[1:3]:
            shape = self._analysis.shape(source, block, 32)
            rows = algebra.lanes(shape, 32) if shape is not None else None
            if rows is None:
                return None
            operand_lanes.append([number for row in rows for number in row])
        return list(zip(*operand_lanes, strict=True))
