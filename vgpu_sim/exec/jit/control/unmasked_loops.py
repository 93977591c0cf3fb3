"""Unmasked copies of loops, for the iterations that all lanes of a group execute.

Most divergent loops (``for (i = thread; i < n; i += threads)``) lose lanes only in their last
iteration. If a test of the outermost lanes decides for all lanes whether they iterate again
(``bound_tests``), the loop is emitted twice: an unmasked copy that runs while all lanes iterate,
at a cost of one or two comparisons per iteration, then the masked loop for the remaining lanes.
Groups that arrive without some lanes start in the masked loop. If all lanes leave at once, it
never runs.
"""

from dataclasses import field
from typing import Final

from vgpu_sim.exec.jit.control.loops import Blended, Entered, Loops, Reserved, Taken
from vgpu_sim.exec.jit.ir.block_order import Level
from vgpu_sim.exec.jit.ir.ssa import Operation, Phi
from vgpu_sim.exec.jit.numbers.known_values import known_values
from vgpu_sim.exec.jit.progress import polling_loops
from vgpu_sim.exec.jit.text.masks import Mask, MaskWriter
from vgpu_sim.exec.jit.text.writer import Text
from vgpu_sim.exec.jit.values.bound_tests import Bounds
from vgpu_sim.exec.jit.values.environment import Form, Values
from vgpu_sim.isa import EFFECTS, Family
from vgpu_sim.records import dataclass

# Only loops of at most this many nodes are emitted twice.
_SHORT_NODES: Final = 48
_ADDRESS: Final = "i64"


@dataclass(slots=True)
class UnmaskedLoop:
    """A loop whose unmasked copy is being emitted, and the labels around that copy.

    ``lanes`` are the lanes that arrive from ``origin``, with the phi values ``initial``.
    ``all_come`` is an i1 that is true if all lanes of the group arrive. The unmasked copy ends at
    the label ``left``, where the phis have the values ``latest``. From there, the lanes ``staying``
    continue in the masked loop, which begins at the label ``masked``. The other lanes have left the
    loop and continue at the label ``met``. ``taken`` has the live-out values of these other lanes.
    """

    level: Level
    latch: int
    lanes: tuple[str, ...]
    initial: Blended
    all_come: str
    origin: str
    start: str
    masked: str
    met: str
    entry: str = ""
    left: str = ""
    phis: dict[Phi, list[Reserved]] = field(default_factory=dict)
    latest: Blended = field(default_factory=dict)
    staying: tuple[str, ...] = ()
    taken: Taken = field(default_factory=dict)


class UnmaskedLoops:
    """Emits the unmasked copies of loops of one function version."""

    def __init__(
        self, text: Text, values: Values, masks: MaskWriter, loops: Loops, bounds: Bounds
    ) -> None:
        self._text = text
        self._values = values
        self._masks = masks
        self._loops = loops
        self._bounds = bounds
        self._analysis = values.analysis
        self._ssa = values.analysis.ssa

    def unmasked_loop_for(self, level: Level, mask: Mask, initial: Blended) -> UnmaskedLoop | None:
        """Return the state of emitting an unmasked copy of the loop ``level``.

        The lanes of ``mask`` reach the loop. Return None if the loop gets no unmasked copy.
        """
        latch = self._latch(level)
        if latch is None:
            return None
        text, masks = self._text, self._masks
        lanes = masks.flat(mask)
        all_come = "true" if mask.full else masks.all_lanes(lanes)
        if all_come == "false":
            return None
        return UnmaskedLoop(
            level,
            latch,
            lanes,
            initial,
            all_come,
            origin=text.block_label,
            start=text.label("turns"),
            masked=text.label("lacking"),
            met=text.label("met"),
        )

    def begin(self, loop: UnmaskedLoop) -> None:
        """Begin the unmasked copy. A group executes it only if all its lanes arrive."""
        text = self._text
        loop.entry = text.label("whole")
        if loop.all_come == "true":
            text.jump(loop.entry)
        else:
            text.branch(loop.all_come, loop.entry, loop.masked)
        text.begin(loop.entry, follows=True)
        text.jump(loop.start)
        text.begin(loop.start, follows=True)
        text.known.invalidate_loads()  # a previous iteration may have stored
        loop.phis = self._loops.reserve_phis(loop.initial)

    def end(self, loop: UnmaskedLoop, latest: Blended) -> None:
        """End the unmasked copy of a loop. ``latest`` are the values of the phis at the loop's
        latch.

        If the emitted test shows that all lanes iterate again, the group stays in the copy.
        Otherwise it leaves the copy, and lanes that iterate again continue in the masked loop.
        """
        text, values, level = self._text, self._values, loop.level
        block = self._ssa.blocks[loop.latch]
        condition, goes_on = block.condition, block.successors[0] == level.header
        assert condition is not None
        values.block, text.word = loop.latch, block.last_word
        again = self._bounds.all_lanes(condition, outcome=goes_on)
        loop.latest, end, loop.left = latest, text.block_label, text.label("left")
        text.branch(again, loop.start, loop.left)
        for phi, reserved in loop.phis.items():
            for reserved_phi, name in zip(reserved, latest[phi], strict=True):
                ways = [(reserved_phi.initial, loop.entry), (name, end)]
                text.fill(reserved_phi.place, reserved_phi.name, reserved_phi.type_, ways)
        text.begin(loop.left, follows=True)
        vectors = range(values.vectors)
        flags = [values.condition(condition, Form.VECTOR, part) for part in vectors]
        loop.staying = tuple(flags if goes_on else map(self._masks.inverse, flags))
        has_staying = self._masks.any(Mask(loop.staying))
        values.block = level.header
        for value in self._loops.live_out(level.blocks):
            type_ = values.types[value]
            read = (values.read(value, type_, Form.VECTOR, part) for part in vectors)
            loop.taken[value] = tuple(read)
        text.branch(has_staying, loop.masked, loop.met)

    def begin_masked(self, loop: UnmaskedLoop) -> Entered:
        """Begin the masked loop and return the state in which it starts. That state merges groups
        that skip the unmasked copy with groups that leave it.
        """
        text = self._text
        text.begin(loop.masked, follows=True)
        initial = {
            phi: self._merge(loop, reserved[0].type_, loop.initial[phi], loop.latest[phi])
            for phi, reserved in loop.phis.items()
        }
        lanes = self._merge(loop, self._type("i1"), loop.lanes, loop.staying)
        nothing = ("zeroinitializer",) * self._values.vectors
        taken_values = {
            value: self._merge(loop, self._type(self._values.types[value]), nothing, names)
            for value, names in loop.taken.items()
        }
        return Entered(lanes, initial, taken_values)

    def join_exits(self, loop: UnmaskedLoop) -> None:
        """Join the exit of the masked loop with that of the unmasked copy."""
        text, values = self._text, self._values
        end = text.block_label
        text.jump(loop.met)
        text.begin(loop.met, follows=True)
        for value, ours in loop.taken.items():
            type_, theirs = self._type(values.types[value]), values.held[value].names
            pairs = zip(ours, theirs, strict=True)
            names = (text.phi(type_, (a, loop.left), (b, end)) for a, b in pairs)
            values.hold(value, tuple(names), vectors=True)

    def _type(self, scalar: str) -> str:
        return self._text.type_of(scalar, vector=True)

    def _merge(
        self, loop: UnmaskedLoop, type_: str, come: tuple[str, ...], left: tuple[str, ...]
    ) -> tuple[str, ...]:
        """Merge two sets of values: ``come``, of groups that skip the copy, and ``left``, of groups
        that leave it.
        """
        if loop.all_come == "true":
            return left
        pairs = zip(come, left, strict=True)
        return tuple(self._text.phi(type_, (a, loop.origin), (b, loop.left)) for a, b in pairs)

    def _latch(self, level: Level) -> int | None:
        """Return the only latch and exit block of a loop that is worth an unmasked copy, else None.

        Its condition must be decidable by a test of the outermost lanes.
        """
        graph, header = self._ssa.graph, level.header
        divergent = self._analysis.divergence.loops
        if header not in divergent or header in polling_loops.polling_headers(self._ssa):
            return None
        if any(isinstance(unit, Level) for unit in level.units) or not self._is_short(level):
            return None
        latches = {
            block
            for block in level.blocks
            for target in graph.blocks[block].successors
            if target == header or target not in level.blocks
        }
        if len(latches) != 1 or self._hands_on_addresses(level):
            return None
        latch = latches.pop()
        condition, ways = self._ssa.blocks[latch].condition, self._ssa.blocks[latch].successors
        if condition is None or len(ways) != 2 or header not in ways:
            return None
        self._values.block = latch
        if self._analysis.is_uniform(condition, latch):
            return None
        return latch if self._bounds.can_test(condition, outcome=ways[0] == header) else None

    def _is_short(self, level: Level) -> bool:
        nodes = [node for block in level.blocks for node in self._ssa.blocks[block].nodes]
        operations = [node.instruction.op for node in nodes if isinstance(node, Operation)]
        return len(nodes) <= _SHORT_NODES and not any(
            EFFECTS[op].stops or EFFECTS[op].collective or op.family is Family.ATOMIC
            for op in operations
        )

    def _hands_on_addresses(self, level: Level) -> bool:
        """Return whether one bound on an address must hold for the unmasked and the masked loop
        together.

        This is so for pointer phis of a loop with a bounded trip count, and for live-out
        pointers.
        """
        types, phis = self._values.types, self._ssa.blocks[level.header].phis
        if any(types[value] == _ADDRESS for value in self._loops.live_out(level.blocks)):
            return True
        moving = any(types[phi.result] == _ADDRESS for phi in phis)
        return moving and known_values(self._ssa).most_trips(level.header) is not None
