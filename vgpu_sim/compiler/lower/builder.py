"""Building one function's code: words, their lines, registers and labels."""

from dataclasses import dataclass, replace
from typing import Any

from vgpu_sim.compiler.lower.findings import Invalid, Unsupported
from vgpu_sim.compiler.lower.scopes import LabelTarget, RegisterClass, Scope
from vgpu_sim.isa import EFFECTS, Guard, Instruction, Literal, Op, Predicate, Register, Symbol

MAX_REGISTERS = 32767
MAX_WORDS = 1 << 20
MAX_POOL_ENTRIES = 32767

Fields = dict[str, Any]


@dataclass(slots=True)
class _Fixup:
    """A branch whose label was not placed yet when it was emitted."""

    word: int
    label: LabelTarget


class Builder:
    """Appends words. ``guard`` and ``line`` apply to what is emitted until they are changed."""

    def __init__(self) -> None:
        self.code: list[Instruction] = []
        self.lines: list[int] = []
        self.register_bits: list[int] = []
        self.predicate_count = 0
        self.guard: Guard | None = None
        self.line = 0
        self._fixups: list[_Fixup] = []
        self._pools: dict[int, list[Register]] = {}
        self._taken: dict[int, int] = {}
        self._inverse: Predicate | None = None
        self._unused: Predicate | None = None

    def begin(self, line: int) -> None:
        """Start a statement: scratch registers of the one before may be used again."""
        self.line = line
        self._taken.clear()

    def emit(self, op: Op, **fields: Any) -> None:
        """Append a word under the current guard.

        Raises:
            Unsupported: when the function has too many words.
        """
        if len(self.code) >= MAX_WORDS:
            raise Unsupported(f"a function of more than {MAX_WORDS} instructions")
        self.code.append(Instruction(op=op, guard=self.guard, **fields))
        self.lines.append(self.line)

    def emit_branch(self, label: LabelTarget, uniform: bool) -> None:
        """Append a branch to a label, placed or not."""
        self._fixups.append(_Fixup(len(self.code), label))
        self.emit(Op.BRA, uniform=uniform)

    def place(self, label: LabelTarget) -> None:
        """Let ``label`` mean the next word."""
        label.word = len(self.code)

    def new_register(self, bits: int) -> Register:
        """Return a register that nothing else uses.

        Raises:
            Unsupported: when all indices are taken.
        """
        if len(self.register_bits) >= MAX_REGISTERS:
            raise Unsupported(f"a function that uses more than {MAX_REGISTERS} registers")
        self.register_bits.append(bits)
        return Register(len(self.register_bits) - 1)

    def new_predicate(self) -> Predicate:
        """Return a predicate that nothing else uses.

        Raises:
            Unsupported: when all indices are taken.
        """
        if self.predicate_count >= MAX_REGISTERS:
            raise Unsupported(f"a function that uses more than {MAX_REGISTERS} predicates")
        self.predicate_count += 1
        return Predicate(self.predicate_count - 1)

    def assigned(self, scope: Scope, name: str, what: RegisterClass) -> Register | Predicate:
        """Return the register of a declared name, numbering it when it is first used."""
        found = scope.assigned.get(name)
        if found is None:
            found = self.new_predicate() if what.bits == 1 else self.new_register(what.bits)
            scope.assigned[name] = found
        return found

    def scratch(self, bits: int) -> Register:
        """Return a register for the current statement alone."""
        pool = self._pools.setdefault(bits, [])
        index = self._taken.get(bits, 0)
        self._taken[bits] = index + 1
        if index == len(pool):
            pool.append(self.new_register(bits))
        return pool[index]

    def inverse_predicate(self) -> Predicate:
        """Return the predicate that holds ``!p`` during one statement."""
        if self._inverse is None:
            self._inverse = self.new_predicate()
        return self._inverse

    def unused_predicate(self) -> Predicate:
        """Return the predicate for results that nobody wants; it is never read."""
        if self._unused is None:
            self._unused = self.new_predicate()
        return self._unused

    def finish(self) -> None:
        """End the function and resolve branches.

        Running past the last statement ends the thread, as ``ret`` does. That word is added only
        where something can reach it: a label at the end, or code that falls off it.

        Raises:
            Invalid: when a label was never placed.
            Unsupported: when there are too many distinct constants and vectors.
        """
        self.guard = None
        end = len(self.code)
        reached = any(fixup.label.word == end for fixup in self._fixups)
        last = self.code[-1] if self.code else None
        falls = last is None or last.guard is not None or not EFFECTS[last.op].leaves
        if reached or falls:
            self.emit(Op.RET)
        for fixup in self._fixups:
            if fixup.label.word is None:
                raise Invalid(f"label {fixup.label.name!r} is not defined")
            self.code[fixup.word] = replace(self.code[fixup.word], target=fixup.label.word)
        self._check_pool()

    def _check_pool(self) -> None:
        """Hold literals and vectors to what a binary's pool can name with 15 bits."""
        entries: set[object] = set()
        for instruction in self.code:
            entries.update(s for s in instruction.srcs if isinstance(s, Literal | Symbol))
            if instruction.vector > 1:
                entries.add(instruction.dsts or instruction.srcs[1:])
        if len(entries) > MAX_POOL_ENTRIES:
            raise Unsupported(f"a function of more than {MAX_POOL_ENTRIES} constants and vectors")
