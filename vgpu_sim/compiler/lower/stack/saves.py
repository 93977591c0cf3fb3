"""Saves registers around a call that may lead back to its own function.

Registers belong to a function, not to an activation of it. So before such a call the registers
that are needed after it are saved on the stack, and restored from there.
"""

from collections.abc import Iterable

from vgpu_sim.compiler.lower.builder import Builder, Mark
from vgpu_sim.compiler.lower.stack.stack import ALIGNMENT_BYTES, Stack
from vgpu_sim.compiler.lower.symbols.findings import Unsupported
from vgpu_sim.compiler.lower.symbols.types import UNTYPED
from vgpu_sim.isa import (
    EFFECTS,
    Compare,
    DataType,
    Instruction,
    Literal,
    Op,
    Predicate,
    Register,
    Space,
)

MAX_SET_BITS = 1 << 28
"""The limit of blocks times registers and predicates, and so of the cost of one pass over the
code.
"""

Place = Register | Predicate


def expand_saves(builder: Builder, stack: Stack) -> None:
    """Replace each mark in the code by instructions that save or restore registers.

    A call has marks if it may lead to another call of the function that contains it. One mark is
    before the call and one after it.

    Raises:
        Unsupported: the code is too large for the liveness analysis.
    """
    if not builder.marks:
        return
    needed = _Liveness(builder).live_after_calls()
    scratch = builder.new_register(32)

    def expand(word: int, instruction: Instruction) -> list[Instruction]:
        mark = builder.marks.get(word)
        if mark is None:
            return [instruction]
        places = needed[mark.call]
        return _save_or_restore(builder, stack, places, scratch, saves=mark.saves)

    builder.rewrite(expand)
    builder.marks.clear()


def _save_or_restore(
    builder: Builder, stack: Stack, places: list[Place], scratch: Register, *, saves: bool
) -> list[Instruction]:
    words: list[Instruction] = []
    offset = 0
    for place in places:
        bits = 32 if isinstance(place, Predicate) else builder.register_bits[place.index]
        offset = -(-offset * 8 // bits) * bits // 8
        own = scratch if isinstance(place, Predicate) else place
        type_ = UNTYPED[bits]
        if saves:
            if isinstance(place, Predicate):
                srcs = (Literal(1), Literal(0), place)
                words.append(Instruction(Op.SELP, DataType.B32, (scratch,), srcs))
            words.append(
                Instruction(
                    Op.ST,
                    type_,
                    (),
                    (stack.pointer, own),
                    space=Space.LOCAL,
                    displacement=offset,
                )
            )
        else:
            words.append(
                Instruction(
                    Op.LD,
                    type_,
                    (own,),
                    (stack.pointer,),
                    space=Space.LOCAL,
                    displacement=offset,
                )
            )
            if isinstance(place, Predicate):
                words.append(
                    Instruction(
                        Op.SETP,
                        DataType.U32,
                        (place, None),
                        (scratch, Literal(0)),
                        compare=Compare.NE,
                    )
                )
        offset += bits // 8
    size = -(-offset // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    if not size:
        return []
    if not saves:
        back = (stack.pointer, Literal(size))
        return [Instruction(Op.SUB, DataType.U32, (stack.pointer,), back), *words]
    grown = stack.grow(Literal(size))
    return [*grown[:-1], *words, grown[-1]]  # the test comes first, the update of the pointer last


class _Block:
    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end
        self.successors: list[int] = []
        self.live_in = 0


class _Liveness:
    """The live registers after each mark: sets are integers, registers first, then predicates."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._registers = len(builder.register_bits)
        owners = [*builder.register_owners, *builder.predicate_owners]
        self._owned: dict[int, int] = {}
        for index, owner in enumerate(owners):
            self._owned[owner] = self._owned.get(owner, 0) | 1 << index
        self._behind: dict[int, int] = {mark.call: 0 for mark in builder.marks.values()}
        self._blocks = self._split()
        if len(self._blocks) * len(owners) > MAX_SET_BITS:
            raise Unsupported("recursion in a kernel with this much code")

    def live_after_calls(self) -> dict[int, list[Place]]:
        """Return the registers that are live after each call."""
        changed = True
        while changed:
            self._solve()
            changed = False
            for block in self._blocks:
                mark = self._builder.marks.get(block.start)
                if mark is None or mark.saves:
                    continue
                behind = self._owned.get(mark.owner, 0) & self._live_out(block)
                changed |= behind != self._behind[mark.call]
                self._behind[mark.call] = behind
        return {call: self._places(bits) for call, bits in self._behind.items()}

    def _split(self) -> list[_Block]:
        """Split the code into blocks; a mark is a separate block."""
        code, marks = self._builder.code, self._builder.marks
        targets = self._builder.targets()
        starts = {0, *targets.values(), *marks, *(word + 1 for word in marks)}
        starts |= {w + 1 for w, i in enumerate(code) if EFFECTS[i.op].leaves}
        ordered = sorted(word for word in starts if word < len(code))
        number = {word: index for index, word in enumerate(ordered)}
        ends = [*ordered[1:], len(code)]
        blocks = [_Block(start, end) for start, end in zip(ordered, ends, strict=True)]
        for block in blocks:
            last = code[block.end - 1]
            if (not EFFECTS[last.op].leaves or last.guard is not None) and block.end < len(code):
                block.successors.append(number[block.end])
            if block.end - 1 in targets:
                block.successors.append(number[targets[block.end - 1]])
        return blocks

    def _solve(self) -> None:
        predecessors: list[list[int]] = [[] for _ in self._blocks]
        for index, block in enumerate(self._blocks):
            for successor in block.successors:
                predecessors[successor].append(index)
        waiting = list(range(len(self._blocks)))
        queued = set(waiting)
        while waiting:
            index = waiting.pop()
            queued.discard(index)
            block = self._blocks[index]
            live = self._live_in(block)
            if live != block.live_in:
                block.live_in = live
                fresh = [
                    predecessor for predecessor in predecessors[index] if predecessor not in queued
                ]
                waiting += fresh
                queued.update(fresh)

    def _live_out(self, block: _Block) -> int:
        live = 0
        for successor in block.successors:
            live |= self._blocks[successor].live_in
        return live

    def _live_in(self, block: _Block) -> int:
        live = self._live_out(block)
        mark = self._builder.marks.get(block.start)
        if mark is not None:
            return self._through(mark, live)
        for instruction in reversed(self._builder.code[block.start : block.end]):
            # a guarded write leaves the registers of other lanes unchanged
            if instruction.guard is None:
                live &= ~self._bits(instruction.dsts)
            live |= self._bits(instruction.srcs)
            if instruction.guard is not None:
                live |= self._bits((instruction.guard.predicate,))
        return live

    def _through(self, mark: Mark, live: int) -> int:
        if mark.saves:
            return live | self._behind[mark.call]
        return live & ~self._owned.get(mark.owner, 0)

    def _bits(self, operands: Iterable[object]) -> int:
        bits = 0
        for operand in operands:
            if isinstance(operand, Register):
                bits |= 1 << operand.index
            elif isinstance(operand, Predicate):
                bits |= 1 << self._registers + operand.index
        return bits

    def _places(self, bits: int) -> list[Place]:
        """Return the members of a set, the widest first."""
        indices = [index for index in range(bits.bit_length()) if bits >> index & 1]
        places: list[Place] = [
            Register(index) if index < self._registers else Predicate(index - self._registers)
            for index in indices
        ]
        widths = self._builder.register_bits
        return sorted(places, key=lambda p: -widths[p.index] if isinstance(p, Register) else -32)
