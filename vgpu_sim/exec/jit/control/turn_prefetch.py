"""What the next turn of a loop in which lanes meet reads is fetched while this one computes.

A tile is copied to shared memory, lanes meet, and compute with it: behind that they meet again, so
that what the next turn copies is asked for when it is needed, and the processor, which looks some
hundred instructions ahead, waits for memory turn after turn. Rows of a tile are a row of the matrix
apart: no processor guesses them either. So each load of such a loop is followed by requests for
what it loads in the next turn, at addresses computed by the same words from the phis' next values.

A request faults nowhere, and addresses are confined as those of loads are. In the last turn rows
behind the last ones are asked for.
"""

from typing import Final

from vgpu_sim.exec.jit.control import block_prefetch
from vgpu_sim.exec.jit.emission.emitter import Emitter
from vgpu_sim.exec.jit.families import LOWERING
from vgpu_sim.exec.jit.ir.ssa import Operation, Phi, Source, Value
from vgpu_sim.exec.jit.memory import rows, wraps
from vgpu_sim.exec.jit.memory.access import Access, Where
from vgpu_sim.exec.jit.shapes.lane_shapes import Vector
from vgpu_sim.exec.jit.text.masks import FULL
from vgpu_sim.exec.jit.values.environment import Form
from vgpu_sim.isa import EFFECTS, Op, Space

_MOST_LINES: Final = 64  # of a load
_MOST_WORDS: Final = 32
_DEPTH: Final = 12


class NextTurn:
    """Writes such requests of one function version."""

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter
        self._values = emitter.values
        self._ssa = emitter.analysis.ssa
        self._meeting: dict[int, bool] = {}

    def fetch(self, node: Operation, access: Access | None = None) -> None:
        """Ask for what ``node``, which has just been written, loads in the next turn, if it is a
        load of rows in a loop in which lanes meet; ``access``: with others, as one."""
        body = self._body(node)
        if body is None or not isinstance(node.sources[0], Value):
            return
        words = list[Operation]()
        phis = dict[Phi, Source]()
        if not self._made_of(node.sources[0], body, words, phis) or not phis:
            return
        before = list[Operation]()
        for source in phis.values():
            if not self._made_of(source, body, before, {}):
                return
        access, text = access or self._emitter.memory.access(node), self._emitter.text
        with self._emitter.untested():
            next_turn = self._values.mark()
            self._write(before)
            self._go_on(phis)
            self._write(words)
            following = self._addresses(access)
            starts = [self._emitter.memory.pointers.at(access, one) for one in following]
            next_turn.roll_back()
            for line in self._lines(access, starts):
                text.prefetch(line)

    def _go_on(self, phis: dict[Phi, Source]) -> None:
        """Hold phis' values in the next turn."""
        names = [
            (phi.result, self._values.materialise(source, phi.result, clean=False))
            for phi, source in phis.items()
            if self._values.form_of(phi.result) is not None
        ]
        for result, following in names:
            self._values.hold(result, following)

    def _body(self, node: Operation) -> frozenset[int] | None:
        """Return the loop that a load may be fetched for."""
        instruction = node.instruction
        if instruction.op is not Op.LD or instruction.space is not Space.GLOBAL:
            return None
        header = self._ssa.graph.innermost_loop[self._values.block]
        if header == -1 or instruction.volatile:
            return None
        body = self._ssa.graph.loops[header]
        if header not in self._meeting:
            nodes = [node for block in body for node in self._ssa.blocks[block].nodes]
            self._meeting[header] = any(
                isinstance(n, Operation) and EFFECTS[n.instruction.op].stops for n in nodes
            )
        return body if self._meeting[header] else None

    def _made_of(
        self,
        source: Source,
        body: frozenset[int],
        words: list[Operation],
        phis: dict[Phi, Source],
        depth: int = _DEPTH,
    ) -> bool:
        """Collect what a number is computed by in each turn, in order, and with which phis, each
        with its value in the next turn; return whether it can be computed once more."""
        if not isinstance(source, Value):
            return True
        if self._ssa.block_of[source] not in body:
            return wraps.is_at_hand(self._values, source)
        node = self._ssa.definition[source]
        if isinstance(node, Phi):
            return self._goes_on(node, body, phis)
        if node in words:
            return True
        if not isinstance(node, Operation) or len(words) > _MOST_WORDS or not depth:
            return False
        shape = self._values.shape(source, source.bits)
        if isinstance(shape, Vector) and shape.hoped is None:
            return False
        if not block_prefetch.is_computed(node):
            return False
        if not all(self._made_of(s, body, words, phis, depth - 1) for s in node.sources):
            return False
        if not isinstance(shape, Vector):  # of others ``wraps`` says the first lanes' numbers
            words.append(node)
        return True

    def _goes_on(self, phi: Phi, body: frozenset[int], phis: dict[Phi, Source]) -> bool:
        header = phi.block
        if self._ssa.graph.loops.get(header) != body:
            return False
        around = [source for block, source in phi.arguments.items() if block in body]
        if len(around) != 1 or isinstance(self._values.analysis.shapes[phi.result], Vector):
            return False
        phis[phi] = around[0]
        return True

    def _write(self, words: list[Operation]) -> None:
        for word in words:
            LOWERING[word.instruction.op](self._emitter, word, FULL, True)

    def _addresses(self, access: Access) -> list[str]:
        """Return the address of each strip's row; none where there are no rows."""
        if access.where is not Where.GLOBAL:
            return []
        if rows.contiguous(access):
            strips = range(self._values.strips)
            return [self._values.read(access.address, "i64", Form.SCALAR, c) for c in strips]
        found = wraps.firsts(self._values, access)
        return [] if found is None else list(found.addresses)

    def _lines(self, access: Access, starts: list[str]) -> list[str]:
        """Return pointers into the lines of rows."""
        size = self._emitter.text.width * access.element_bytes * access.count
        steps = range(0, size, block_prefetch.LINE_BYTES)
        moved = self._emitter.memory.pointers.moved
        return list(dict.fromkeys(moved(start, n) for start in starts for n in steps))[:_MOST_LINES]
