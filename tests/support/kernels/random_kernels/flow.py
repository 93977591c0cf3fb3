"""Random control flow that always ends: structured, shared joins, switches, and arbitrary gotos.

Loops count on private registers; a graph with arbitrary edges consumes fuel at every block.
"""

from support.kernels.random_kernels import accesses, arithmetic, halves
from support.kernels.random_kernels.program import Program

_MAX_DEPTH = 3
_COMPUTING = (
    *arithmetic.STATEMENTS,
    *halves.STATEMENTS,
    *(accesses.load,) * 4,
    *(accesses.store,) * 2,
    *(accesses.reload,) * 2,
    accesses.parameter,
)
_BRANCHING = (*(arithmetic.step,) * 8, *arithmetic.STATEMENTS, accesses.load, accesses.store)
END = "EXIT"


class Flow:
    """Writes statements until the budget is spent. ``end`` is a label after them."""

    def __init__(self, program: Program, budget: int, end: str = END) -> None:
        self._program = program
        self._dice = program.dice
        self._left = budget
        self._end = end
        self._exits = [end]
        # Half of the kernels are mostly branches, and their results reveal the paths of threads.
        branching = self._dice.one_in(2)
        self._simple = _BRANCHING if branching else _COMPUTING
        self._shapes, self._leaves = (45, 60) if branching else (20, 26)
        if branching and self._dice.one_in(4):  # values that change on many paths, in many loops
            self._left *= 2

    def body(self) -> None:
        """Write a whole kernel's random part."""
        while self._left > 0:
            self._statements(0, self._left)

    def _statements(self, depth: int, count: int) -> None:
        for _ in range(count):
            if self._left <= 0:
                return
            self._statement(depth)

    def _statement(self, depth: int) -> None:
        dice = self._dice
        kind = dice.number(0, 99)
        if depth < _MAX_DEPTH and kind < self._shapes:
            shapes = (*(self._if,) * 3, *(self._loop,) * 3, self._switch, self._web)
            dice.pick((*shapes, self._tangle) if depth < 2 else shapes)(depth)
        elif kind < self._leaves:
            self._leave()
        elif kind < self._leaves + 1:
            self._program.add(f"{self._program.condition()}{dice.pick(('ret', 'exit'))};")
            self._left -= 1
        else:
            dice.pick(self._simple)(self._program)
            self._left -= 1

    def _leave(self) -> None:
        """Jump to a join that other paths reach too."""
        inner = self._exits[-1 if self._dice.one_in(2) else -2 :]
        target = self._dice.pick((*inner, self._dice.pick(self._exits)))
        if target == self._end and not self._dice.one_in(3):
            return
        self._program.add(f"{self._program.condition()}bra {target};")
        self._left -= 1

    def _if(self, depth: int) -> None:
        program, dice = self._program, self._dice
        otherwise, end = program.label(), program.label()
        program.add(f"{program.condition()}bra {otherwise};")
        self._left -= 1
        self._exits.append(end)
        self._statements(depth + 1, dice.number(1, 3))
        if dice.one_in(3):  # without this, falls through to the other side
            program.place(otherwise)
        else:
            program.add(f"bra {end};")
            program.place(otherwise)
            self._statements(depth + 1, dice.number(0, 3))
        self._exits.pop()
        program.place(end)

    def _loop(self, depth: int) -> None:
        program, dice = self._program, self._dice
        start, again, end = program.label(), program.label(), program.label()
        counter, more = program.temporary(32), program.temporary(1)
        if dice.one_in(2):
            program.add(f"and.b32 {counter}, {program.source(32)}, {dice.pick((1, 3, 3))};")
        else:
            program.add(f"mov.u32 {counter}, {dice.number(1, 4 - depth)};")
        at_top = dice.one_in(2)
        program.place(start)
        if at_top:
            program.add(f"setp.eq.u32 {more}, {counter}, 0;")
            program.add(f"@{more} bra {end};")
        self._left -= 2
        self._exits += [again, end]
        self._statements(depth + 1, dice.number(1, 4))
        del self._exits[-2:]
        program.place(again)
        program.add(f"sub.u32 {counter}, {counter}, 1;")
        if at_top:
            program.add(f"bra {start};")
        else:
            program.add(f"setp.gt.s32 {more}, {counter}, 0;")
            if dice.one_in(3):  # a second latch, taken by other lanes than the first
                both = program.temporary(1)
                program.add(f"and.pred {both}, {more}, {program.predicate()};")
                program.add(f"@{both} bra {start};")
                self._statements(_MAX_DEPTH, 1)
            program.add(f"@{more} bra {start};")
        program.place(end)

    def _switch(self, depth: int) -> None:
        """Emit cases selected by a value; some fall through to the next."""
        program, dice = self._program, self._dice
        count, value = dice.number(2, 5), program.temporary(32)
        cases, end = [program.label() for _ in range(count)], program.label()
        origin = dice.pick((program.source(32), "%n", "%tid.x", "%ctaid.x"))
        program.add(f"and.b32 {value}, {origin}, 7;")
        for number, case in enumerate(cases):
            chosen = program.temporary(1)
            how = dice.pick(("eq", "eq", "le"))
            program.add(f"setp.{how}.u32 {chosen}, {value}, {number};")
            program.add(f"@{chosen} bra {case};")
        program.add(f"bra {dice.pick((end, end, dice.pick(cases)))};")
        self._left -= 2 + count
        self._exits.append(end)
        for case in cases:
            program.place(case)
            self._statements(depth + 1, dice.number(0, 2))
            if not dice.one_in(3):
                program.add(f"bra {end};")
        self._exits.pop()
        program.place(end)

    def _web(self, depth: int) -> None:
        """Emit blocks with forward edges to any later block: joins of every kind."""
        program, dice = self._program, self._dice
        labels = [program.label() for _ in range(dice.number(3, 7))]
        for place, label in enumerate(labels):
            program.place(label)
            self._statements(depth + 1 if dice.one_in(3) else _MAX_DEPTH, dice.number(0, 2))
            later = labels[place + 1 :]
            if not later:
                break
            for _ in range(dice.number(0, 2)):
                program.add(f"{program.condition()}bra {dice.pick(later)};")
                self._left -= 1
            if dice.one_in(2):
                program.add(f"bra {dice.pick(later)};")

    def _tangle(self, depth: int) -> None:
        """Emit blocks with edges to any block, also backward and into loops, while fuel remains."""
        program, dice = self._program, self._dice
        fuel, empty, end = program.temporary(32), program.temporary(1), program.label()
        labels = [program.label() for _ in range(dice.number(3, 6))]
        reducible = not dice.one_in(3)
        program.add(f"mov.u32 {fuel}, {dice.number(4, 16)};")
        if dice.one_in(3):
            program.add(f"{program.condition()}add.u32 {fuel}, {fuel}, 3;")
        if not reducible and dice.one_in(2):
            program.add(f"{program.condition()}bra {dice.pick(labels)};")
        for place, label in enumerate(labels):
            program.place(label)
            program.add(f"sub.u32 {fuel}, {fuel}, 1;")
            program.add(f"setp.eq.u32 {empty}, {fuel}, 0;")
            program.add(f"@{empty} bra {end};")
            self._statements(_MAX_DEPTH, dice.number(0, 2))
            # If the only backward edges are to the first block, every loop has one entry.
            targets = [labels[0], *labels[place + 1 :], end] if reducible else [*labels, end]
            for _ in range(dice.number(1, 2)):
                program.add(f"{program.condition()}bra {dice.pick(targets)};")
                self._left -= 1
            if dice.one_in(2):
                program.add(f"bra {dice.pick(targets)};")
        program.place(end)
