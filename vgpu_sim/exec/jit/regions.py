"""Control flow of one function version: masks instead of structured branches.

Blocks of a loop level are written in topological order. Each edge carries a mask; a block's mask
is that of its immediate dominator where all lanes of that go on to it, else the union of its
edges'. Phis become selects. A block whose mask may be empty is branched around (mandatory for
loops, for scalar loads and for stops, a matter of speed else). Loops are ``loops``' part.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from vgpu_sim.exec.jit import trampoline
from vgpu_sim.exec.jit.analysis import Analysis
from vgpu_sim.exec.jit.lane_shapes import Vector
from vgpu_sim.exec.jit.layout import Level
from vgpu_sim.exec.jit.loops import Blended, Loops
from vgpu_sim.exec.jit.masks import FULL, Edge, Mask, MaskWriter
from vgpu_sim.exec.jit.nans import NanPlan
from vgpu_sim.exec.jit.nodes import Nodes
from vgpu_sim.exec.jit.ssa import Operation, SsaFunction, Value, sources_of
from vgpu_sim.exec.jit.text import Text
from vgpu_sim.exec.jit.trampoline import Steps
from vgpu_sim.exec.jit.values import Form, Held, Values
from vgpu_sim.isa import EFFECTS, reads_memory

# Below so many nodes executing a block for no lane costs less than testing whether there is one.
_CHEAP_NODES = 8


class Regions:
    """Writes the whole control flow of a version; leaves through ``labels["done"]``."""

    def __init__(
        self,
        text: Text,
        values: Values,
        masks: MaskWriter,
        nodes: Nodes,
        nans: NanPlan,
        labels: Mapping[str, str],
    ) -> None:
        self._text = text
        self._values = values
        self._masks = masks
        self._nodes = nodes
        self._nans = nans
        self._labels = labels
        self._analysis: Analysis = values.analysis
        self._ssa: SsaFunction = values.analysis.ssa
        self._graph = self._ssa.graph
        self._uses = _use_blocks(self._ssa)
        self._loops = Loops(text, values, masks, self._uses)

    def write(self) -> None:
        """Write all blocks; the current label is where the group starts."""
        trampoline.run(self._level(self._analysis.top, FULL))
        self._nodes.flush()
        self._text.jump(self._labels["done"])

    def _level(self, level: Level, live: Mask) -> Steps[tuple[list[Edge], list[Edge]]]:
        """Write a level; return the edges that leave it and its back edges."""
        arriving: dict[int, list[Edge]] = defaultdict(list)
        leaving: list[Edge] = []
        back: list[Edge] = []
        masks: dict[int, Mask] = {}
        for unit in level.units:
            header = unit.header if isinstance(unit, Level) else unit
            initial: Blended = {}
            if header == level.header:
                mask = live
            else:
                if not arriving[header]:
                    continue
                mask = self._meeting(level, header, arriving[header], masks)
                initial = self._blend(header, arriving[header])
            masks[header] = mask
            edges: list[Edge] = yield self._unit(unit, mask, live, initial)
            for edge in edges:
                if edge.target == level.header:
                    back.append(edge)
                elif edge.target in level.blocks:
                    arriving[edge.target].append(edge)
                else:
                    leaving.append(edge)
        return leaving, back

    def _meeting(
        self, level: Level, block: int, edges: Sequence[Edge], masks: Mapping[int, Mask]
    ) -> Mask:
        above = self._graph.idom[block]
        if above in masks and level.all_come(above, block):
            return masks[above]
        return self._masks.union([edge.mask for edge in edges])

    def _unit(
        self, unit: "int | Level", mask: Mask, live: Mask, initial: Blended
    ) -> Steps[list[Edge]]:
        if mask == live or mask.full:
            return self._inside(unit, mask, initial, occupied=True)
        expensive = isinstance(unit, Level) or self._expensive(unit)
        if mask.scalar is None and not expensive:
            return self._inside(unit, mask, initial, occupied=False)
        return self._guarded(unit, mask, initial)

    def _inside(
        self, unit: "int | Level", mask: Mask, initial: Blended, *, occupied: bool
    ) -> Steps[list[Edge]]:
        if isinstance(unit, Level):
            edges: list[Edge] = yield self._loop(unit, mask, initial)
            return edges
        for phi, names in initial.items():
            self._values.hold(phi.result, names)
        return self._block(unit, mask, occupied)

    def _expensive(self, block: int) -> bool:
        nodes = self._ssa.blocks[block].nodes
        if len(nodes) > _CHEAP_NODES:
            return True
        for node in nodes:
            if not isinstance(node, Operation):
                continue
            if EFFECTS[node.instruction.op].stops:
                return True
            if not reads_memory(node.instruction):
                continue
            shape = self._analysis.shape(node.sources[0], block, 64)
            if not isinstance(shape, Vector):
                return True
        return False

    def _guarded(self, unit: "int | Level", mask: Mask, initial: Blended) -> Steps[list[Edge]]:
        """Branch around a unit when no lane is in it."""
        text, values = self._text, self._values
        self._nodes.flush()
        some = self._masks.any(mask)
        run, skip = text.label("run"), text.label("skip")
        origin = text.block_label
        text.branch(some, run, skip)
        text.begin(run, follows=True)
        before = len(values.journal)
        within = Mask(mask.vector)
        with text.known.within():
            edges: list[Edge] = yield self._inside(unit, within, initial, occupied=True)
            self._nodes.flush()
        end = text.block_label
        text.jump(skip)
        text.begin(skip, follows=True)
        merged = [
            Edge(edge.source, edge.target, self._after_guard(edge.mask, within, mask, end, origin))
            for edge in edges
        ]
        blocks = unit.blocks if isinstance(unit, Level) else frozenset((unit,))
        self._merge_held(values.journal[before:], blocks, end, origin)
        return merged

    def _after_guard(self, mask: Mask, within: Mask, outer: Mask, end: str, origin: str) -> Mask:
        """Return an edge's mask behind the guard: no lanes where the unit was skipped."""
        text = self._text
        if mask == within:
            return outer
        scalar = mask.scalar
        if mask.vector == within.vector:
            scalar = text.phi("i1", (scalar or "true", end), ("false", origin))
            return Mask(mask.vector, scalar)
        assert mask.vector is not None
        type_ = text.type_of("i1", vector=True)
        vector = tuple(
            text.phi(type_, (lanes, end), ("zeroinitializer", origin)) for lanes in mask.vector
        )
        if scalar is not None:
            scalar = text.phi("i1", (scalar, end), ("false", origin))
        return Mask(vector, scalar)

    def _merge_held(
        self, defined: Sequence[Value], blocks: frozenset[int], end: str, origin: str
    ) -> None:
        """Give what was ``defined`` behind the guard a value where that was branched around."""
        text, values = self._text, self._values
        for value in dict.fromkeys(defined):
            held = values.held.get(value)
            if held is None:
                continue
            if self._uses[value] <= blocks:
                del values.held[value]
                continue
            type_ = text.type_of(held.scalar, held.vector)
            zero = text.const(0, held.scalar, held.vector)
            names = tuple(text.phi(type_, (name, end), (zero, origin)) for name in held.names)
            values.keep(value, Held(names, held.scalar, held.vector))

    def _blend(self, header: int, edges: Sequence[Edge]) -> Blended:
        """Return the values of a block's phis over the lanes that arrive on ``edges``.

        No lane arrives on two edges. So each edge's lanes take its value from what the edges before
        it gave, and an edge whose value is that of the first one has nothing to take.
        """
        values, text = self._values, self._text
        values.block = header
        text.word = self._ssa.blocks[header].first_word
        blended: Blended = {}
        choices = _Choices(text, self._masks, edges)
        for phi in self._ssa.blocks[header].phis:
            form = values.form_of(phi.result)
            if form is None:
                continue
            clean = phi in self._nans.cleaning
            type_ = text.type_of(values.types[phi.result], form is Form.VECTOR)
            first = phi.arguments[edges[0].source]
            names = values.materialise(first, phi.result, clean=clean)
            for edge in edges[1:]:
                source = phi.arguments[edge.source]
                if source == first:
                    continue
                other = values.materialise(source, phi.result, clean=clean)
                flags = choices.flags(edge, len(names), vector=form is Form.VECTOR)
                names = tuple(
                    text.let(f"select {flag}, {type_} {yes}, {type_} {no}")
                    for flag, yes, no in zip(flags, other, names, strict=True)
                )
            blended[phi] = names
        return blended

    def _loop(self, level: Level, mask: Mask, initial: Blended) -> Steps[list[Edge]]:
        self._nodes.flush()
        loop = self._loops.begin(level, mask, initial)
        leaving, back = yield self._level(level, loop.live)
        self._nodes.flush()
        latest = self._blend(level.header, back) if back else {}
        return self._loops.end(loop, leaving, back, latest)

    def _block(self, block: int, mask: Mask, occupied: bool) -> list[Edge]:
        values, masks = self._values, self._masks
        values.block = block
        ssa_block = self._ssa.blocks[block]
        self._nodes.block(ssa_block, mask, occupied=occupied)
        successors = ssa_block.successors
        if len(successors) == 1:
            return [Edge(block, successors[0], mask)]
        condition = ssa_block.condition
        assert condition is not None
        if self._analysis.uniform(condition, block):
            flag = values.condition(condition, Form.BASE)
            if mask.full and self._graph.exit in successors:
                return self._leave_together(block, flag, successors)
            other = values.invert(flag, vector=False)
            return [
                Edge(block, successors[0], masks.narrow(mask, flag)),
                Edge(block, successors[1], masks.narrow(mask, other)),
            ]
        vectors = [
            values.condition(condition, Form.VECTOR, strip) for strip in range(values.strips)
        ]
        if block in self._analysis.assumed:
            return self._assume(block, vectors, successors)
        flat = masks.flat(mask)
        taken = tuple(masks.both(a, b) for a, b in zip(flat, vectors, strict=True))
        rest = tuple(masks.without(a, b) for a, b in zip(flat, vectors, strict=True))
        return [Edge(block, successors[0], Mask(taken)), Edge(block, successors[1], Mask(rest))]

    def _leave_together(self, block: int, flag: str, successors: tuple[int, ...]) -> list[Edge]:
        """Return all lanes end their threads, or none does."""
        text = self._text
        self._nodes.flush()
        onward = text.label("stay")
        ways = (self._labels["done"], onward)
        if successors[0] != self._graph.exit:
            ways = ways[::-1]
        text.branch(flag, *ways)
        text.begin(onward, follows=True)
        return [Edge(block, t, FULL) for t in successors if t != self._graph.exit]

    def _assume(
        self, block: int, vectors: Sequence[str], successors: tuple[int, ...]
    ) -> list[Edge]:
        """Return the fast version goes on only with all lanes; the masked one does the others."""
        text, masks = self._text, self._masks
        self._nodes.flush()
        if successors[0] == self._graph.exit:
            vectors = [self._values.invert(lanes, vector=True) for lanes in vectors]
        onward = text.label("stay")
        text.branch(masks.all_lanes(vectors), onward, self._labels["masked"])
        text.begin(onward, follows=True)
        return [Edge(block, t, FULL) for t in successors if t != self._graph.exit]


class _Choices:
    """Who takes an edge's value where ``edges`` meet.

    A scalar decides for all lanes at once only if every edge has the same vector: then the edges
    differ in their scalars alone, of which one is true. With two vectors among them a scalar says
    nothing about the lanes of the other vector, be it the first edge's or not.
    """

    def __init__(self, text: Text, masks: MaskWriter, edges: Sequence[Edge]) -> None:
        self._text = text
        self._masks = masks
        self._one_vector = all(edge.mask.vector == edges[0].mask.vector for edge in edges)

    def flags(self, edge: Edge, count: int, *, vector: bool) -> tuple[str, ...]:
        """Return ``count`` conditions of a select, each with its type, true for the edge's lanes.

        ``vector`` says that the values are vectors; a scalar value is that of all arriving lanes.
        """
        if self._one_vector:
            return (f"i1 {edge.mask.scalar or 'true'}",) * count
        if vector:
            type_ = self._text.type_of("i1", vector=True)
            return tuple(f"{type_} {lanes}" for lanes in self._masks.flat(edge.mask))
        return (f"i1 {self._masks.any(edge.mask)}",) * count


def _use_blocks(ssa: SsaFunction) -> dict[Value, set[int]]:
    """Return the blocks that read each value; a phi reads in its own block."""
    uses: dict[Value, set[int]] = defaultdict(set)
    for block in ssa.blocks.values():
        for node in (*block.phis, *block.nodes):
            for source in sources_of(node):
                if isinstance(source, Value):
                    uses[source].add(block.index)
        if block.condition is not None and isinstance(block.condition.value, Value):
            uses[block.condition.value].add(block.index)
    return uses
