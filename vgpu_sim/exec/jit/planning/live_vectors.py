"""The number of vector registers that a kernel's values need at once, under one geometry."""

from collections.abc import Iterable
from typing import Final

from vgpu_sim.exec.jit.analysis.value_shapes import Analysis
from vgpu_sim.exec.jit.ir.ssa import (
    Merge,
    Operation,
    Phi,
    SsaFunction,
    Value,
    results_of,
    sources_of,
)
from vgpu_sim.exec.jit.progress import wait_points
from vgpu_sim.exec.jit.shapes.lane_shapes import Affine, PerVector, Vector
from vgpu_sim.isa import Literal, Op

_OWN_CONSTANTS: Final = 12
_POLYNOMIALS: Final = frozenset((Op.FEX2, Op.FLG2, Op.FSIN, Op.FCOS, Op.FTANH))


def count_constants(ssa: SsaFunction) -> int:
    """Return the number of constant vectors that occupy registers in straight-line code.

    They are float literals, and some constants for each function that is computed by a
    polynomial.
    """
    numbers: set[int] = set()
    functions: set[Op] = set()
    for block in ssa.blocks.values():
        for node in block.nodes:
            if not isinstance(node, Operation) or not node.instruction.type.is_float:
                continue
            functions |= {node.instruction.op} & _POLYNOMIALS
            numbers |= {source.bits for source in node.sources if isinstance(source, Literal)}
    return len(numbers) + _OWN_CONSTANTS * len(functions)


class LiveVectors:
    """Counts of the vector registers that are live at once.

    The vectors of a value may be equal, such as those of an address in different rows of the
    block. Equal vectors count as one register.
    """

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        self._ssa = analysis.ssa
        self._cost: dict[Value, int] = {}
        self._shares: dict[Value, tuple[object, ...]] = {}
        self._names: dict[object, int] = {}  # shared values: a number for each, not a tree
        for block in analysis.order:
            ssa_block = self._ssa.blocks[block]
            for node in (*ssa_block.phis, *ssa_block.nodes):
                for result in results_of(node):
                    self._add(node, result)
        self._live_in = self._solve()

    def peak(self, body: frozenset[int]) -> int:
        """Return the maximum number of live vectors within the blocks of ``body``."""
        return max(self._block_peak(block) for block in body)

    def at_stops(self) -> int:
        """Return the maximum number of live vectors at wait points."""
        peak = 0
        for block, stop in wait_points.find(self._ssa):
            present = self._after(block, self._live_in)
            for node in reversed(self._ssa.blocks[block].nodes):
                if node is stop:
                    break
                present -= set(results_of(node))
                present |= {s for s in sources_of(node) if isinstance(s, Value)} & self._cost.keys()
            peak = max(peak, self._sum(present))
        return peak

    def _add(self, node: Phi | Operation | Merge, result: Value) -> None:
        vectors = range(self._analysis.geometry.vectors)
        shape = self._analysis.shapes[result]
        if isinstance(shape, Affine):
            self._shares[result] = tuple(shape.offsets)
            return
        if isinstance(node, Phi) or isinstance(shape, PerVector):
            self._shares[result] = tuple((result, part) for part in vectors)
        else:
            sources = [s for s in sources_of(node) if isinstance(s, Value)]
            parts = [self._shares.get(s, tuple((s, c) for c in vectors)) for s in sources]
            self._shares[result] = tuple(
                self._names.setdefault((id(node), *(p[c] for p in parts)), len(self._names))
                for c in vectors
            )
        known = isinstance(shape, Vector) and shape.lanes is not None
        if isinstance(shape, Vector) and not known and result.bits > 1:
            self._cost[result] = len(set(self._shares[result])) * max(1, result.bits // 32)

    def _solve(self) -> dict[int, set[Value]]:
        live: dict[int, set[Value]] = {b: set() for b in self._ssa.blocks}
        changed = True
        while changed:
            changed = False
            for block in reversed(self._analysis.order):
                live_in = self._before(block, live)
                if live_in != live[block]:
                    live[block] = live_in
                    changed = True
        return live

    def _after(self, block: int, live: dict[int, set[Value]]) -> set[Value]:
        live_out: set[Value] = set()
        for successor in self._ssa.blocks[block].successors:
            if successor not in live:
                continue
            live_out |= live[successor]
            for phi in self._ssa.blocks[successor].phis:
                source = phi.arguments[block]
                if isinstance(source, Value):
                    live_out.add(source)
        return live_out & self._cost.keys()

    def _before(self, block: int, live: dict[int, set[Value]]) -> set[Value]:
        present = self._after(block, live)
        for node in reversed(self._ssa.blocks[block].nodes):
            present -= set(results_of(node))
            present |= {s for s in sources_of(node) if isinstance(s, Value)} & self._cost.keys()
        return present - {phi.result for phi in self._ssa.blocks[block].phis}

    def _block_peak(self, block: int) -> int:
        present = self._after(block, self._live_in)
        peak = self._sum(present)
        for node in reversed(self._ssa.blocks[block].nodes):
            present = present | (set(results_of(node)) & self._cost.keys())
            peak = max(peak, self._sum(present))
            present -= set(results_of(node))
            present |= {s for s in sources_of(node) if isinstance(s, Value)} & self._cost.keys()
        return peak

    def _sum(self, values: Iterable[Value]) -> int:
        return sum(self._cost[value] for value in values)
