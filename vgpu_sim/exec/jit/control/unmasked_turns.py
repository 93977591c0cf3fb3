"""Turns of a loop that all lanes of a group take, without masks, before the loop with masks.

Most loops that lanes leave one by one (``for (i = thread; i < n; i += threads)``) lose lanes in
their last turn alone. Where the outermost lanes tell of all whether they turn again
(``bound_tests``), such a loop is written twice: first for as long as all lanes turn, which costs a
comparison or two a turn, then, with masks, for those that are left. Groups that come to it without
some lanes begin there. If lanes leave all at once, the masked one never runs.
"""

from dataclasses import dataclass, field
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

# Up to so many nodes a loop is written once more.
_SHORT_NODES: Final = 48
_ADDRESS: Final = "i64"


@dataclass(slots=True)
class Turns:
    """A loop whose whole turns are being written, and the labels around them.

    ``lanes`` are those that come from ``origin``, with the phis' values ``initial``; ``all_come``
    is a flag that is set if these are all of the group. At ``left`` whole turns end: then the phis
    are ``latest``, ``staying`` lanes go on in the loop at ``masked``, and the others have ``taken``
    values out of it, to ``met``.
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


class WholeTurns:
    """Writes them for one function version."""

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

    def of(self, level: Level, mask: Mask, initial: Blended) -> Turns | None:
        """Return the loop that the lanes of ``mask`` come to; None if it has no such turns."""
        latch = self._latch(level)
        if latch is None:
            return None
        text, masks = self._text, self._masks
        lanes = masks.flat(mask)
        all_come = "true" if mask.full else masks.all_lanes(lanes)
        if all_come == "false":
            return None
        labels = (text.block_label, text.label("turns"), text.label("lacking"), text.label("met"))
        return Turns(level, latch, lanes, initial, all_come, *labels)

    def begin(self, turns: Turns) -> None:
        """Begin a turn without masks, for groups of which all lanes come."""
        text = self._text
        turns.entry = text.label("whole")
        if turns.all_come == "true":
            text.jump(turns.entry)
        else:
            text.branch(turns.all_come, turns.entry, turns.masked)
        text.begin(turns.entry, follows=True)
        text.jump(turns.start)
        text.begin(turns.start, follows=True)
        text.known.written()  # perhaps by the turn before
        turns.phis = self._loops.hold_phis(turns.initial)

    def end(self, turns: Turns, latest: Blended) -> None:
        """End the turn, behind which phis are ``latest``: all lanes turn again, or they part."""
        text, values, level = self._text, self._values, turns.level
        block = self._ssa.blocks[turns.latch]
        condition, goes_on = block.condition, block.successors[0] == level.header
        assert condition is not None
        values.block, text.word = turns.latch, block.last_word
        again = self._bounds.all_lanes(condition, wanted=goes_on)
        turns.latest, end, turns.left = latest, text.block_label, text.label("left")
        text.branch(again, turns.start, turns.left)
        for phi, reserved in turns.phis.items():
            for one, name in zip(reserved, latest[phi], strict=True):
                ways = [(one.initial, turns.entry), (name, end)]
                text.fill(one.place, one.name, one.type_, ways)
        text.begin(turns.left, follows=True)
        strips = range(values.strips)
        flags = [values.condition(condition, Form.VECTOR, strip) for strip in strips]
        turns.staying = tuple(flags if goes_on else map(self._masks.inverse, flags))
        some = self._masks.any(Mask(turns.staying))
        values.block = level.header
        for value in self._loops.live_out(level.blocks):
            type_ = values.types[value]
            read = (values.read(value, type_, Form.VECTOR, strip) for strip in strips)
            turns.taken[value] = tuple(read)
        text.branch(some, turns.masked, turns.met)

    def go_on(self, turns: Turns) -> Entered:
        """Begin where lanes need masks; return how they go on."""
        text = self._text
        text.begin(turns.masked, follows=True)
        initial = {
            phi: self._either(turns, reserved[0].type_, turns.initial[phi], turns.latest[phi])
            for phi, reserved in turns.phis.items()
        }
        lanes = self._either(turns, self._type("i1"), turns.lanes, turns.staying)
        nothing = ("zeroinitializer",) * self._values.strips
        taken = {
            value: self._either(turns, self._type(self._values.types[value]), nothing, names)
            for value, names in turns.taken.items()
        }
        return Entered(lanes, initial, taken)

    def meet(self, turns: Turns) -> None:
        """Begin where those meet, behind the masked loop, who needed masks and who did not."""
        text, values = self._text, self._values
        end = text.block_label
        text.jump(turns.met)
        text.begin(turns.met, follows=True)
        for value, ours in turns.taken.items():
            type_, theirs = self._type(values.types[value]), values.held[value].names
            pairs = zip(ours, theirs, strict=True)
            names = (text.phi(type_, (a, turns.left), (b, end)) for a, b in pairs)
            values.hold(value, tuple(names), vectors=True)

    def _type(self, scalar: str) -> str:
        return self._text.type_of(scalar, vector=True)

    def _either(
        self, turns: Turns, type_: str, come: tuple[str, ...], left: tuple[str, ...]
    ) -> tuple[str, ...]:
        """Return what holds for lanes that ``come`` here at once, or have ``left`` whole turns."""
        if turns.all_come == "true":
            return left
        pairs = zip(come, left, strict=True)
        return tuple(self._text.phi(type_, (a, turns.origin), (b, turns.left)) for a, b in pairs)

    def _latch(self, level: Level) -> int | None:
        """Return the one block from which lanes turn or leave, if its question can be asked of the
        outermost lanes, and the loop is one to be written twice."""
        graph, header = self._ssa.graph, level.header
        divergent = self._analysis.divergence.loops
        if header not in divergent or header in polling_loops.polling(self._ssa):
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
        if self._analysis.uniform(condition, latch):
            return None
        return latch if self._bounds.askable(condition, wanted=ways[0] == header) else None

    def _is_short(self, level: Level) -> bool:
        nodes = [node for block in level.blocks for node in self._ssa.blocks[block].nodes]
        operations = [node.instruction.op for node in nodes if isinstance(node, Operation)]
        return len(nodes) <= _SHORT_NODES and not any(
            EFFECTS[op].stops or EFFECTS[op].collective or op.family is Family.ATOMIC
            for op in operations
        )

    def _hands_on_addresses(self, level: Level) -> bool:
        """Return whether a bound of an address is to hold for both loops together: what moves at
        most so often as this loop turns, or what lanes take out of it."""
        types, phis = self._values.types, self._ssa.blocks[level.header].phis
        if any(types[value] == _ADDRESS for value in self._loops.live_out(level.blocks)):
            return True
        moving = any(types[phi.result] == _ADDRESS for phi in phis)
        return moving and known_values(self._ssa).most_trips(level.header) is not None
