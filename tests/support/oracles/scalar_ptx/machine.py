"""An evaluator that runs one PTX thread after another, one instruction at a time: simple, not fast.

Each thread of a block runs from the first statement to its end, or to a barrier, before the next
one starts; when all have arrived at a barrier or ended, all resume. The results are those of the
kernel only if its threads communicate across barriers alone. That is checked: a thread that
accesses another's part of memory, or a byte of the block's shared memory that another has stored
since the last barrier (or stores one that another has read), raises ``Race``.
"""

from support.oracles.scalar_ptx import calls, carries, halves, integers, numbers, updates, video
from support.oracles.scalar_ptx.accesses import Accesses
from support.oracles.scalar_ptx.gathering import OPCODES, Arrival, complete
from support.oracles.scalar_ptx.memory import Fault, Race, Region, Shared
from support.oracles.scalar_ptx.operands import STOP, Step
from support.oracles.scalar_ptx.steps import Steps
from support.oracles.scalar_ptx.text import (
    WIDTHS,
    Kernel,
    Number,
    Operand,
    Several,
    Statement,
    SyntaxFault,
)
from support.oracles.scalar_ptx.threads import SPECIALS, Shape, indices, special_values


class Endless(Exception):
    """A thread exceeded its number of steps."""


class Machine(Steps, Accesses):
    """A kernel prepared to run on some memory.

    ``symbols`` are the addresses of the module's variables. ``aligned``: a misaligned access is a
    fault.
    """

    def __init__(
        self,
        kernel: Kernel,
        regions: list[Region],
        parameters: bytes,
        symbols: dict[str, int] | None = None,
        *,
        aligned: bool = True,
        max_steps: int = 100_000,
    ) -> None:
        super().__init__(kernel, symbols or {}, regions, parameters, aligned=aligned)
        self._max_steps = max_steps
        self._machines: dict[str, Machine] = {}
        self._code = [self._guarded(statement) for statement in kernel.statements]

    def run(self, grid: Shape, block: Shape) -> None:
        """Run all threads, x fastest, block by block.

        Raises:
            Fault, Race, Endless: see there.
        """
        self._thread = 0
        faults: list[Fault] = []
        for ctaid in indices(grid):
            self._run_block(ctaid, grid, block, faults)
        if faults:
            raise Fault(frozenset().union(*(f.codes for f in faults)), str(faults[0]))

    def _run_block(self, ctaid: Shape, grid: Shape, block: Shape, faults: list[Fault]) -> None:
        """Run all threads up to a barrier, then all that arrived at it up to the next.

        Lanes in collectives resume as soon as all threads that they name have arrived, before
        any barrier.
        """
        first, self._shared = self._thread, Shared(self._kernel.shared_bytes)
        ready = []
        for thread, values in enumerate(special_values(ctaid, grid, block), first):
            registers = list(self._initial)
            for name, value in zip(SPECIALS, values, strict=True):
                registers[self._index[name]] = value
            ready.append((thread, registers, 0))
        living = {thread - first for thread, *_ in ready}
        states: dict[int, tuple[int, list[int], int]] = {}
        gathered: dict[int, Arrival] = {}
        at_barrier = []
        self._shared.begin()
        while ready:
            for state in ready:
                self._thread = state[0]
                self._own.setdefault(self._thread, bytearray(self._kernel.local_bytes))
                self._arrival = None
                try:
                    stopped = self._run(state[1], state[2])
                except Fault as fault:
                    faults.append(fault)
                    stopped = None
                if stopped is None:
                    living.discard(state[0] - first)
                elif self._arrival is not None:
                    states[state[0] - first] = (state[0], state[1], stopped)
                    gathered[state[0] - first] = self._arrival
                else:
                    at_barrier.append((state[0], state[1], stopped))
            if faults and (at_barrier or gathered):
                break  # threads that faulted never arrive
            free = complete(gathered, living)
            ready = [states.pop(thread) for thread in free]
            gathered = {thread: at for thread, at in gathered.items() if thread not in free}
            if not ready and gathered:
                raise Race  # a deadlock
            if not ready:
                if len({place for *_, place in at_barrier}) > 1:
                    raise Race  # at different barriers with one number: legal, but not supported here
                ready, at_barrier = at_barrier, []
                self._shared.begin()
        self._thread = first + block[0] * block[1] * block[2]

    def _run(self, registers: list[int], place: int) -> int | None:
        """Run a thread to its end, or to a barrier; return where it resumes after that, else
        None.
        """
        code, end = self._code, len(self._code)
        for _ in range(self._max_steps):
            if place >= end:
                return None
            predicate, wanted, step = code[place]
            place += 1
            if predicate is None or registers[predicate] == wanted:
                target = step(registers)
                if target == STOP:
                    return place
                if target is not None:
                    place = target
        raise Endless

    # --- calls ---

    @property
    def kernel(self) -> Kernel:
        return self._kernel

    def source(self, operand: Operand, bits: int) -> int:
        """Return the index of an operand among the registers."""
        return self._source(operand, bits)

    def place(self, name: str) -> int:
        """Return the index of a register."""
        return self._index[name]

    def function(self, name: str) -> "Machine":
        """Return the machine of a function."""
        if name not in self._machines:
            function = self._kernel.functions[name]
            made = Machine(function, self._regions, b"", self._symbols, aligned=self._aligned)
            self._machines[name] = made
            made._machines = self._machines
        return self._machines[name]

    def activate(self, caller: "Machine", arguments: list[int], around: list[int]) -> list[int]:
        """Run the function for the caller's thread; return its results."""
        registers = list(self._initial)
        for name, value in zip(SPECIALS, calls.special_registers(caller, around), strict=True):
            registers[self._index[name]] = value
        for name, value in zip(self._kernel.takes, arguments, strict=True):
            registers[self._index[name]] = value
        self._thread, before = caller._thread, self._own.get(caller._thread)
        self._own[self._thread] = bytearray(self._kernel.local_bytes)
        self._run(registers, 0)
        if before is not None:
            self._own[self._thread] = before
        return [registers[self._index[name]] for name in self._kernel.returns]

    # --- preparation of statements ---

    def _guarded(self, statement: Statement) -> tuple[int | None, int, Step]:
        step = self._step(statement)
        if statement.guard is None:
            return None, 1, step
        name, negated = statement.guard
        return self._predicate(name), int(not negated), step

    def _step(self, statement: Statement) -> Step:
        opcode, *modifiers = statement.words
        if opcode in ("ret", "exit"):
            return lambda _: len(self._code)
        if opcode == "trap":
            return _trap
        if opcode in ("bar", "barrier"):
            if modifiers not in (["sync"], ["sync", "aligned"]) or statement.guard is not None:
                raise SyntaxFault(f"{statement}")
            if statement.operands != (Number(0),):
                raise SyntaxFault(f"operands of {statement}")
            return lambda _: STOP
        if opcode == "bra":
            (label,) = statement.operands
            if label not in self._kernel.labels:
                raise SyntaxFault(f"no label {label!r}")
            target = self._kernel.labels[str(label)]
            return lambda _: target
        if opcode == "call":
            return calls.step(self, statement)
        if opcode in ("ld", "st"):
            return self._access(statement)
        if opcode in ("atom", "red"):
            return updates.step(self, statement)
        if opcode in OPCODES:
            return self._collective(statement)
        if opcode == "setp":
            return self._setp(modifiers, statement.operands)
        if opcode == "selp":
            bits = WIDTHS[modifiers[-1]]
            to, a, b, chooser = statement.operands
            d, x, y = self._target(to, bits), self._source(a, bits), self._source(b, bits)
            p = self._predicate(chooser)
            return lambda r: r.__setitem__(d, r[x] if r[p] else r[y])
        if opcode == "cvta":
            return self._plain(numbers.function(("mov", "b64")), statement.operands)
        if opcode == "mov" and any(isinstance(o, Several) for o in statement.operands):
            return self._pieces(WIDTHS[modifiers[-1]], *statement.operands)
        carried = carries.function(statement.words)
        if carried is not None:
            return self._carried(*carried, statement.operands)
        if opcode == "lop3" and len(modifiers) == 2:
            return self._lop3(modifiers[0], statement.operands)
        if opcode in video.OPCODES:
            return self._video(video.read(statement.words, statement.operands))
        small = halves.function(statement.words)
        if small is not None:
            return self._plain(small, statement.operands)
        what = video.packed_operation(statement.words) or integers.function(statement.words)
        what = what or numbers.function(statement.words)
        return self._plain(what, statement.operands, wider=opcode == "cvt")


def _trap(_: list[int]) -> int | None:
    raise Fault(frozenset({719}), "trap")
