"""Control flow of one function version: masks in place of structured branches.

The blocks of a loop level are emitted in topological order. Each edge has a mask; a block's mask
is that of its immediate dominator if all lanes of the dominator reach it, else the union of its
edges' masks. Phis become selects. A block whose mask may be empty is branched around: mandatory
for loops, scalar loads and wait points, else a matter of speed. See ``loops`` for loops.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from vgpu_sim.exec.jit.analysis.nans import NanPlan
from vgpu_sim.exec.jit.analysis.value_shapes import Analysis
from vgpu_sim.exec.jit.control import trampoline
from vgpu_sim.exec.jit.control.lane_selects import Choices
from vgpu_sim.exec.jit.control.loops import Blended, Entered, Loops, blocks_of_uses
from vgpu_sim.exec.jit.control.nodes import Nodes
from vgpu_sim.exec.jit.control.trampoline import Steps
from vgpu_sim.exec.jit.control.unmasked_loops import UnmaskedLoops
from vgpu_sim.exec.jit.ir.block_order import Level
from vgpu_sim.exec.jit.ir.ssa import Condition, Operation, Phi, SsaFunction, Value
from vgpu_sim.exec.jit.shapes.lane_shapes import Vector
from vgpu_sim.exec.jit.text.masks import FULL, Edge, Mask, MaskWriter
from vgpu_sim.exec.jit.text.writer import Text
from vgpu_sim.exec.jit.values.bound_tests import Bounds
from vgpu_sim.exec.jit.values.environment import Form, Held, Values
from vgpu_sim.isa import EFFECTS, reads_memory

# Below this many nodes, executing a block for no lane costs less than testing for an empty mask.
_CHEAP_NODES = 8


class Regions:
    """Emits the whole control flow of a function version, which ends at ``labels["done"]``."""

    def __init__(
        self,
        text: Text,
        values: Values,
        masks: MaskWriter,
        nodes: Nodes,
        nans: NanPlan,
        labels: Mapping[str, str],
        bounds: Bounds | None = None,
    ) -> None:
        """``bounds`` decides conditions for which separate code serves groups whose lanes all
        agree.
        """
        self._text = text
        self._values = values
        self._masks = masks
        self._nodes = nodes
        self._nans = nans
        self._labels = labels
        self._bounds = bounds
        self._premade: dict[int, Blended] = {}
        self._analysis: Analysis = values.analysis
        self._ssa: SsaFunction = values.analysis.ssa
        self._graph = self._ssa.graph
        self._uses = blocks_of_uses(self._ssa)
        self._loops = Loops(text, values, masks, nodes.launch, self._uses)
        self._whole: UnmaskedLoops | None = None
        if bounds is not None:
            self._whole = UnmaskedLoops(text, values, masks, self._loops, bounds)
        # Latches at which ``unmasked_loops`` emits the test: one edge for all lanes.
        self._unmasked_latches: set[int] = set()

    def write(self, present: Mask = FULL) -> None:
        """Emit all blocks for the lanes of ``present``. The code of the group begins at the current
        label.
        """
        trampoline.run(self._level(self._analysis.top, present))
        self._nodes.flush()
        self._text.jump(self._labels["done"])

    def _level(self, level: Level, live: Mask) -> Steps[tuple[list[Edge], list[Edge]]]:
        """Emit a level; return its exit edges and its back edges."""
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
                premade = self._premade.pop(header, None)
                initial = self._blend(header, arriving[header]) if premade is None else premade
            masks[header] = mask
            edges: list[Edge]
            inner = None
            if self._bounds is not None and isinstance(unit, int) and (mask == live or mask.full):
                inner = self._bounds.block_within_bounds(level, unit)
            if inner is None or isinstance(unit, Level):
                edges = yield self._unit(unit, mask, live, initial)
            else:
                edges = yield self._write_whole_or_divergent(unit, inner, mask, initial)
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
        if above in masks and level.all_lanes_reach(above, block):
            return masks[above]
        return self._masks.union([edge.mask for edge in edges])

    def _write_whole_or_divergent(
        self, block: int, inner: int, mask: Mask, initial: Blended
    ) -> Steps[list[Edge]]:
        """Emit ``block``, and ``inner`` twice: for groups of which all lanes enter it, and for
        others.
        """
        text, values, ssa_block = self._text, self._values, self._ssa.blocks[block]
        condition, ways = ssa_block.condition, ssa_block.successors
        assert condition is not None
        assert self._bounds is not None
        for phi, names in initial.items():
            values.hold(phi.result, names)
        values.block = block
        self._nodes.emit_block(ssa_block, mask, occupied=True)
        join = next(target for target in ways if target != inner)
        self._nodes.flush()
        flag = self._bounds.all_lanes(condition, outcome=inner == ways[0])
        whole, parted, met = text.label("whole"), text.label("parted"), text.label("met")
        text.branch(flag, whole, parted)
        ends: list[tuple[Blended, str]] = []
        for label in (whole, parted):
            text.begin(label, follows=True)
            with values.scope() as scope:
                if label == whole:
                    edges = self._block(inner, mask, occupied=True)
                else:
                    edges = [e for e in self._split_edges(block, mask) if e.target == join]
                    inner_edge = next(
                        e for e in self._split_edges(block, mask) if e.target == inner
                    )
                    edges += yield self._guard(inner, inner_edge.mask, {})
                blended = {} if join == self._graph.exit else self._blend(join, edges)
                self._nodes.flush()
                ends.append((blended, text.block_label))
                text.jump(met)
                scope.roll_back()
        text.begin(met, follows=True)
        if join == self._graph.exit:
            return []
        (ours, whole_end), (theirs, parted_end) = ends
        self._premade[join] = {
            phi: tuple(
                text.phi(self._type_of(phi), (a, whole_end), (b, parted_end))
                for a, b in zip(names, theirs[phi], strict=True)
            )
            for phi, names in ours.items()
        }
        return [Edge(block, join, mask)]

    def _type_of(self, phi: Phi) -> str:
        values = self._values
        vector = values.form_of(phi.result) is Form.VECTOR
        return self._text.type_of(values.types[phi.result], vector)

    def _unit(
        self, unit: "int | Level", mask: Mask, live: Mask, initial: Blended
    ) -> Steps[list[Edge]]:
        if mask == live or mask.full:
            return self._inside(unit, mask, initial, occupied=True)
        expensive = isinstance(unit, Level) or self._expensive(unit)
        if mask.scalar is None and not expensive:
            return self._inside(unit, mask, initial, occupied=False)
        return self._guard(unit, mask, initial)

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
            if EFFECTS[node.instruction.op].stops or EFFECTS[node.instruction.op].collective:
                return True
            if not reads_memory(node.instruction):
                continue
            shape = self._analysis.shape(node.sources[0], block, 64)
            if not isinstance(shape, Vector):
                return True
        return False

    def _guard(self, unit: "int | Level", mask: Mask, initial: Blended) -> Steps[list[Edge]]:
        """Emit a unit, with a branch around it that is taken if the mask is empty."""
        text, values = self._text, self._values
        self._nodes.flush()
        has_lanes = self._masks.any(mask)
        if has_lanes == "true":
            known: list[Edge] = yield self._inside(unit, mask, initial, occupied=True)
            return known
        run, skip = text.label("run"), text.label("skip")
        origin = text.block_label
        text.branch(has_lanes, run, skip)
        text.begin(run, follows=True)
        within = Mask(mask.vector)
        with values.scope() as guarded:
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
        self._merge_held(guarded.defined, blocks, end, origin)
        return merged

    def _after_guard(self, mask: Mask, within: Mask, outer: Mask, end: str, origin: str) -> Mask:
        """Return the mask of an edge after a guard, empty if the guard skipped the unit."""
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
        """Emit phis after a guard for the values ``defined``, since the guard may have skipped
        them.
        """
        text, values = self._text, self._values
        for value in defined:
            held_value = values.held.get(value)
            if held_value is None:
                continue
            if self._uses[value] <= blocks:
                del values.held[value]
                continue
            type_ = text.type_of(held_value.scalar, held_value.vector)
            zero = text.const(0, held_value.scalar, held_value.vector)
            names = tuple(text.phi(type_, (name, end), (zero, origin)) for name in held_value.names)
            values.record_held(value, Held(names, held_value.scalar, held_value.vector))

    def _blend(self, header: int, edges: Sequence[Edge]) -> Blended:
        """Return the values of a block's phis over the lanes that arrive on ``edges``.

        No lane arrives on two edges, so each edge's lanes select its value over the result of
        the previous edges; an edge with the same value as the first one needs no select.
        """
        values, text = self._values, self._text
        values.block = header
        text.word = self._ssa.blocks[header].first_word
        blended: Blended = {}
        choices = Choices(text, self._masks, edges)
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
                edge_names = values.materialise(source, phi.result, clean=clean)
                flags = choices.flags(edge, len(names), vector=form is Form.VECTOR)
                names = tuple(
                    text.let(f"select {flag}, {type_} {yes}, {type_} {no}")
                    for flag, yes, no in zip(flags, edge_names, names, strict=True)
                )
            blended[phi] = names
        return blended

    def _loop(self, level: Level, mask: Mask, initial: Blended) -> Steps[list[Edge]]:
        self._nodes.flush()
        edges: list[Edge]
        unmasked = (
            None if self._whole is None else self._whole.unmasked_loop_for(level, mask, initial)
        )
        if self._whole is None or unmasked is None:
            edges = yield self._masked_loop(level, mask, initial)
            return edges
        with self._values.scope() as scope:
            self._whole.begin(unmasked)
            self._unmasked_latches.add(unmasked.latch)
            _, back = yield self._level(level, FULL)
            self._unmasked_latches.remove(unmasked.latch)
            self._nodes.flush()
            self._whole.end(unmasked, self._blend(level.header, back))
            scope.roll_back()
        with self._text.known.open_scope():
            entered = self._whole.begin_masked(unmasked)
            edges = yield self._masked_loop(level, mask, initial, entered)
            self._whole.join_exits(unmasked)
        return edges

    def _masked_loop(
        self, level: Level, mask: Mask, initial: Blended, entered: Entered | None = None
    ) -> Steps[list[Edge]]:
        loop = self._loops.begin(level, mask, initial, entered)
        leaving, back = yield self._level(level, loop.live)
        self._nodes.flush()
        latest = self._blend(level.header, back) if back else {}
        return self._loops.end(loop, leaving, back, latest)

    def _block(self, block: int, mask: Mask, occupied: bool) -> list[Edge]:
        values, masks = self._values, self._masks
        values.block = block
        ssa_block = self._ssa.blocks[block]
        self._nodes.emit_block(ssa_block, mask, occupied=occupied)
        successors = ssa_block.successors
        if len(successors) == 1 or block in self._unmasked_latches:
            return [Edge(block, target, mask) for target in successors]
        condition = ssa_block.condition
        assert condition is not None
        if self._analysis.is_uniform(condition, block):
            flag = values.condition(condition, Form.BASE)
            if (mask.full or block in self._analysis.assumed) and self._graph.exit in successors:
                return self._leave_together(block, flag, successors, mask)
            inverse = values.invert(flag, vector=False)
            return [
                Edge(block, successors[0], masks.narrow(mask, flag)),
                Edge(block, successors[1], masks.narrow(mask, inverse)),
            ]
        if block in self._analysis.assumed:
            return self._assume(block, condition, successors, mask)
        return self._split_edges(block, mask)

    def _split_edges(self, block: int, mask: Mask) -> list[Edge]:
        """Return both edges of a divergent branch at the end of ``block``, with their masks."""
        values, masks = self._values, self._masks
        values.block = block
        ssa_block = self._ssa.blocks[block]
        condition, successors = ssa_block.condition, ssa_block.successors
        assert condition is not None
        vectors = [values.condition(condition, Form.VECTOR, part) for part in range(values.vectors)]
        flat = masks.flat(mask)
        taken_lanes = tuple(masks.lanes_in_both(a, b) for a, b in zip(flat, vectors, strict=True))
        fallthrough_lanes = tuple(masks.without(a, b) for a, b in zip(flat, vectors, strict=True))
        return [
            Edge(block, successors[0], Mask(taken_lanes)),
            Edge(block, successors[1], Mask(fallthrough_lanes)),
        ]

    def _leave_together(
        self, block: int, flag: str, successors: tuple[int, ...], mask: Mask
    ) -> list[Edge]:
        """Emit a uniform branch by which either all lanes end their threads or none does."""
        text = self._text
        self._nodes.flush()
        onward = text.label("stay")
        ways = (self._labels["done"], onward)
        if successors[0] != self._graph.exit:
            ways = ways[::-1]
        text.branch(flag, *ways)
        text.begin(onward, follows=True)
        return [Edge(block, t, mask) for t in successors if t != self._graph.exit]

    def _assume(
        self, block: int, condition: Condition, successors: tuple[int, ...], mask: Mask
    ) -> list[Edge]:
        """Emit an assumed guard: a branch to the masked version unless no thread ends."""
        text, masks, outcome = self._text, self._masks, successors[0] != self._graph.exit
        self._nodes.flush()
        if self._bounds is not None and self._bounds.can_test(condition, outcome=outcome):
            flag = self._bounds.all_lanes(condition, outcome=outcome)
        else:
            vectors = [
                self._values.condition(condition, Form.VECTOR, part)
                for part in range(self._values.vectors)
            ]
            if not outcome:
                vectors = [masks.inverse(lanes) for lanes in vectors]
            if not mask.full:
                absent = [masks.inverse(lanes) for lanes in masks.flat(mask)]
                vectors = [
                    masks.lanes_in_either(a, b) for a, b in zip(vectors, absent, strict=True)
                ]
            flag = masks.all_lanes(vectors)
        onward = text.label("stay")
        text.branch(flag, onward, self._labels["masked"])
        text.begin(onward, follows=True)
        return [Edge(block, t, mask) for t in successors if t != self._graph.exit]
