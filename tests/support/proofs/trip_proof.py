"""Upper bounds of the trips of loops in the JIT's text, proved by induction over a 32-bit counter.

Nothing comes from the JIT's own analysis. A counter that changes by the same step in every trip
takes, within 2^32 / g trips, all numbers that are congruent to its first one modulo g, the
largest power of two that divides the step. A condition that holds on every path back to the
loop's header, and that compares the counter with an invariant limit, bounds the trips if it
fails for one of these numbers.
"""

import math

from support.proofs.clamp_sums import Sum, Sums, symbol_of
from support.proofs.ir_flow import NOTHING, Facts
from support.proofs.ir_text import Line, bits_of, constants, ways_of

_ALL = 1 << 32
_DEPTH = 20
_NEGATED = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}
_MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}


class TripProof(Sums):
    """Trip bounds of one function's loops."""

    def __init__(self, name: str, lines: list[str]) -> None:
        super().__init__(name, lines)
        self._trips: dict[tuple[str, Facts], int | None] = {}

    def trips(self, header: str, facts: Facts) -> int | None:
        """Return the maximum trip count of a loop, or None.

        ``facts`` are about values from before the loop.
        """
        key = (header, facts)
        if key not in self._trips:
            self._trips[key] = None  # returned if the search for a bound needs that same bound
            conditions = self._on_all_ways_back(header, facts)
            found = [self._while(header, facts, *condition) for condition in conditions]
            self._trips[key] = min((trips for trips in found if trips is not None), default=None)
        return self._trips[key]

    def _on_all_ways_back(self, header: str, facts: Facts) -> Facts:
        """Return the scalar conditions that hold whenever control returns to the header."""
        body = self._body(header)
        latches = [p for p in self.predecessors[header] if p in body]
        known = [
            self._passed(latch, header, facts | self._facts_on(latch, header)) for latch in latches
        ]
        found = {
            (name, truth)
            for name, truth in frozenset.intersection(*known)
            if name in self.lines and not self.lines[name].type.startswith("<")
        }
        for label in body:
            block = self.blocks[label]
            stays = [target in body for target in block.successors]
            passed = all(label in self._dominators[latch] for latch in latches)
            if block.condition and passed and stays in ([False, True], [True, False]):
                found.add((block.condition, stays == [True, False]))
        return frozenset(found)

    def _passed(self, latch: str, header: str, facts: Facts) -> Facts:
        """Return ``facts``, and those that follow if only one edge into a block agrees with
        them.
        """
        body, known = self._body(header), self._closed(facts)
        pending, seen = {latch}, {header}
        while pending:
            label = pending.pop()
            seen.add(label)
            pending |= (self._dominators[label] & body) - seen
            ways = [p for p in self.predecessors[label] if not self._refuted(p, label, known)]
            if len(ways) == 1 and not self._heads(label):
                known = self._closed(known | self._facts_on(ways[0], label))
                pending |= {ways[0]} - seen
        return known

    def _while(self, header: str, facts: Facts, condition: str, holds: bool) -> int | None:
        """Return the maximum number of consecutive trips in which ``condition`` is ``holds``.

        A fact about a mask concerns one lane, the same in all trips.
        """
        line = self.lines.get(condition)
        if line is None:
            return None
        if self._settled(condition, {}, {}) is (not holds):
            return 0
        if line.op == ("and" if holds else "or"):
            found = [self._while(header, facts, one, holds) for one in line.operands]
            return min((trips for trips in found if trips is not None), default=None)
        if line.op == "xor" and constants(line.operands[1]) == [1]:
            return self._while(header, facts, line.operands[0], not holds)
        if line.op.startswith("@llvm.vector.reduce.or.") and holds:
            return self._while_any(header, facts, line.operands[0])
        if line.op == "shufflevector":
            first = self.lines.get(line.operands[0])
            if first is not None and first.op == "insertelement":
                return self._while(header, facts, first.operands[1], holds)
        if line.op == "phi" and line.block != header:
            ways = [value for value, _ in ways_of(line) if constants(value) != [int(not holds)]]
            if len(ways) == 1:
                return self._while(header, facts, ways[0], holds)
        if line.op.startswith("icmp ") and bits_of(line.type) == 32:
            return self._counted(header, facts, line, holds)
        return None

    def _while_any(self, header: str, facts: Facts, mask: str) -> int | None:
        """Return the maximum number of trips in which ``mask`` has a lane.

        It is bounded only if lanes never return to the mask: else two masks could exchange their
        lanes forever. If they never return, a lane of the mask was in it in all previous trips.
        """
        line = self.lines.get(mask)
        if line is not None and line.op == "or":
            found = [self._while_any(header, facts, one) for one in line.operands]
            known = [trips for trips in found if trips is not None]
            return max(known) if len(known) == len(found) else None
        return self._while(header, facts, mask, True) if self._lasts(header, mask) else None

    def _lasts(self, header: str, mask: str) -> bool:
        """Return whether a lane that is not in ``mask`` never returns to it."""
        for phi in self.blocks[header].lines:
            if phi.op == "phi" and self._within(mask, phi.name):
                around = self._arguments(phi, NOTHING, around=True)
                if around and all(self._within(value, mask) for value, _ in around):
                    return True
        return False

    def _within(self, mask: str, other: str, depth: int = _DEPTH) -> bool:
        """Return whether the lanes of ``mask`` are a subset of those of ``other``."""
        if mask == other:
            return True
        line = self.lines.get(mask)
        if line is None or not depth:
            return False
        if line.op == "and":
            return any(self._within(one, other, depth - 1) for one in line.operands)
        if line.op == "or":
            return all(self._within(one, other, depth - 1) for one in line.operands)
        if line.op == "phi":
            ways = [value for value, _ in ways_of(line) if constants(value) != [0]]
            return len(ways) == 1 and self._within(ways[0], other, depth - 1)
        return False

    def _counted(self, header: str, facts: Facts, line: Line, holds: bool) -> int | None:
        """Return the maximum number of trips in which a comparison of a counter and a limit is
        ``holds``.
        """
        how = line.op.split(" ")[1]
        for (counter, limit), swapped in ((line.operands, False), (line.operands[::-1], True)):
            moving = self.sum(counter, NOTHING)
            phis = [(s, c) for s, c in moving.terms if self._of_header(s, header)]
            if len(phis) != 1 or phis[0][1] not in (1, -1):
                continue
            if not self._moves_alone(counter, header) or not self._steady(limit, header):
                continue
            phi = self.lines[phis[0][0]]
            step = self._step(phi, facts)
            if not step:
                continue
            grain = step & -step
            apart = self._apart(phi, moving, self.sum(limit, NOTHING), grain)
            if _meets(how, holds, swapped, limit, grain, apart):
                return _ALL // grain
        return None

    def _step(self, phi: Line, facts: Facts) -> int | None:
        """Return the step of a phi of a loop's header in every trip, modulo 2^32."""
        steps = set()
        for value, source in self._arguments(phi, facts, around=True):
            known = facts | self._facts_on(source, phi.block)
            steps.add(self.sum(value, known).plus(symbol_of(phi.name), -1))
        step = steps.pop() if len(steps) == 1 else None
        return None if step is None or step.terms or step.low != step.high else step.low % _ALL

    def _moves_alone(self, operand: str, header: str, depth: int = _DEPTH) -> bool:
        """Return whether only phis of the header change a sum from trip to trip."""
        if self._of_header(operand, header) or self._steady(operand, header):
            return True
        line = self.lines.get(operand)
        linear = line is not None and line.op in ("add", "sub", "insertelement", "shufflevector")
        parts = line.operands if line is not None and linear else ()
        return linear and depth > 0 and all(self._moves_alone(o, header, depth - 1) for o in parts)

    def _apart(self, phi: Line, counter: Sum, limit: Sum, grain: int) -> bool:
        """Return whether the counter's start differs from the limit by a multiple of ``grain``."""
        ways = self._arguments(phi, NOTHING, around=False)
        starts = [self.sum(value, self._facts_at(source)) for value, source in ways]
        return all(
            self._divides(part, grain)
            for part in (*starts, limit, counter.plus(symbol_of(phi.name), -1))
        )

    def _divides(self, part: Sum, grain: int) -> bool:
        if part.low % grain or (part.high != part.low and grain > 1):
            return False
        return all(
            self._zeros(symbol, 8) * math.gcd(count, _ALL) % grain == 0
            for symbol, count in part.terms
        )

    def _zeros(self, operand: str, depth: int) -> int:
        """Return a power of two that divides ``operand``."""
        numbers = constants(operand)
        if numbers is not None:
            return min(n & -n if n else _ALL for n in numbers)
        line = self.lines.get(operand)
        if line is None or not depth:
            return 1
        if line.op == "phi":
            ways = [value for value, _ in ways_of(line) if value != operand]
            return min((self._zeros(value, depth - 1) for value in ways), default=1)
        parts = [self._zeros(one, depth - 1) for one in line.operands[-2:]]
        if line.op == "and":
            return max(parts)
        if line.op in ("add", "sub", "or", "select"):
            return min(parts)
        if line.op == "mul":
            return min(parts[0] * parts[1], _ALL)
        count = constants(line.operands[-1])
        if line.op == "shl" and count is not None:
            return min(parts[0] << count[0], _ALL)
        return 1


def _meets(how: str, holds: bool, swapped: bool, limit: str, grain: int, apart: bool) -> bool:
    """Return whether a counter in steps of ``grain`` takes a value for which the comparison
    fails.
    """
    is_signed, plain = how[0] == "s" and how != "eq", how if how in ("eq", "ne") else how[1:]
    if swapped:
        plain = _MIRRORED[plain]
    ends = _NEGATED[plain] if holds else plain
    if ends in ("eq", "le", "ge") and (apart or grain == 1):
        return True
    if ends == "ne":
        return grain < _ALL
    numbers = constants(limit)
    if ends == "eq" or numbers is None or len(set(numbers)) != 1:
        return False
    number = numbers[0] % _ALL
    below = (number ^ _ALL >> 1) if is_signed else number
    count = below if ends in ("lt", "le") else _ALL - 1 - below
    return count + (ends in ("le", "ge")) >= grain
