"""Builds one function's code: instructions, their lines, registers and labels."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from vgpu_sim.compiler.lower.symbols.findings import Invalid, Unsupported
from vgpu_sim.compiler.lower.symbols.scopes import LabelTarget, RegisterClass, Scope
from vgpu_sim.isa import EFFECTS, Guard, Instruction, Literal, Op, Predicate, Register, Symbol
from vgpu_sim.records import dataclass

MAX_REGISTERS = 32767
MAX_WORDS = 1 << 20
MAX_POOL_ENTRIES = 32767

Fields = dict[str, Any]

KERNEL, NO_OWNER = 0, -1
"""Owners of registers: the kernel itself, and code to which calls do not return."""


@dataclass(slots=True)
class _Fixup:
    """A branch whose label was not placed yet when it was emitted."""

    word: int
    label: LabelTarget


@dataclass(frozen=True, slots=True)
class Mark:
    """A placeholder in the code, which is replaced when the complete code is known.

    A call that may lead back to its own function has two marks with the same number ``call``.
    The mark before the call (``saves`` is true) is replaced by code that saves the function's
    registers on the stack. The mark after the call is replaced by code that restores them.
    """

    owner: int
    call: int
    saves: bool


class Builder:
    """Appends instructions to a function. ``guard`` and ``line`` are those of the next
    instructions, until they are changed.

    ``owner`` identifies the code that owns new registers: the kernel, or one called function. Each
    activation of a called function has its own values in the function's registers.
    """

    def __init__(self) -> None:
        self.code: list[Instruction] = []
        self.lines: list[int] = []
        self.register_bits: list[int] = []
        self.register_owners: list[int] = []
        self.predicate_owners: list[int] = []
        self.owner = KERNEL
        self.marks: dict[int, Mark] = {}
        self.guard: Guard | None = None
        self.line = 0
        self._fixups: list[_Fixup] = []
        self._names = 0
        self._pools: dict[int, list[Register]] = {}
        self._taken: dict[int, int] = {}
        self._predicates: list[Predicate] = []
        self._predicates_taken = 0
        self._inverse: Predicate | None = None
        self._unused: Predicate | None = None

    @property
    def predicate_count(self) -> int:
        return len(self.predicate_owners)

    @contextmanager
    def use_owner(self, owner: int) -> Iterator[None]:
        """Within the ``with`` block, ``owner`` owns the registers that are created."""
        outer_owner, self.owner = self.owner, owner
        try:
            yield
        finally:
            self.owner = outer_owner

    @contextmanager
    def use_guard(self, guard: Guard | None) -> Iterator[None]:
        """Within the ``with`` block, emit instructions under ``guard`` instead of the current
        guard.
        """
        outer_guard, self.guard = self.guard, guard
        try:
            yield
        finally:
            self.guard = outer_guard

    def append(self, words: list[Instruction]) -> None:
        """Append instructions as they are, without the current guard."""
        for word in words:
            self.code.append(word)
            self.lines.append(self.line)

    def mark(self, mark: Mark) -> None:
        """Append ``mark``, a placeholder for instructions."""
        self.marks[len(self.code)] = mark
        self.emit(Op.NOP)

    def begin(self, line: int) -> None:
        """Begin a statement, which may reuse the scratch registers of the previous statement.

        A statement of a driver function has no line in the file (``line`` is 0). It gets the
        line of the call.
        """
        self.line = line or self.line
        self._taken.clear()
        self._predicates_taken = 0

    def new_name(self, stem: str) -> str:
        """Return a unique symbol name that PTX cannot contain."""
        self._names += 1
        return f"{stem} {self._names}"

    def emit(self, op: Op, **fields: Any) -> None:
        """Append an instruction under the current guard.

        Raises:
            Unsupported: when the function has too many instructions.
        """
        if len(self.code) >= MAX_WORDS:
            raise Unsupported(f"a function of more than {MAX_WORDS} instructions")
        self.code.append(Instruction(op=op, guard=self.guard, **fields))
        self.lines.append(self.line)

    def emit_branch(self, label: LabelTarget, uniform: bool) -> None:
        """Append a branch to a label, which may or may not have been placed."""
        self._fixups.append(_Fixup(len(self.code), label))
        self.emit(Op.BRA, uniform=uniform)

    def place(self, label: LabelTarget) -> None:
        """Place ``label`` at the next instruction."""
        label.word = len(self.code)

    def new_register(self, bits: int) -> Register:
        """Return a register that is not used yet.

        Raises:
            Unsupported: when all indices are taken.
        """
        if len(self.register_bits) >= MAX_REGISTERS:
            raise Unsupported(f"a function that uses more than {MAX_REGISTERS} registers")
        self.register_bits.append(bits)
        self.register_owners.append(self.owner)
        return Register(len(self.register_bits) - 1)

    def new_predicate(self) -> Predicate:
        """Return a predicate that is not used yet.

        Raises:
            Unsupported: when all indices are taken.
        """
        if self.predicate_count >= MAX_REGISTERS:
            raise Unsupported(f"a function that uses more than {MAX_REGISTERS} predicates")
        self.predicate_owners.append(self.owner)
        return Predicate(self.predicate_count - 1)

    def register_for(
        self, scope: Scope, name: str, register_class: RegisterClass
    ) -> Register | Predicate:
        """Return the register for a declared name. At the first use of the name, assign it a new
        register.
        """
        register = scope.assigned.get(name)
        if register is None:
            register = (
                self.new_predicate()
                if register_class.bits == 1
                else self.new_register(register_class.bits)
            )
            scope.assigned[name] = register
        return register

    def scratch_register(self, bits: int) -> Register:
        """Return a scratch register, which is valid only during the current statement."""
        pool = self._pools.setdefault(bits, [])
        index = self._taken.get(bits, 0)
        self._taken[bits] = index + 1
        if index == len(pool):
            pool.append(self.new_register(bits))
        return pool[index]

    def scratch_predicate(self) -> Predicate:
        """Return a scratch predicate, which is valid only during the current statement."""
        if self._predicates_taken == len(self._predicates):
            self._predicates.append(self.new_predicate())
        self._predicates_taken += 1
        return self._predicates[self._predicates_taken - 1]

    def inverse_predicate(self) -> Predicate:
        """Return the predicate that holds the inverse of an operand ``!p``.

        All statements use the same predicate, so its value is valid only during one statement.
        """
        if self._inverse is None:
            self._inverse = self.new_predicate()
        return self._inverse

    def unused_predicate(self) -> Predicate:
        """Return the predicate that receives discarded results; it is never read."""
        if self._unused is None:
            self._unused = self.new_predicate()
        return self._unused

    def rewrite(self, expand: Callable[[int, Instruction], list[Instruction]]) -> None:
        """Replace each instruction by the result of ``expand``, which is called with the
        instruction's index and the instruction.

        Labels are moved accordingly.

        Raises:
            Unsupported: when the function then has too many instructions.
        """
        code: list[Instruction] = []
        lines: list[int] = []
        moved: list[int] = []  # new index of the first replacement of each instruction
        for word, (instruction, line) in enumerate(zip(self.code, self.lines, strict=True)):
            moved.append(len(code))
            code += expand(word, instruction)
            lines += [line] * (len(code) - len(lines))
        if len(code) > MAX_WORDS:
            raise Unsupported(f"a function of more than {MAX_WORDS} instructions")
        moved.append(len(code))
        self.marks = {moved[word]: mark for word, mark in self.marks.items()}
        for fixup in self._fixups:
            fixup.word = moved[fixup.word + 1] - 1  # a branch remains the last of its replacements
        for label in {id(label): label for label in self._labels()}.values():
            if label.word is not None:
                label.word = moved[label.word]
        self.code, self.lines = code, lines

    def end(self) -> None:
        """End the function with RET if execution can reach its end.

        Running past the last statement ends the thread, as ``ret`` does. RET is added only if a
        branch leads to the end, or if execution continues there after the last instruction.
        """
        self.guard = None
        end = len(self.code)
        reached = any(fixup.label.word == end for fixup in self._fixups)
        last = self.code[-1] if self.code else None
        falls = last is None or last.guard is not None or not EFFECTS[last.op].leaves
        if reached or falls:
            self.emit(Op.RET)

    def finish(self) -> None:
        """Resolve branches: nothing is added or rewritten after that.

        Raises:
            Invalid: when a label was never placed.
            Unsupported: when there are too many distinct constants and vectors.
        """
        for word, target in self.targets().items():
            self.code[word] = replace(self.code[word], target=target)
        self._check_pool()

    def targets(self) -> dict[int, int]:
        """Return the target index of each branch, by the branch's index.

        Raises:
            Invalid: when a label was never placed.
        """
        return {fixup.word: self._place_of(fixup.label) for fixup in self._fixups}

    def drop_jumps(self) -> None:
        """Remove branches to the next instruction."""
        idle = {word for word, target in self.targets().items() if target == word + 1}
        if idle:
            self._fixups = [fixup for fixup in self._fixups if fixup.word not in idle]
            self.rewrite(lambda word, instruction: [] if word in idle else [instruction])

    @staticmethod
    def _place_of(label: LabelTarget) -> int:
        if label.word is None:
            raise Invalid(f"label {label.name!r} is not defined")
        return label.word

    def _labels(self) -> list[LabelTarget]:
        return [fixup.label for fixup in self._fixups]

    def _check_pool(self) -> None:
        """Check that literals and vectors fit the binary's pool, whose indices have 15 bits."""
        entries: set[object] = set()
        for instruction in self.code:
            entries.update(s for s in instruction.srcs if isinstance(s, Literal | Symbol))
            if instruction.vector > 1:
                vectors = (instruction.dsts, instruction.srcs[1:])
                entries.update((v, half) for v in vectors for half in range(0, len(v), 4))
            elif instruction.op is Op.SHFL:
                entries.add(instruction.srcs[1:3])
        if len(entries) > MAX_POOL_ENTRIES:
            raise Unsupported(f"a function of more than {MAX_POOL_ENTRIES} constants and vectors")
