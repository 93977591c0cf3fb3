"""Loops of a function version: header phis, the mask of lanes still inside, live-out values.

In a loop that all lanes leave together, mask and values leave unchanged. A loop that lanes leave
one by one (a divergent loop) keeps a mask of the lanes inside, collects each live-out value when
its lane leaves, and, if it has several exits, the lanes of each exit. Values that are not live
out need no select, since a lane that has left never returns.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import field

from vgpu_sim.exec.jit.control import poll_yields
from vgpu_sim.exec.jit.ir.block_order import Level
from vgpu_sim.exec.jit.ir.ssa import Phi, SsaFunction, Value, results_of, sources_of
from vgpu_sim.exec.jit.progress import polling_loops
from vgpu_sim.exec.jit.text.masks import Edge, Mask, MaskWriter
from vgpu_sim.exec.jit.text.writer import Text
from vgpu_sim.exec.jit.values.environment import Form, Values
from vgpu_sim.exec.jit.values.launch import EntryArguments
from vgpu_sim.records import dataclass

Blended = dict[Phi, tuple[str, ...]]
Taken = dict[Value, tuple[str, ...]]
"""A loop's live-out values, each held as one vector per vector of lanes."""
Way = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Entered:
    """The state in which a divergent loop resumes after its unmasked iterations (see
    ``unmasked_loops``).

    It consists of the lanes that are still in the loop, the values of the phis, and ``taken``:
    the live-out values of the lanes that have left the loop.
    """

    lanes: tuple[str, ...]
    initial: Blended
    taken: Taken


@dataclass(frozen=True, slots=True)
class Reserved:
    """A phi at the head of a loop. Its line in the text is reserved, but is not written yet."""

    name: str
    type_: str
    place: int
    initial: str


@dataclass(slots=True)
class Loop:
    """A loop under construction.

    ``ways`` are all exit edges of the loop, including edges to the function's exit block.
    """

    level: Level
    mask: Mask
    live: Mask
    divergent: bool
    ways: tuple[Way, ...]
    start: str
    origin: str
    phis: dict[Phi, list[Reserved]] = field(default_factory=dict)
    lanes: list[Reserved] = field(default_factory=list)
    collected: dict[Value, list[Reserved]] = field(default_factory=dict)
    left: dict[Way, list[Reserved]] = field(default_factory=dict)


class Loops:
    """Emits the beginning and end of loops; ``uses`` maps values to the blocks that read them."""

    def __init__(
        self,
        text: Text,
        values: Values,
        masks: MaskWriter,
        launch: EntryArguments,
        uses: dict[Value, set[int]],
    ) -> None:
        self._text = text
        self._values = values
        self._masks = masks
        self._launch = launch
        self._uses = uses
        self._analysis = values.analysis
        self._graph = values.analysis.ssa.graph

    def begin(
        self, level: Level, mask: Mask, initial: Blended, entered: Entered | None = None
    ) -> Loop:
        """Open a loop for the lanes of ``mask``. ``initial`` has the first values of the loop's
        phis.

        If the loop resumes after unmasked iterations, ``entered`` has the lanes and values to
        use instead.
        """
        text, masks = self._text, self._masks
        divergent = level.header in self._analysis.divergence.loops
        ways = tuple(
            (block, target)
            for block in sorted(level.blocks)
            for target in self._graph.blocks[block].successors
            if target not in level.blocks
        )
        inside, taken_values = masks.flat(mask) if divergent else (), Taken()
        if entered is not None:
            inside, initial, taken_values = entered.lanes, entered.initial, entered.taken
        start, origin = text.label("loop"), text.block_label
        text.jump(start)
        text.begin(start, follows=True)
        text.known.invalidate_loads()  # a previous iteration may have stored
        loop = Loop(level, mask, mask, divergent, ways, start, origin)
        loop.phis = self.reserve_phis(initial)
        if divergent:
            self._track_lanes(loop, inside, taken_values)
        return loop

    def end(
        self, loop: Loop, leaving: Sequence[Edge], back: Sequence[Edge], latest: Blended
    ) -> list[Edge]:
        """Close a loop and return its exit edges; ``latest`` are the phis' values on the back
        edges.
        """
        text, masks = self._text, self._masks
        again_mask = masks.union([edge.mask for edge in back]) if back else Mask(None, "false")
        following: list[tuple[Sequence[Reserved], Sequence[str]]] = [
            (reserved, latest.get(phi) or tuple(r.name for r in reserved))
            for phi, reserved in loop.phis.items()
        ]
        gone: dict[Value, tuple[str, ...]] = {}
        left: dict[Way, tuple[str, ...]] = {}
        if loop.divergent:
            staying = masks.flat(again_mask)
            again = masks.any(Mask(staying))
            assert loop.live.vector is not None
            out = tuple(masks.without(a, b) for a, b in zip(loop.live.vector, staying, strict=True))
            gone = {value: self._collect(loop, value, out) for value in loop.collected}
            left = {exit_edge: self._lanes_of(loop, exit_edge, leaving) for exit_edge in loop.left}
            following.append((loop.lanes, staying))
            following += [(loop.collected[value], names) for value, names in gone.items()]
            following += [(loop.left[exit_edge], names) for exit_edge, names in left.items()]
        elif again_mask.vector == loop.live.vector:
            again = again_mask.scalar or "true"
        else:
            again = masks.any(again_mask)
        end, end_label = text.block_label, text.label("after")
        if loop.level.header in polling_loops.polling_headers(self._analysis.ssa):
            turn = text.label("turn")
            text.branch(again, turn, end_label)
            text.begin(turn, follows=True)
            poll_yields.consume_credit(text, self._launch)
            end = text.block_label
            text.jump(loop.start)
        else:
            text.branch(again, loop.start, end_label)
        for reserved, names in following:
            for phi, name in zip(reserved, names, strict=True):
                text.fill(phi.place, phi.name, phi.type_, [(phi.initial, loop.origin), (name, end)])
        text.begin(end_label, follows=True)
        for value, names in gone.items():
            self._values.hold(value, names, vectors=True)
        return self._edges(loop, leaving, left)

    def _edges(
        self, loop: Loop, leaving: Sequence[Edge], left: dict[Way, tuple[str, ...]]
    ) -> list[Edge]:
        onward = [exit_edge for exit_edge in loop.ways if exit_edge[1] != self._graph.exit]
        if len(loop.ways) == 1:
            return [Edge(*exit_edge, loop.mask) for exit_edge in onward]
        if loop.divergent:
            return [Edge(*exit_edge, Mask(left[exit_edge])) for exit_edge in onward]
        return [edge for edge in leaving if edge.target != self._graph.exit]

    def _track_lanes(self, loop: Loop, inside: tuple[str, ...], taken_values: Taken) -> None:
        text, values = self._text, self._values
        flags = text.type_of("i1", vector=True)
        loop.lanes = [self._reserve(flags, lanes) for lanes in inside]
        loop.live = Mask(tuple(phi.name for phi in loop.lanes))
        for value in self.live_out(loop.level.blocks):
            type_ = text.type_of(values.types[value], vector=True)
            earlier_names = taken_values.get(value, ("zeroinitializer",) * values.vectors)
            loop.collected[value] = [self._reserve(type_, name) for name in earlier_names]
        if len(loop.ways) > 1:
            onward = [exit_edge for exit_edge in loop.ways if exit_edge[1] != self._graph.exit]
            loop.left = {exit_edge: self._zeros(flags) for exit_edge in onward}

    def _zeros(self, type_: str) -> list[Reserved]:
        return [self._reserve(type_, "zeroinitializer") for _ in range(self._values.vectors)]

    def reserve_phis(self, initial: Blended) -> dict[Phi, list[Reserved]]:
        """Reserve a line in the text for each phi of a loop that begins here.

        The LLVM names of the phis are recorded as the values of their results.
        """
        return {phi: self._phi(phi, names) for phi, names in initial.items()}

    def _phi(self, phi: Phi, initial: tuple[str, ...]) -> list[Reserved]:
        values = self._values
        vector = values.form_of(phi.result) is Form.VECTOR
        type_ = self._text.type_of(values.types[phi.result], vector)
        reserved = [self._reserve(type_, name) for name in initial]
        values.hold(phi.result, tuple(r.name for r in reserved))
        return reserved

    def _reserve(self, type_: str, initial: str) -> Reserved:
        return Reserved(self._text.name(), type_, self._text.reserve(), initial)

    def live_out(self, body: frozenset[int]) -> list[Value]:
        """Return a loop's live-out values, except for those known at compile time."""
        values = []
        for block in sorted(body):
            ssa_block = self._analysis.ssa.blocks[block]
            for node in (*ssa_block.phis, *ssa_block.nodes):
                values += [
                    value
                    for value in results_of(node)
                    if self._uses[value] - body and self._values.form_of(value) is not None
                ]
        return values

    def _collect(self, loop: Loop, value: Value, out: tuple[str, ...]) -> tuple[str, ...]:
        """Return a live-out value updated by the present value of the lanes that leave now."""
        values, text = self._values, self._text
        values.block = loop.level.header
        scalar = values.types[value]
        names = []
        for part, (lanes, phi) in enumerate(zip(out, loop.collected[value], strict=True)):
            present = values.read(value, scalar, Form.VECTOR, part)
            names.append(text.select(lanes, present, phi.name, scalar, vector=True))
        return tuple(names)

    def _lanes_of(self, loop: Loop, exit_edge: Way, leaving: Sequence[Edge]) -> tuple[str, ...]:
        """Return all lanes that have left the loop on one exit edge so far."""
        names = tuple(phi.name for phi in loop.left[exit_edge])
        for edge in leaving:
            if (edge.source, edge.target) == exit_edge:
                flat = self._masks.flat(edge.mask)
                names = tuple(
                    self._masks.lanes_in_either(a, b) for a, b in zip(names, flat, strict=True)
                )
        return names


def blocks_of_uses(ssa: SsaFunction) -> dict[Value, set[int]]:
    """Map each value to the blocks that read it. A phi reads its operands in the phi's own
    block.
    """
    uses: dict[Value, set[int]] = defaultdict(set)
    for block in ssa.blocks.values():
        for node in (*block.phis, *block.nodes):
            for source in sources_of(node):
                if isinstance(source, Value):
                    uses[source].add(block.index)
        if block.condition is not None and isinstance(block.condition.value, Value):
            uses[block.condition.value].add(block.index)
    return uses
