"""A scoreboard without a clock: the waits of one warp along the instructions that it executed.

Waits for results of known latency are added up in cycles. Waits for memory are counted, together
with their distance from the access; the model adds the latency later, because it depends on
cache hits.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
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
from vgpu_sim.isa.families.sync import WARPGROUP_BARRIER
from vgpu_sim.perf.kernels.chip import Latencies
from vgpu_sim.perf.kernels.pipes import Pipe, work_of
from vgpu_sim.perf.kernels.units import NO_UNITS, Part
from vgpu_sim.records import dataclass

_LATENCIES: Final = Latencies()
_COMMIT: Final = Literal(WARPGROUP_BARRIER)
_DOUBLE: Final = 8  # cycles of a binary64 operation
CHAIN: Final = ("warp_issued", "fixed_cycles", "short_waits", "long_waits", "long_covered")
# Measured on an H100 (docs/silicon.md), as are the other cycles here that have no source.
_PRODUCT: Final = 24  # of a warp's matrix product whose sums the next one adds to
_END_OF_PRODUCTS: Final = 53  # from the last product of a warp group until its sums can be read
_COPY_CYCLES: Final = 170  # of a bulk copy, beside the access itself
_CLUSTER_BARRIER: Final = 950  # of an arrival that releases stores, and the wait
_MOST_COVERED: Final = 600.0  # no single access takes more cycles


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
    cycles: int  # cycles to the result, where they are fixed
    issues: float
    stall: int = 0  # cycles for which the warp then waits


def _row(instruction: Instruction) -> _Row:
    work = work_of(instruction)
    guard = () if instruction.guard is None else (instruction.guard.predicate,)
    kind, cycles = _Kind.FIXED, _LATENCIES.fixed
    if EFFECTS[instruction.op].reads and instruction.space is not Space.PARAM:
        kind = _Kind.SHORT if instruction.space is Space.SHARED else _Kind.LONG
    elif instruction.op in (Op.SHFL, Op.MATCH, Op.REDUX, Op.S2R):
        kind = _Kind.SHORT
    elif Pipe.XU in work or Pipe.CVT in work:
        programs = sum(work.values()) - 1  # instructions before and after, each waiting for one
        cycles = _LATENCIES.special if Pipe.XU in work else _LATENCIES.convert
        cycles += int(programs * (_LATENCIES.fixed - 1))
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
        _stall(instruction),
    )


def _stall(instruction: Instruction) -> int:
    return _CLUSTER_BARRIER if instruction.op is Op.CLUSTER_ARRIVE else 0


def _places(
    operands: Iterable[Register | Predicate | Literal | Symbol | None],
) -> Iterable[int]:
    """Yield register numbers; predicates get numbers below zero."""
    for operand in operands:
        if isinstance(operand, Register):
            yield operand.index
        elif isinstance(operand, Predicate):
            yield -1 - operand.index


def _reads_mbarrier(instruction: Instruction) -> bool:
    return (
        instruction.op is Op.LD
        and instruction.space is Space.SHARED
        and instruction.volatile
        and instruction.type is DataType.B64
    )


class Scoreboard:
    """The state of one warp while it executes code: which results it has to wait for, and its
    counts so far. The counts are attributes, named like the fields of ``Counts`` that describe a
    warp.
    """

    def __init__(self, code: Sequence[Instruction], units: Mapping[int, Part] = NO_UNITS) -> None:
        self._code, self._units = code, units
        self._products = 0.0  # cycles of products that the warp has not waited for
        self._fetches = False
        self._copies: deque[float] = deque()  # cycle at which each copy was issued
        self._rows: dict[
            int, _Row
        ] = {}  # only of instructions that are executed: there may be many warps
        self._fixed: dict[int, float] = {}  # cycle at which each result is available
        self._short: dict[int, float] = {}  # cycle at which each access was issued
        self._long: dict[int, float] = {}
        self._now = 0.0
        self.warp_issued = 0.0
        self.fixed_cycles = 0.0
        self.short_waits = 0.0
        self.long_waits = 0
        self.long_covered = 0.0

    @property
    def has_copies(self) -> bool:
        """True if the warp has started bulk copies for which it has not waited yet."""
        return bool(self._copies)

    def advance(self, word: int) -> tuple[float, ...]:
        """Record that the warp executed the instruction at index ``word`` of the code. Return, for
        each counter in ``CHAIN``, by how much it grew.
        """
        earlier_state = self._state()
        self.step(word)
        return tuple(
            counter - earlier_counter
            for counter, earlier_counter in zip(self._state(), earlier_state, strict=True)
        )

    def _state(self) -> tuple[float, ...]:
        return (
            self.warp_issued,
            self.fixed_cycles,
            self.short_waits,
            self.long_waits,
            self.long_covered,
        )

    def step(self, word: int) -> None:
        """Record that the warp executed the instruction at index ``word`` of the code."""
        part = self._units.get(word)
        if part is not None:
            self._begin(part)
            return
        row = self._rows.get(word)
        if row is None:
            row = self._rows[word] = _row(self._code[word])
        if self._products or self._copies:
            self._wait_units(self._code[word])
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
        self._now += row.stall
        self.fixed_cycles += row.stall
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

    def _begin(self, part: Part) -> None:
        """Record that the warp starts what a unit performs, at the last instruction of that."""
        if part.cycles or part.ends or part.issued:
            self._now += 1
            self.warp_issued += 1
            self._products += part.cycles
        if part.issued and not self._fetches:  # later fetches overlap with what the warp does
            self._fetches = True
            self.long_waits += 1
        if part.ends:
            self._copies.append(self._now)

    def _wait_units(self, instruction: Instruction) -> None:
        """Wait for products at a commit, and for the oldest copy at an mbarrier."""
        if instruction.op is Op.BAR_SYNC and instruction.srcs[0] == _COMMIT and self._products:
            self.fixed_cycles += self._products + _END_OF_PRODUCTS
            self._now += self._products + _END_OF_PRODUCTS
            self._products = 0.0
        elif self._copies and _reads_mbarrier(instruction):
            self.long_waits += 1
            covered = self._now - self._copies.popleft()
            own = max(0.0, _COPY_CYCLES - covered)  # of the copy itself; the access follows
            self.fixed_cycles += own
            self.long_covered += max(0.0, min(_MOST_COVERED, covered) - _COPY_CYCLES)
            self._now += max(0.0, _LATENCIES.l2 + _COPY_CYCLES - covered)

    def _wait_long(self, reads: tuple[int, ...]) -> None:
        """Wait for all accesses issued before this point. They overlap, so one latency covers all
        of them.
        """
        issued_at = [self._long[place] for place in reads if place in self._long]
        if issued_at:
            self.long_waits += 1
            self.long_covered += min(_MOST_COVERED, self._now - max(issued_at))
            self._now += _LATENCIES.l2
            self._long.clear()

    def _wait_short(self, reads: tuple[int, ...]) -> None:
        issued_at = [self._short[place] for place in reads if place in self._short]
        if issued_at:
            wait_cycles = _LATENCIES.shared - (self._now - max(issued_at))
            if wait_cycles > 0:
                self.short_waits += wait_cycles / _LATENCIES.shared
                self._now += wait_cycles
                self._short.clear()


def chain_growth(instruction: Instruction) -> tuple[float, ...]:
    """Return how much each counter in ``CHAIN`` grows when a warp executes this instruction. The
    next instruction is assumed to wait for the result.
    """
    row = _row(instruction)
    waits = row.issues > 0 and bool(row.writes)
    return (
        float(row.issues),
        float(row.cycles - 1) if waits and row.kind is _Kind.FIXED else 0.0,
        1.0 if waits and row.kind is _Kind.SHORT else 0.0,
        1.0 if waits and row.kind is _Kind.LONG else 0.0,
        0.0,
    )


def execution_cost(
    code: Sequence[Instruction], words: Sequence[int], issue_shares: Sequence[float]
) -> tuple[float, float]:
    """Return a lower bound for the cost to a warp of executing a group of instructions once more,
    as (cycles, issues). ``words`` are the instructions' indices in ``code``.

    ``issue_shares`` is the result of ``unrolling.issue_shares`` for the whole code. Loads are
    assumed to hit the first-level cache. The cost includes waits for work that the previous
    execution of the group has not finished.
    """
    board = Scoreboard(code)
    earlier_cost = (0.0, 0.0)
    total_cost = earlier_cost
    for _ in range(2):
        earlier_cost = total_cost
        for word in words:
            if issue_shares[word] == 1 or (issue_shares[word] and EFFECTS[code[word].op].accesses):
                board.step(word)
        waits = board.short_waits * _LATENCIES.shared
        waits += max(0.0, board.long_waits * _LATENCIES.l1 - board.long_covered)
        total_cost = (board.warp_issued + board.fixed_cycles + waits, float(board.warp_issued))
    return total_cost[0] - earlier_cost[0], total_cost[1] - earlier_cost[1]
