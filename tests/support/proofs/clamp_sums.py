"""64-bit values of the JIT's text as sums of symbols and an interval."""

from dataclasses import dataclass

from support.proofs.ir_flow import Facts, Flow
from support.proofs.ir_text import TYPE, Line, bits_of, constants, ways_of

APERTURE_BYTES = 1 << 43
OF_ALL_LANES = {"base", "limit", "shared", "local"}
_LINEAR = ("add", "sub", "getelementptr")


@dataclass(frozen=True)
class Sum:
    """``sum of coefficient * symbol, plus a number from low to high``, modulo 2^64."""

    terms: frozenset[tuple[str, int]]
    low: int = 0
    high: int = 0

    def plus(self, other: "Sum", sign: int = 1) -> "Sum":
        terms = dict(self.terms)
        for symbol, count in other.terms:
            terms[symbol] = terms.get(symbol, 0) + sign * count
        low, high = sorted((sign * other.low, sign * other.high))
        kept = frozenset((symbol, count) for symbol, count in terms.items() if count)
        return Sum(kept, self.low + low, self.high + high)

    def times(self, factor: int) -> "Sum":
        low, high = sorted((self.low * factor, self.high * factor))
        return Sum(frozenset((s, c * factor) for s, c in self.terms if factor), low, high)


def number(low: int, high: int | None = None) -> Sum:
    return Sum(frozenset(), low, low if high is None else high)


def constant(operand: str) -> Sum | None:
    """Return the range of a constant over its lanes; None if the operand is not a constant."""
    numbers = constants(operand)
    return None if numbers is None else number(min(numbers), max(numbers))


def symbol_of(name: str) -> Sum:
    return Sum(frozenset({(name, 1)}))


class Sums(Flow):
    """The values of one function. A subclass bounds the trips of loops."""

    def __init__(self, name: str, lines: list[str]) -> None:
        super().__init__(name, lines)
        self._sums: dict[tuple[str, Facts], Sum] = {}
        self._split: dict[str, Sum] = {}
        self._open: set[str] = set()

    def trips(self, header: str, facts: Facts) -> int | None:
        """Return an upper bound of the trips of a loop before which ``facts`` hold, or None."""
        raise NotImplementedError

    def sum(self, operand: str, facts: Facts) -> Sum:
        """Return ``operand`` as a sum in which the phis of loops are symbols."""
        key = (operand, facts)
        if key not in self._sums:
            self._sums[key] = self._find(operand, facts)
        return self._sums[key]

    def _find(self, operand: str, facts: Facts) -> Sum:
        fixed = constant(operand)
        if fixed is not None:
            return fixed
        line = self.lines.get(operand)
        if line is None:
            return symbol_of(operand)
        if line.op == "phi":
            return self._phi(line, facts)
        known = self._known(line, facts)
        return symbol_of(operand) if known is None else known

    def _known(self, line: Line, facts: Facts) -> Sum | None:
        op, operands = line.op, line.operands
        if op in _LINEAR:
            return self._linear(line, facts)
        if op in ("mul", "shl"):
            return self._product(op, self.sum(operands[0], facts), self.sum(operands[1], facts))
        if op in ("zext", "sext"):
            whole, source = self._extended(line), self.sum(operands[0], facts)
            small = not source.terms and 0 <= source.low <= source.high <= whole.high
            return source if small else whole
        if op == "ashr":
            return self._shifted(line, facts)
        if op == "inttoptr":
            return self.sum(operands[0], facts)
        if op == "load":
            return self._loaded(line, facts)
        if op in ("and", "urem") or op.startswith("@llvm.umin."):
            return self._below(op, operands, facts)
        if op in ("or", "xor"):
            parts = [self.sum(operand, facts) for operand in operands[:2]]
            if any(part.terms or part.low < 0 for part in parts):
                return None
            return number(0, (1 << max(part.high for part in parts).bit_length()) - 1)
        if op == "select":
            return self._selected(line, facts)
        if op == "extractelement":
            lanes = self.sum(operands[0], facts)
            # A symbol that is common to all lanes holds for any of them.
            return lanes if {symbol for symbol, _ in lanes.terms} <= OF_ALL_LANES else None
        if op == "shufflevector" and operands[2] == "zeroinitializer":
            first = self.lines.get(operands[0])
            if first is not None and first.op == "insertelement" and first.operands[2] == "0":
                return self.sum(first.operands[1], facts)
        return None

    def _linear(self, line: Line, facts: Facts) -> Sum:
        """Return a sum of the facts about its parts, each computed once, however often it
        occurs.
        """
        parts = self._parts(line.name)
        found = number(parts.low, parts.high)
        for symbol, count in parts.terms:
            found = found.plus(self.sum(symbol, facts).times(count))
        return found

    def _parts(self, operand: str) -> Sum:
        """Return ``operand`` as a sum of values that are not sums themselves, by their names.

        A value that occurs with both signs cancels, even if its range has several numbers.
        """
        if operand not in self._split:
            self._split[operand] = self._divided(operand)
        return self._split[operand]

    def _divided(self, operand: str) -> Sum:
        fixed = constant(operand)
        if fixed is not None:
            return fixed
        line = self.lines.get(operand)
        if line is None or line.op not in (*_LINEAR, "mul", "shl"):
            return symbol_of(operand)
        first, second = (self._parts(one) for one in line.operands[:2])
        if line.op in _LINEAR:
            return first.plus(second, -1 if line.op == "sub" else 1)
        return self._product(line.op, first, second) or symbol_of(operand)

    def _selected(self, line: Line, facts: Facts) -> Sum | None:
        condition, yes, no = line.operands
        comparison = self.lines.get(condition)
        if comparison is not None and comparison.op == "icmp ugt":
            a, b = (constants(operand) for operand in comparison.operands)
            if a and b and len(a) == len(b) == 1 and min(*a, *b) >= 0:
                return self.sum(yes if a[0] > b[0] else no, facts)
        first = self.sum(yes, facts | {(condition, True)})
        collected = self.lines.get(no)
        if collected is not None and collected.op == "phi" and self._heads(collected.block):
            ways = {value for value, _ in ways_of(collected)}
            if line.name in ways and all(constants(w) == [0] for w in ways - {line.name}):
                return first
        without = facts | {(condition, False)}
        ways = [(first, facts | {(condition, True)}), (self.sum(no, without), without)]
        return self._one_of(ways)

    @staticmethod
    def _product(op: str, x: Sum, y: Sum) -> Sum | None:
        if op == "shl":
            fixed = not y.terms and y.low == y.high and 0 <= y.low < 64
            return x.times(1 << y.low) if fixed else None
        for one, other in ((x, y), (y, x)):
            if not other.terms and other.low == other.high:
                return one.times(other.low)
        if x.terms or y.terms:
            return None
        corners = [p * q for p in (x.low, x.high) for q in (y.low, y.high)]
        return number(min(corners), max(corners))

    @staticmethod
    def _extended(line: Line) -> Sum:
        match = TYPE.match(line.type)
        assert match
        bits = bits_of(match[1])
        if line.op == "zext":
            return number(0, (1 << bits) - 1)
        return number(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)

    def _shifted(self, line: Line, facts: Facts) -> Sum | None:
        """Return a number shifted right arithmetically."""
        match, count = TYPE.match(line.type), self.sum(line.operands[1], facts)
        assert match
        bits = bits_of(match[1])
        if count.terms or count.low != count.high or not 0 <= count.low < bits:
            return None
        half = 1 << (bits - 1 - count.low)
        return number(-half, half - 1)

    def _loaded(self, line: Line, facts: Facts) -> Sum | None:
        place = self.sum(line.operands[0], facts)
        if place.low != place.high or len(place.terms) != 1:
            return None
        ((argument, count),) = place.terms
        if line.type == "ptr" and argument == "%thread" and count == 1:
            fields = {16: "shared", 24: "local", **dict.fromkeys((32, 40, 48, 72, 80), "stop")}
            return symbol_of(fields[place.low]) if place.low in fields else None
        if line.type != "i64":
            return None
        if argument == "%ctx" and count == 1:
            return {0: symbol_of("base"), 8: symbol_of("limit")}.get(place.low)
        if argument == "%params" and count == 1:
            return symbol_of(f"parameter{place.low}")
        return None

    def _below(self, op: str, operands: list[str], facts: Facts) -> Sum | None:
        fixed = [one for operand in operands for one in constants(operand) or (None,)]
        if op.startswith("@") and len(fixed) == 2 and None not in fixed and min(fixed) >= 0:
            return number(min(fixed))
        bounds = []
        for operand in operands[1:] if op == "urem" else operands:
            numbers = constants(operand)
            if numbers is not None and min(numbers) >= 0:
                bounds.append(max(numbers))
            elif op.startswith("@") and dict(self.sum(operand, facts).terms) == {"limit": 1}:
                bounds.append(APERTURE_BYTES)
        return number(0, min(bounds)) if bounds else None

    def _one_of(self, ways: list[tuple[Sum, Facts]]) -> Sum | None:
        joined = self._join([found for found, _ in ways])
        return joined or self._join([self.expand(found, facts) for found, facts in ways])

    @staticmethod
    def _join(sums: list[Sum]) -> Sum | None:
        if not sums or len({one.terms for one in sums}) != 1:
            return None
        return Sum(sums[0].terms, min(s.low for s in sums), max(s.high for s in sums))

    def _arguments(self, line: Line, facts: Facts, *, around: bool) -> list[tuple[str, str]]:
        return [
            (value, source)
            for value, source in self._open_ways(line, self._closed(facts))
            if (line.block in self._dominators[source]) is around
        ]

    def _phi(self, line: Line, facts: Facts) -> Sum:
        if self._heads(line.block):
            return symbol_of(line.name)
        ways = [
            (self.sum(value, known), known)
            for value, source in self._arguments(line, facts, around=False)
            for known in (facts | self._facts_at(source),)
        ]
        return self._one_of(ways) or symbol_of(line.name)

    def expand(self, found: Sum, facts: Facts) -> Sum:
        """Replace the phis of loops by their initial values and the distances that they move."""
        result = Sum(frozenset(), found.low, found.high)
        for symbol, count in found.terms:
            line = self.lines.get(symbol)
            whole = symbol_of(symbol)
            if (
                line is not None
                and line.op == "phi"
                and symbol not in self._open
                and self._heads(line.block)
            ):
                whole = self._walk(line, facts) or whole
            result = result.plus(whole.times(count))
        return result

    def _walk(self, line: Line, facts: Facts) -> Sum | None:
        lasting = self._lasting(facts, line.block)
        entries = []
        for value, source in self._arguments(line, lasting, around=False):
            known = lasting | self._facts_at(source)
            entries.append(self.expand(self.sum(value, known), known))
        start = self._join(entries) if entries else None
        if start is None:
            return None
        steps = []
        self._open.add(line.name)
        try:
            for value, source in self._arguments(line, lasting, around=True):
                known = lasting | self._facts_on(source, line.block)
                after = self.expand(self.sum(value, known), known)
                steps.append(after.plus(symbol_of(line.name), -1))
        finally:
            self._open.remove(line.name)
        if not steps:
            return start  # control never takes a back edge
        if any(step.terms for step in steps):
            return None
        low, high = min(s.low for s in steps), max(s.high for s in steps)
        if low == high == 0:
            return start
        trips = self.trips(line.block, lasting)
        if trips is None:
            return None
        return start.plus(number(min(low, 0) * trips, max(high, 0) * trips))
