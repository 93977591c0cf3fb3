"""Products of bytes that are computed together in tile registers.

Compilers divide a product of large matrices into steps along its depth, and each step into MMA
instructions of eight columns, all of which have the same A. A step adds to the totals of the one
before. A chain is the sequence of steps that compute the same columns, and a group is a set of
chains with the same sequence of A. A group is computed at its last instruction: a tile register
then accumulates all steps of two chains, and only the totals at the end of a chain are moved from
tiles to registers of the warp. Integers are exact modulo 2^32, so the order of steps is free.
"""

from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from typing import Final

from vgpu_sim.exec.jit.analysis.value_shapes import Analysis
from vgpu_sim.exec.jit.ir.ssa import (
    Merge,
    Operation,
    Source,
    SsaFunction,
    Value,
    results_of,
    sources_of,
)
from vgpu_sim.exec.jit.shapes.lane_shapes import Affine
from vgpu_sim.isa import (
    EFFECTS,
    DataType,
    Instruction,
    MatrixShape,
    Op,
    is_visible,
    reads_memory,
)
from vgpu_sim.isa.rules import matrix_registers
from vgpu_sim.records import dataclass

_Node = Operation | Merge
Chain = tuple[Operation, ...]
TILES: Final = 2  # that accumulate at the same time
COUNTS: Final = "counts of reads"  # the key of the cached counts


@dataclass(frozen=True, slots=True, eq=False)
class TileGroup:
    """Chains of products with the same A in each step; their number is even.

    ``last`` is the instruction at which the group is computed. ``passed`` are operations between
    two steps that only pass totals on, and are not emitted. ``opens`` and ``closes`` state that no
    other group directly precedes or follows this one.
    """

    chains: tuple[Chain, ...]
    last: Operation
    passed: frozenset[Operation]
    opens: bool
    closes: bool

    @property
    def pairs(self) -> list[tuple[Chain, Chain]]:
        """The chains, in pairs that share a tile."""
        return list(zip(self.chains[::2], self.chains[1::2], strict=True))


def find(
    analysis: Analysis, nodes: Sequence[_Node]
) -> tuple[list[_Node], dict[Operation, TileGroup]]:
    """Return the ``nodes`` of a block in another order, and the groups by their instructions.

    ``nodes`` are in the order of emission. The instructions of a group, and what only they need,
    directly precede its last one, so that the factors of few groups are live at the same time.
    """
    ordered, group_of = list[_Node](), dict[Operation, TileGroup]()
    for segment in _segments(nodes):
        steps = _Steps(analysis, segment)
        for chains in _by_left(steps.chains()):
            late_chains = _read_late(chains, segment)
            late_chains = late_chains[: len(late_chains) // 2 * 2]
            if late_chains:
                segment, groups = _gather(analysis, segment, late_chains, steps)
                group_of |= {step: g for g in groups for chain in g.chains for step in chain}
        ordered += segment
    return ordered, group_of


def _gather(
    analysis: Analysis, segment: list[_Node], chains: tuple[Chain, ...], steps: "_Steps"
) -> tuple[list[_Node], list[TileGroup]]:
    """Divide chains into groups, and move each group to the last of all instructions."""
    members = {step for chain in chains for step in chain}
    last = _last(segment, members)
    late = _late(analysis, segment[: last + 1], members)
    home = {result: node for node in late for result in results_of(node)}
    place = {node: n for n, node in enumerate(segment)}
    ordered = [node for node in segment[: last + 1] if node not in late]
    groups, placed_nodes = list[TileGroup](), set[_Node]()
    for first in range(0, len(chains), 2 * TILES):
        own = chains[first : first + 2 * TILES]
        passed = frozenset(n for chain in own for s in chain[1:] for n in steps.passed[s])
        closes = first + 2 * TILES >= len(chains)
        groups.append(TileGroup(own, own[-1][-1], passed, first == 0, closes))
        for pair in groups[-1].pairs:
            for products in zip(*pair, strict=True):
                needed, pending = set[_Node](), list[_Node](products)
                while pending:
                    node = pending.pop()
                    if node not in needed and node not in placed_nodes:
                        needed.add(node)
                        sources = (s for s in sources_of(node) if isinstance(s, Value))
                        pending += [home[s] for s in sources if s in home]
                placed_nodes |= needed
                ordered += sorted(needed, key=place.__getitem__)
    return [*ordered, *segment[last + 1 :]], groups


def _late(analysis: Analysis, nodes: Sequence[_Node], members: set[Operation]) -> set[_Node]:
    """Return the group's instructions, and what can move to them because nothing else reads it."""
    moves = not any(isinstance(n, Operation) and _writes(n.instruction) for n in nodes)
    reads, late = _counts(analysis.ssa), set[_Node]()
    inside = Counter[Source]()
    for node in reversed(nodes):
        alone = moves and _is_movable(analysis, node)
        if node in members or (alone and all(inside[r] == reads[r] for r in results_of(node))):
            late.add(node)
            inside.update(sources_of(node))
    return late


def _is_movable(analysis: Analysis, node: _Node) -> bool:
    if not isinstance(node, Operation) or node.guard is not None or node in analysis.assumptions:
        return False
    instruction = node.instruction
    return instruction.op is Op.LDMATRIX or not (
        is_visible(instruction) or reads_memory(instruction) or not node.results
    )


def _writes(instruction: Instruction) -> bool:
    effects = EFFECTS[instruction.op]
    return effects.writes or effects.orders or effects.stops


def operands(node: Operation) -> tuple[Sequence[Source], Sequence[Source], Sequence[Source]]:
    """Return the registers of A, B and C."""
    left, right, _ = matrix_registers(node.instruction)
    sources = node.sources
    return sources[:left], sources[left : left + right], sources[left + right :]


def _segments(nodes: Sequence[_Node]) -> Iterator[list[_Node]]:
    """Divide nodes where lanes may wait: a product is not delayed until after a barrier."""
    segment: list[_Node] = []
    for node in nodes:
        segment.append(node)
        if isinstance(node, Operation) and EFFECTS[node.instruction.op].stops:
            yield segment
            segment = []
    yield segment


class _Steps:
    """The products of a segment, and which one continues the sums of which.

    ``passed`` has the operations through which a product reads its addend.
    """

    def __init__(self, analysis: Analysis, segment: Sequence[_Node]) -> None:
        self._analysis = analysis
        self._products = [n for n in segment if isinstance(n, Operation) and _fits(n)]
        self._inside = frozenset(segment) if self._products else frozenset()
        self._reads = _counts(analysis.ssa) if self._products else Counter()
        self._following: dict[tuple[Source, ...], Operation] = {}
        self.passed: dict[Operation, list[Operation]] = {}
        for node in reversed(self._products):
            self.passed[node] = []
            addends = tuple(self._origin(source, node) for source in operands(node)[2])
            self._following[addends] = node

    def chains(self) -> list[Chain]:
        """Return the chains of the segment, in the order of their first steps."""
        chains, visited = list[Chain](), set[Operation]()
        for node in self._products:
            chain = list[Operation]()
            step: Operation | None = node
            while step is not None and step not in visited:
                chain.append(step)
                visited.add(step)
                step = self._next(step)
            if chain:
                chains.append(tuple(chain))
        return chains

    def _next(self, step: Operation) -> Operation | None:
        """Return the step that alone reads a step's totals, all of them, as its addend."""
        totals = results_of(step)
        later = self._following.get(totals)
        if later is None:
            return None
        between = [result for node in self.passed[later] for result in results_of(node)]
        if any(self._reads[value] != 1 for value in (*totals, *between)):
            return None
        step_kind, later_kind = (replace(n.instruction, dsts=(), srcs=()) for n in (step, later))
        return later if step_kind == later_kind else None

    def _origin(self, source: Source, reader: Operation) -> Source:
        """Return the source that selections whose outcome is known pass on."""
        node = self._analysis.ssa.definition.get(source) if isinstance(source, Value) else None
        if not isinstance(node, Operation) or node.instruction.op is not Op.SELP:
            return source
        if node not in self._inside or node in self._analysis.assumptions:
            return source
        block = self._analysis.ssa.block_of[results_of(node)[0]]
        flag = self._analysis.shape(node.sources[2], block, 1)
        if not isinstance(flag, Affine) or not flag.uniform or flag.constant is None:
            return source
        self.passed[reader].append(node)
        return self._origin(node.sources[0 if flag.constant & 1 else 1], reader)


def _fits(node: Operation) -> bool:
    instruction = node.instruction
    return (
        instruction.op is Op.MMA
        and instruction.matrix is MatrixShape.M16N8K32
        and instruction.source_type in (DataType.U8, DataType.S8)
        and node.guard is None
    )


def _counts(ssa: SsaFunction) -> Counter[Source]:
    cached_counts = ssa.analyses.get(COUNTS)
    if isinstance(cached_counts, Counter):
        return cached_counts
    nodes = (n for b in ssa.blocks.values() for n in (*b.phis, *b.nodes))
    counts = Counter[Source](source for node in nodes for source in sources_of(node))
    counts.update(b.condition.value for b in ssa.blocks.values() if b.condition is not None)
    ssa.analyses[COUNTS] = counts
    return counts


def _by_left(chains: Sequence[Chain]) -> list[tuple[Chain, ...]]:
    """Return the chains that have the same type, and in each step the same A."""
    groups: dict[object, list[Chain]] = {}
    for chain in chains:
        first = chain[0].instruction
        key = first.type, first.source_type, tuple(tuple(operands(step)[0]) for step in chain)
        groups.setdefault(key, []).append(chain)
    return [tuple(group) for group in groups.values()]


def _read_late(chains: Sequence[Chain], segment: Sequence[_Node]) -> tuple[Chain, ...]:
    """Return the chains whose totals are read only after the last instruction of them all."""
    members = {step for chain in chains for step in chain}
    last = _last(segment, members)
    early = {s for node in segment[: last + 1] for s in sources_of(node) if isinstance(s, Value)}
    return tuple(
        chain for chain in chains if not any(total in early for total in results_of(chain[-1]))
    )


def _last(segment: Sequence[_Node], members: Container[_Node]) -> int:
    return max(n for n, node in enumerate(segment) if node in members)
