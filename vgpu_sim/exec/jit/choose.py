"""The default plan of a kernel: width by block shape, strips by register need, mode by rule.

Rules and their measurements: the width is the largest power of two that divides the block's x size
and fits the CPU; a group has as many strips as leave the hottest loop's live vectors in registers,
at most 4 where lanes leave a loop one by one, one for kernels that only stream; loops whose lanes
diverge and mostly gather run lane by lane. Code size is bounded before anything is emitted.

Lanes that wait for others of their block must stop together (``stops``): where they do not a
narrower strip is taken, at last one lane. A group of a loop that stops has up to 8 strips even if
registers are short, because each turn costs a switch. A block that is one group needs none; it may
be one where what lives across its stops stays in registers.
"""

from collections.abc import Iterable, Iterator

from vgpu_sim.exec.jit import geometry as geometries, ssa as forms, stops
from vgpu_sim.exec.jit.analysis import Analysis
from vgpu_sim.exec.jit.lane_shapes import Affine, PerStrip, Vector
from vgpu_sim.exec.jit.plan import Block, Plan, check_block
from vgpu_sim.exec.jit.soft_float import is_soft
from vgpu_sim.exec.jit.ssa import (
    Merge,
    Operation,
    Phi,
    SsaFunction,
    Value,
    results_of,
    sources_of,
)
from vgpu_sim.isa import Family, Function, reads_memory

# 2 s of compile time at code generation level 1 are about 20,000 LLVM instructions, and a node of
# a strip is about three of them before the passes.
MAX_NODE_STRIPS = 8_000
# Finding where lanes part and meet takes time by the square of the blocks; one lane never parts.
_MAX_MASKED_BLOCKS = 1_000
# What ``soft_float`` writes for a node: about 54 LLVM instructions, on numbers of 64 bits.
_SOFT_COST = 36
_DIVERGENT_STRIPS = 4
_STOPPING_STRIPS = 8
_STREAMING_LOADS = 4
_ARITHMETIC_PER_GATHER = 8


def choose(ssa: SsaFunction, block: Block, vector_bits: int) -> Plan:
    """Return the plan for ``ssa`` in blocks of this shape, on vectors of ``vector_bits``.

    Raises:
        PlanError: for a block shape that no kernel has.
    """
    check_block(block)
    width = min(geometries.MAX_WIDTH, vector_bits // 32)
    while block[0] % width:
        width //= 2
    nodes = sum(_cost(node) for b in ssa.blocks.values() for node in b.nodes)
    if len(ssa.blocks) > _MAX_MASKED_BLOCKS:
        return Plan(1, 1, versioned=False, tier=int(nodes <= MAX_NODE_STRIPS))
    if nodes > MAX_NODE_STRIPS:
        return Plan(min(width, 4), 1, versioned=False, tier=0)
    if width > 1:
        single = Analysis(ssa, geometries.Geometry(block, width, 1), assume_guards=False)
        if _gathers_in_divergent_loops(single):
            width = 1
    if width == 1:
        return Plan(1, 1)
    registers = 32 if vector_bits == 512 else 16
    if any(stops.stops(ssa)):
        return _choose_stopping(ssa, block, width, nodes, registers)
    for geometry in reversed(_small_enough(block, width, nodes)):
        if geometry.strips == 1 or _fits(ssa, geometry, registers):
            return Plan(width, geometry.strips)
    return Plan(width, 1)


def legal_plans(function: Function, block: Block) -> Iterator[Plan]:
    """Yield all plans that may run ``function`` with blocks of this shape (tier 1).

    Raises:
        PlanError: see ``check_block``.
    """
    check_block(block)
    form = forms.build(function)
    for geometry in geometries.legal_geometries(block):
        if stops.legal(form, geometry):
            for versioned in (True, False):
                yield Plan(geometry.width, geometry.strips, versioned)


def _choose_stopping(
    ssa: SsaFunction, block: Block, width: int, nodes: int, registers: int
) -> Plan:
    hot = any(b in body for b, _ in stops.stops(ssa) for body in ssa.graph.loops.values())
    while width > 1:
        found = _small_enough(block, width, nodes)
        # Lanes that part in a strip part in every group of such strips.
        if found and stops.legal(ssa, found[0]):
            for g in reversed(found[1:]):
                if _suits(ssa, g, registers, hot=hot) and stops.legal(ssa, g):
                    return Plan(width, g.strips)
            return Plan(width, found[0].strips)
        width //= 2
    return Plan(1, 1)


def _small_enough(block: Block, width: int, nodes: int) -> list[geometries.Geometry]:
    """Return the geometries of a width whose code is not too large, the narrowest group first."""
    found = (g for g in geometries.legal_geometries(block) if g.width == width)
    return sorted((g for g in found if g.strips * nodes <= MAX_NODE_STRIPS), key=lambda g: g.strips)


def _suits(ssa: SsaFunction, geometry: geometries.Geometry, registers: int, *, hot: bool) -> bool:
    if geometry.groups == 1 and _live_at_stops(ssa, geometry) <= registers:
        return True
    return (hot and geometry.strips <= _STOPPING_STRIPS) or _fits(ssa, geometry, registers)


def _live_at_stops(ssa: SsaFunction, geometry: geometries.Geometry) -> int:
    return _LiveVectors(Analysis(ssa, geometry, assume_guards=True)).at_stops()


def _cost(node: Operation | Merge) -> int:
    """Return how much text a node is for a lane group, in ordinary nodes."""
    if not isinstance(node, Operation):
        return 1
    return _SOFT_COST if is_soft(node.instruction) else 1


def _fits(ssa: SsaFunction, geometry: geometries.Geometry, registers: int) -> bool:
    analysis = Analysis(ssa, geometry, assume_guards=True)
    loops = _innermost(analysis)
    if not loops:
        return _loads(ssa) >= _STREAMING_LOADS
    if geometry.strips > _DIVERGENT_STRIPS and loops & analysis.divergence.loops:
        return False
    if _has_strided_gather(analysis, loops):
        return False
    live = _LiveVectors(analysis)
    return all(live.peak(ssa.graph.loops[header]) <= registers - 4 for header in loops)


def _innermost(analysis: Analysis) -> set[int]:
    loops = analysis.ssa.graph.loops
    return {h for h, body in loops.items() if not any(o in body for o in loops if o != h)}


def _loads(ssa: SsaFunction) -> int:
    return sum(_reads_memory(node) for b in ssa.blocks.values() for node in b.nodes)


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


class _LiveVectors:
    """How many vector registers are live. Strips that share a value (the same address expression,
    because they lie above each other in the block) share its register."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        self._ssa = analysis.ssa
        self._cost: dict[Value, int] = {}
        self._shares: dict[Value, tuple[object, ...]] = {}
        for block in analysis.order:
            ssa_block = self._ssa.blocks[block]
            for node in (*ssa_block.phis, *ssa_block.nodes):
                for result in results_of(node):
                    self._add(node, result)
        self._live_in = self._solve()

    def peak(self, body: frozenset[int]) -> int:
        """Return the greatest number of live vectors within some blocks."""
        return max(self._block_peak(block) for block in body)

    def at_stops(self) -> int:
        """Return the greatest number of live vectors where lanes wait for others."""
        most = 0
        for block, stop in stops.stops(self._ssa):
            present = self._after(block, self._live_in)
            for node in reversed(self._ssa.blocks[block].nodes):
                if node is stop:
                    break
                present -= set(results_of(node))
                present |= {s for s in sources_of(node) if isinstance(s, Value)} & self._cost.keys()
            most = max(most, self._sum(present))
        return most

    def _add(self, node: Phi | Operation | Merge, result: Value) -> None:
        strips = range(self._analysis.geometry.strips)
        shape = self._analysis.shapes[result]
        if isinstance(shape, Affine):
            self._shares[result] = tuple(shape.offsets)
            return
        if isinstance(node, Phi) or isinstance(shape, PerStrip):
            self._shares[result] = tuple((result, strip) for strip in strips)
        else:
            sources = [s for s in sources_of(node) if isinstance(s, Value)]
            parts = [self._shares.get(s, tuple((s, c) for c in strips)) for s in sources]
            self._shares[result] = tuple((node, tuple(p[c] for p in parts)) for c in strips)
        known = isinstance(shape, Vector) and shape.lanes is not None
        if isinstance(shape, Vector) and not known and result.bits > 1:
            self._cost[result] = len(set(self._shares[result])) * max(1, result.bits // 32)

    def _solve(self) -> dict[int, set[Value]]:
        live: dict[int, set[Value]] = {b: set() for b in self._ssa.blocks}
        changed = True
        while changed:
            changed = False
            for block in reversed(self._analysis.order):
                before = self._before(block, live)
                if before != live[block]:
                    live[block] = before
                    changed = True
        return live

    def _after(self, block: int, live: dict[int, set[Value]]) -> set[Value]:
        after: set[Value] = set()
        for successor in self._ssa.blocks[block].successors:
            if successor not in live:
                continue
            after |= live[successor]
            for phi in self._ssa.blocks[successor].phis:
                source = phi.arguments[block]
                if isinstance(source, Value):
                    after.add(source)
        return after & self._cost.keys()

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
