"""What one warp waits for, along the words that it executed: a scoreboard without a clock.

Waits for results of known latency are cycles. Waits for memory are counted, with how far behind the
access they stand: the latency is the model's, which knows what the caches have.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto, unique
from typing import Final

from vgpu_sim.isa import (
    EFFECTS,
    DataType,
    Instruction,
    Literal,
    Op,
    Predicate,
    Register,
    Space,
    Symbol,
)
from vgpu_sim.perf.kernels.chip import Latencies
from vgpu_sim.perf.kernels.pipes import Pipe, work_of

_LATENCIES: Final = Latencies()
_DOUBLE: Final = 8  # cycles of an operation on binary64
_PRODUCT: Final = 33  # of a product of matrices (Luo et al., 2024)
CHAIN: Final = ("warp_issued", "fixed_cycles", "short_waits", "long_waits", "long_covered")
_MOST_COVERED: Final = 600.0  # no access takes more cycles, by itself


@unique
class _Kind(Enum):
    FIXED = auto()
    SHORT = auto()
    LONG = auto()


@dataclass(frozen=True, slots=True)
class _Row:
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    kind: _Kind
    cycles: int  # to the result, where it is fixed
    issues: int


def _row(instruction: Instruction) -> _Row:
    work = work_of(instruction)
    guard = () if instruction.guard is None else (instruction.guard.predicate,)
    kind, cycles = _Kind.FIXED, _LATENCIES.fixed
    if EFFECTS[instruction.op].reads and instruction.space is not Space.PARAM:
        kind = _Kind.SHORT if instruction.space is Space.SHARED else _Kind.LONG
    elif instruction.op in (Op.SHFL, Op.MATCH, Op.S2R) or Pipe.XU in work or Pipe.CVT in work:
        kind = _Kind.SHORT
    elif instruction.op is Op.MMA:
        cycles = _PRODUCT
    elif instruction.type is DataType.F64 and Pipe.FP64 in work:
        cycles = _DOUBLE
    return _Row(
        tuple(_places((*instruction.srcs, *guard))),
        tuple(_places(instruction.dsts)),
        kind,
        cycles,
        sum(work.values()),
    )


def _places(
    operands: Iterable[Register | Predicate | Literal | Symbol | None],
) -> Iterable[int]:
    """Number registers, and predicates below zero."""
    for operand in operands:
        if isinstance(operand, Register):
            yield operand.index
        elif isinstance(operand, Predicate):
            yield -1 - operand.index


class Scoreboard:
    """One warp's. The attributes are those of ``Counts`` that are a warp's."""

    def __init__(self, code: Sequence[Instruction]) -> None:
        self._code = code
        self._rows: dict[int, _Row] = {}  # of the words that it comes to: there may be many warps
        self._fixed: dict[int, float] = {}  # when results are there
        self._short: dict[int, float] = {}  # when they were asked for
        self._long: dict[int, float] = {}
        self._now = 0.0
        self.warp_issued = 0
        self.fixed_cycles = 0.0
        self.short_waits = 0.0
        self.long_waits = 0
        self.long_covered = 0.0

    def advance(self, word: int) -> tuple[float, ...]:
        """Take note that the warp has executed a word; return what each of ``CHAIN`` grew by."""
        before = self._state()
        self.step(word)
        return tuple(now - then for now, then in zip(self._state(), before, strict=True))

    def _state(self) -> tuple[float, ...]:
        return (
            self.warp_issued,
            self.fixed_cycles,
            self.short_waits,
            self.long_waits,
            self.long_covered,
        )

    def step(self, word: int) -> None:
        """Take note that the warp has executed a word."""
        row = self._rows.get(word)
        if row is None:
            row = self._rows[word] = _row(self._code[word])
        if self._long:
            self._wait_long(row.reads)
        if self._short:
            self._wait_short(row.reads)
        ready = max((self._fixed.get(place, 0.0) for place in row.reads), default=0.0)
        if ready > self._now:
            self.fixed_cycles += ready - self._now
            self._now = ready
        self._now += row.issues
        self.warp_issued += row.issues
        for place in row.writes:
            self._long.pop(place, None)
            self._short.pop(place, None)
            self._fixed.pop(place, None)
            if row.kind is _Kind.LONG:
                self._long[place] = self._now
            elif row.kind is _Kind.SHORT:
                self._short[place] = self._now
            elif row.issues:
                self._fixed[place] = self._now + row.cycles - 1

    def _wait_long(self, reads: tuple[int, ...]) -> None:
        """All accesses that were begun before the wait run side by side: one latency for all."""
        asked = [self._long[place] for place in reads if place in self._long]
        if asked:
            self.long_waits += 1
            self.long_covered += min(_MOST_COVERED, self._now - max(asked))
            self._now += _LATENCIES.l2
            self._long.clear()

    def _wait_short(self, reads: tuple[int, ...]) -> None:
        asked = [self._short[place] for place in reads if place in self._short]
        if asked:
            left = _LATENCIES.shared - (self._now - max(asked))
            if left > 0:
                self.short_waits += left / _LATENCIES.shared
                self._now += left
                self._short.clear()


def alone(instruction: Instruction) -> tuple[float, ...]:
    """Return what each of ``CHAIN`` grows by where the next instruction waits for this one."""
    row = _row(instruction)
    waits = row.issues > 0 and bool(row.writes)
    return (
        float(row.issues),
        float(row.cycles - 1) if waits and row.kind is _Kind.FIXED else 0.0,
        1.0 if waits and row.kind is _Kind.SHORT else 0.0,
        1.0 if waits and row.kind is _Kind.LONG else 0.0,
        0.0,
    )


def passes(
    code: Sequence[Instruction], words: Sequence[int], kept: Sequence[float]
) -> tuple[float, float]:
    """Return (cycles, issues) of one more pass of a warp over ``words``: what it takes at least.

    ``kept`` is ``unrolling.kept`` of the whole code. Loads come from the first level, and what the
    pass before has left to do counts.
    """
    board = Scoreboard(code)
    before = (0.0, 0.0)
    after = before
    for _ in range(2):
        before = after
        for word in words:
            if kept[word] == 1 or EFFECTS[code[word].op].accesses:
                board.step(word)
        waits = board.short_waits * _LATENCIES.shared
        waits += max(0.0, board.long_waits * _LATENCIES.l1 - board.long_covered)
        after = (board.warp_issued + board.fixed_cycles + waits, float(board.warp_issued))
    return after[0] - before[0], after[1] - before[1]
