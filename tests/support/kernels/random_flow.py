"""Kernels whose control flow is an arbitrary graph: forward joins, gotos into loops, shared
latches.

A block does a little arithmetic and ends in a jump, a uniform branch, a divergent branch, or the
exit of some threads. Backward branches consume fuel, so that every kernel ends. Lanes store only
to their own locations.
"""

import random

from support.kernels.kernel_builder import KernelBuilder
from vgpu_sim.isa import (
    Compare,
    DataType,
    Guard,
    Instruction,
    Literal,
    Module,
    MulMode,
    Op,
    Predicate,
    SpecialRegister,
)

D = DataType
_MAX_THREADS = 64
_ROW_BYTES = 4 * _MAX_THREADS
_TREES, _NUMBERS = 6, 5
# a row of all threads for each number, and one for the fuel
OUT_BYTES = _TREES * (_NUMBERS + 1) * _ROW_BYTES
_FUEL = 9


class _Writer:
    def __init__(self, chance: random.Random, *, backwards: bool) -> None:
        self._chance = chance
        self._backwards = backwards
        self.builder = b = KernelBuilder(8, 4)
        self._uniform = b.parameter(1)
        self._thread = b.linear_thread()
        self._out = b.address(b.parameter(0), self._thread, 4)
        self._lane = b.special(SpecialRegister.TID_X)
        self._block = b.special(SpecialRegister.CTAID_X)
        self._numbers = [b.register(32) for _ in range(_NUMBERS)]
        self._fuel = b.register(32)
        self._constant = 1
        self._scratch = b.register(32)
        self._flags = [b.predicate() for _ in range(3)]
        b.op(Op.MOV, D.B32, self._fuel, Literal(_FUEL))
        for number in self._numbers:
            b.op(Op.MOV, D.B32, number, chance.choice([self._thread, self._lane, self._uniform]))

    def write(self, blocks: int) -> Module:
        """Write ``blocks`` blocks and their terminators."""
        b = self.builder
        for place in range(blocks):
            b.place(f"B{place}")
            for _ in range(self._chance.randrange(3)):
                self._compute()
            self._end(place, blocks)
        return self._finish()

    def _finish(self) -> Module:
        self.builder.place("OUT")
        self._store(0)
        return self.builder.module()

    def _store(self, first_row: int) -> None:
        for row, number in enumerate([*self._numbers, self._fuel], first_row):
            self.builder.store(D.B32, self._out, number, row * _ROW_BYTES)

    def write_trees(self) -> Module:
        """Emit trees of branches, each with its own rows; an arm may leave to the exit of any outer
        tree.
        """
        for tree in range(_TREES):
            self._tree(0, [])
            self._store(tree * (_NUMBERS + 1))
        return self.builder.module()

    def _tree(self, depth: int, ends: list[str]) -> None:
        b, chance = self.builder, self._chance
        for _ in range(chance.randrange(1, 4)):
            kind = chance.randrange(6)
            if kind < 2:
                self._compute()
            elif kind < 4 and ends:
                b.branch(chance.choice(ends), self._guard())
            elif depth < 3:
                otherwise, end = b.label(), b.label()
                b.branch(otherwise, self._guard())
                self._tree(depth + 1, [*ends, end])
                b.branch(end)
                b.place(otherwise)
                self._tree(depth + 1, [*ends, end])
                b.place(end)

    def _guard(self) -> Guard:
        return Guard(self._condition(), self._chance.random() < 0.5)

    def _compute(self) -> None:
        """Change a number so that the effect of every block is distinguishable."""
        b, chance = self.builder, self._chance
        target, source = chance.choice(self._numbers), chance.choice(self._numbers)
        flag = Guard(chance.choice(self._flags), chance.random() < 0.5)
        guard = flag if chance.random() < 0.2 else None
        self._constant = self._constant * 5 + 3 & 0xFFFF
        constant = Literal(self._constant)
        op = chance.choice([Op.ADD, Op.MUL, Op.MOV, Op.MOV])
        if op is Op.MOV:
            b.op(Op.MOV, D.B32, target, chance.choice([constant, self._lane]), guard=guard)
        elif op is Op.MUL:
            b.op(Op.MUL, D.U32, target, source, constant, mode=MulMode.LO, guard=guard)
        else:
            b.op(Op.ADD, D.U32, target, target, constant, guard=guard)

    def _condition(self) -> Predicate:
        """Return a predicate that is uniform, differs between lanes, or may be either."""
        b, chance = self.builder, self._chance
        shared = chance.choice([self._uniform, self._uniform, self._block])
        numbers = [shared, shared, self._lane, self._lane, chance.choice(self._numbers)]
        bit = Literal(1 << chance.randrange(4))
        flag = chance.choice(self._flags)
        b.op(Op.AND, D.B32, self._scratch, chance.choice(numbers), bit)
        zero = (self._scratch, Literal(0))
        b.add(Instruction(Op.SETP, D.U32, (flag, None), zero, compare=Compare.NE))
        return flag

    def _target(self, place: int, blocks: int) -> str:
        if self._backwards and self._chance.random() < 0.35:
            return f"B{self._chance.randrange(blocks)}"
        later = min(place + self._chance.randrange(2, 6), blocks)
        return "OUT" if later == blocks else f"B{later}"

    def _pay(self, place: int, target: str) -> None:
        """Emit a backward branch, which consumes fuel; a lane without fuel leaves instead."""
        if target == "OUT" or int(target[1:]) > place:
            return
        b, empty = self.builder, self.builder.predicate()
        b.op(Op.SUB, D.U32, self._fuel, self._fuel, Literal(1))
        left = (self._fuel, Literal(0))
        b.add(Instruction(Op.SETP, D.S32, (empty, None), left, compare=Compare.LT))
        b.branch("OUT", Guard(empty))

    def _end(self, place: int, blocks: int) -> None:
        b, chance = self.builder, self._chance
        kind = chance.randrange(20)
        if kind == 0:
            b.add(Instruction(Op.RET, guard=self._guard()))
        if kind < 4:  # falls through to the next block
            return
        target = self._target(place, blocks)
        if kind < 5:
            self._pay(place, target)
            b.branch(target)
            return
        flag = self._guard()
        if kind < 8:  # neither successor is the next block
            other = self._target(place, blocks)
            self._pay(place, other)
            self._pay(place, target)
            b.branch(target, flag)
            b.branch(other)
            return
        self._pay(place, target)
        b.branch(target, flag)


def graph(seed: int, *, blocks: int, backwards: bool) -> Module:
    """Return the graph of ``seed``; parameters are the rows' address and a number for all lanes.

    Without ``backwards`` it has no cycle.
    """
    return _Writer(random.Random(seed), backwards=backwards).write(blocks)


def trees(seed: int) -> Module:
    """Return some trees of branches, one after another; parameters as for ``graph``."""
    return _Writer(random.Random(seed), backwards=False).write_trees()
