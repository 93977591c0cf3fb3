"""What the next block reads first is fetched while this one computes.

Where lanes meet, a block is a chain of results that wait for each other, and the processor gets to
the next block's reads when that is over: it then waits for memory, block after block. So a block
begins with asking for the rows that the next one begins with. An address is computed as that
block will compute it, by the same words, with its block index in the place of this one's.

A request for memory faults nowhere, and addresses are confined as those of loads are. Only rows at
a base and distances known now are asked for, read before lanes first meet, and of a loop those of
its first turns.
"""

from collections.abc import Iterator
from typing import Final

from vgpu_sim.exec.jit.emission.emitter import Emitter
from vgpu_sim.exec.jit.families import LOWERING
from vgpu_sim.exec.jit.ir.ssa import Operation, Phi, Source, Value, results_of
from vgpu_sim.exec.jit.memory import rows
from vgpu_sim.exec.jit.memory.access import Access, Where
from vgpu_sim.exec.jit.numbers.trip_counts import step_of
from vgpu_sim.exec.jit.shapes.lane_shapes import Affine
from vgpu_sim.exec.jit.text.masks import FULL
from vgpu_sim.isa import EFFECTS, Op, Space, SpecialRegister

LINE_BYTES: Final = 64
_MOST_LINES: Final = 128
_TURNS: Final = 4
_COMPUTED: Final = frozenset(
    (Op.MOV, Op.ADD, Op.SUB, Op.MUL, Op.MAD, Op.SHL, Op.SHR, Op.AND, Op.OR, Op.XOR, Op.CVT)
)
_OF_BLOCK: Final = (SpecialRegister.CTAID_X, SpecialRegister.CTAID_Y, SpecialRegister.CTAID_Z)


def fetch(emitter: Emitter) -> None:
    """Ask for what the block reads first whose indices ``emitter`` knows as its block's."""
    _Ahead(emitter).write()


def is_computed(node: Operation) -> bool:
    """Return whether a node computes integers of its operands, or of the launch, alone."""
    instruction = node.instruction
    if instruction.op is Op.S2R:
        known = instruction.sreg is not None and not instruction.sreg.runs
    elif instruction.op is Op.LD:
        known = instruction.space is Space.PARAM
    else:
        known = instruction.op in _COMPUTED and instruction.type.is_integer
    whole = instruction.source_type is None or instruction.source_type.is_integer
    return known and not instruction.saturate and whole


class _Ahead:
    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter
        self._values = emitter.values
        self._analysis = emitter.analysis
        self._ssa = emitter.analysis.ssa
        self._moving: set[Value] = set()  # what is another number in each block

    def write(self) -> None:
        lines: dict[str, None] = {}
        for block in self._analysis.order:
            self._values.block = block
            for phi in self._ssa.blocks[block].phis:
                self._begin(phi)
            for node in self._ssa.blocks[block].nodes:
                if not isinstance(node, Operation):
                    continue
                effects = EFFECTS[node.instruction.op]
                if effects.stops or effects.collective:
                    self._ask(list(lines))
                    return
                if self._is_row(node):
                    lines.update(dict.fromkeys(self._lines(node)))
                elif self._is_computed(node):
                    LOWERING[node.instruction.op](self._emitter, node, FULL, True)
                    self._follow(node)
        self._ask(list(lines))

    def _ask(self, lines: list[str]) -> None:
        for pointer in lines[:_MOST_LINES]:
            self._emitter.text.prefetch(pointer)

    def _begin(self, phi: Phi) -> None:
        """Hold what a loop's phi is in the first turn."""
        body = self._ssa.graph.loops.get(phi.block, frozenset())
        first = [source for block, source in phi.arguments.items() if block not in body]
        if not body or len(first) != 1 or not self._is_held(first[0]):
            return
        if isinstance(self._analysis.shapes[phi.result], Affine):
            if self._values.form_of(phi.result) is not None:
                names = self._values.materialise(first[0], phi.result, clean=False)
                self._values.hold(phi.result, names)
            if first[0] in self._moving:
                self._moving.add(phi.result)

    def _follow(self, node: Operation) -> None:
        if node.instruction.sreg in _OF_BLOCK or not self._moving.isdisjoint(node.sources):
            self._moving.update(results_of(node))

    def _is_held(self, source: Source) -> bool:
        """Return whether a number, and lanes' distances from it, are known for the next block."""
        if not isinstance(source, Value):
            return True
        shape = self._analysis.shapes[source]
        if not isinstance(shape, Affine):
            return False
        return shape.constant is not None or source in self._values.held

    def _is_computed(self, node: Operation) -> bool:
        shapes = [self._analysis.shapes[result] for result in results_of(node)]
        return (
            is_computed(node)
            and all(isinstance(shape, Affine) for shape in shapes)
            and all(map(self._is_held, node.sources))
        )

    def _is_row(self, node: Operation) -> bool:
        instruction = node.instruction
        if instruction.op is not Op.LD or instruction.space is not Space.GLOBAL:
            return False
        address = node.sources[0]
        return address in self._moving and not instruction.volatile and self._is_held(address)

    def _lines(self, node: Operation) -> Iterator[str]:
        """Yield pointers into the lines of what a load reads."""
        access = self._emitter.memory.access(node)
        if not rows.contiguous(access) or access.where is not Where.GLOBAL:
            return
        assert isinstance(access.shape, Affine)
        size = self._emitter.text.width * access.shape.stride
        bytes_ = {n for far in access.shape.offsets for n in range(far, far + size, LINE_BYTES)}
        places = sorted({n // LINE_BYTES * LINE_BYTES for n in bytes_})
        pointers = self._emitter.memory.pointers
        base = pointers.of_strip(access, None)
        for turn in self._turns(access):
            yield from (pointers.moved(base, turn + place) for place in places)

    def _turns(self, access: Access) -> range:
        """Return how far behind the first turn's row those of the next ones are."""
        home = self._ssa.graph.innermost_loop[self._values.block]
        for phi in self._ssa.blocks[home].phis if home != -1 else ():
            around = [s for b, s in phi.arguments.items() if b in self._ssa.graph.loops[home]]
            if step_of(self._ssa, access.address, phi.result) is None or len(around) != 1:
                continue
            step = step_of(self._ssa, around[0], phi.result)
            if step:
                return range(0, _TURNS * step, step)
        return range(1)
