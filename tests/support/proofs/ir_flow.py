"""The control flow of a function in the JIT's text, and the facts known at each block.

A fact is a (value, truth) pair; for a vector it means that some lane has this truth.
"""

import functools
import re
from collections.abc import Iterable

from support.proofs.ir_text import Block, Line, constants, parse_line, ways_of

Fact = tuple[str, bool]
Facts = frozenset[Fact]
Settled = dict[str, bool | None]
NOTHING: Facts = frozenset()
_PURE = {"add", "sub", "mul", "shl", "lshr", "ashr", "and", "or", "xor", "select", "zext", "sext"}
_PURE |= {"udiv", "urem", "sdiv", "srem", "trunc", "bitcast"}
_PURE |= {"insertelement", "extractelement", "shufflevector"}
_TARGET = re.compile(r"label %([\w.]+)")


def _cut(lines: list[str]) -> dict[str, list[str]]:
    """Return the lines of each block; a function's first block may have no label."""
    label = ""
    blocks: dict[str, list[str]] = {}
    for raw in lines:
        if raw.endswith(":") and not raw.startswith(" "):
            label = raw[:-1]
            blocks[label] = []
        elif raw.strip():
            blocks.setdefault(label, []).append(raw)
    return blocks


def _reached(blocks: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the reachable blocks of a function; unreachable code needs no proof."""
    found = {next(iter(blocks))}
    pending = list(found)
    while pending:
        targets = set(_TARGET.findall(blocks[pending.pop()][-1]))
        pending += targets - found
        found |= targets
    return {label: raws for label, raws in blocks.items() if label in found}


class Flow:
    """Blocks, dominators, loops and facts of one function."""

    def __init__(self, name: str, lines: list[str]) -> None:
        self.name = name
        self.blocks: dict[str, Block] = {}
        self.lines: dict[str, Line] = {}
        self._first_of: dict[tuple[str, ...], str] = {}
        self._first_name: dict[str, str] = {}
        for label, raws in _reached(_cut(lines)).items():
            self.blocks[label] = Block()
            for raw in raws:
                self._add(parse_line(raw, label))
        self._order = list(self.blocks)
        self.predecessors: dict[str, list[str]] = {label: [] for label in self.blocks}
        for label, block in self.blocks.items():
            for target in block.successors:
                self.predecessors[target].append(label)
        self._dominators = self._dominate()

    def _add(self, line: Line) -> None:
        block = self.blocks[line.block]
        block.lines.append(line)
        if line.op == "br":
            block.successors = _TARGET.findall(line.text)
            if len(block.successors) == 2:
                condition = line.operands[0]
                block.condition = self._first_name.get(condition, condition)
        if not line.name:
            return
        if line.type.endswith("i1") or line.type.endswith("i1>"):
            # Masks are recomputed where they are needed: give equal values one name.
            line.operands[:] = [self._first_name.get(one, one) for one in line.operands]
            if line.op != "phi":
                key = (line.op, line.type, *line.operands)
                self._first_name[line.name] = self._first_of.setdefault(key, line.name)
        self.lines[line.name] = line

    def _dominate(self) -> dict[str, set[str]]:
        reachable = set(self._order)
        above = {label: set(reachable) for label in reachable}
        above[self._order[0]] = {self._order[0]}
        changed = True
        while changed:
            changed = False
            for label in self._order[1:]:
                sets = [above[p] for p in self.predecessors[label]]
                now = (set.intersection(*sets) if sets else set()) | {label}
                if now != above[label]:
                    above[label], changed = now, True
        return above

    @functools.cache  # noqa: B019 - a proof lives as long as its test
    def _facts_at(self, label: str) -> Facts:
        """Return the conditions of the branches that are on every path to a block."""
        found = set()
        for above in self._dominators[label] - {self._order[0]}:
            if len(self.predecessors[above]) == 1:
                (source,) = self.predecessors[above]
                block = self.blocks[source]
                if block.condition:
                    found.add((block.condition, above == block.successors[0]))
        return frozenset(found)

    def _facts_on(self, source: str, target: str) -> Facts:
        """Return the facts known on the edge from ``source`` to its successor ``target``."""
        block = self.blocks[source]
        if not block.condition or len(set(block.successors)) != 2:
            return self._facts_at(source)
        return self._facts_at(source) | {(block.condition, target == block.successors[0])}

    @functools.cache  # noqa: B019
    def _closed(self, facts: Facts) -> Facts:
        """Return ``facts`` and what follows from them."""
        known: set[tuple[str, bool]] = set()
        pending = list(facts)
        while pending:
            fact = pending.pop()
            if fact not in known:
                known.add(fact)
                pending += self._implied(*fact, known)
        return frozenset(known)

    def _implied(
        self, name: str, truth: bool, known: set[tuple[str, bool]]
    ) -> Iterable[tuple[str, bool]]:
        line = self.lines.get(name)
        if line is None:
            return ()
        if line.op == ("and" if truth else "or"):
            return [(one, truth) for one in line.operands]
        if line.op in ("and", "or"):
            return self._led(name, known)
        if line.op == "xor" and constants(line.operands[1]) == [1]:
            return [(line.operands[0], not truth)]
        if line.op.startswith("@llvm.vector.reduce.or.") and truth:
            return [(line.operands[0], True)]
        if line.op.startswith("@llvm.vector.reduce.and."):
            return [(line.operands[0], truth)]
        if line.op == "shufflevector":
            first = self.lines.get(line.operands[0])
            if first is not None and first.op == "insertelement":
                return [(first.operands[1], truth)]
        if line.op == "phi" and not self._heads(line.block):
            ways = [
                (value, source)
                for value, source in self._open_ways(line, known)
                if constants(value) != [not truth]
            ]
            if len(ways) == 1:
                return [(ways[0][0], truth), *self._facts_on(ways[0][1], line.block)]
        return ()

    def _led(self, name: str, known: set[Fact]) -> list[Fact]:
        """Return what is known of the path into blocks whose phis a condition depends on."""
        facts: list[Fact] = []
        for label in self._joins(name):
            ways = [one for one in self.predecessors[label] if not self._refuted(one, label, known)]
            if len(ways) == 1:
                facts += self._facts_on(ways[0], label)
        return facts

    @functools.cache  # noqa: B019
    def _joins(self, name: str) -> frozenset[str]:
        """Return the blocks of the phis, except those of loops, on which a condition depends."""
        line = self.lines.get(name)
        if line is None or not line.type.endswith(("i1", "i1>")):
            return frozenset()
        if line.op == "phi":
            return frozenset() if self._heads(line.block) else frozenset({line.block})
        return frozenset().union(*map(self._joins, line.operands))

    def _follows(self, name: str, truth: bool, known: set[tuple[str, bool]]) -> bool:
        """Return whether ``known`` implies that a condition is ``truth`` (for a vector: in some
        lane).
        """
        if (name, truth) in known:
            return True
        line = self.lines.get(name)
        if line is None or not line.type.endswith(("i1", "i1>")):
            return False
        if line.op in ("and", "or"):
            parts = (self._follows(one, truth, known) for one in line.operands)
            if (line.op == "and") is not truth:
                return any(parts)
            return line.type == "i1" and all(parts)
        if line.op == "xor" and line.type == "i1" and constants(line.operands[1]) == [1]:
            return self._follows(line.operands[0], not truth, known)
        if line.op.startswith("@llvm.vector.reduce.or.") and truth:
            return self._follows(line.operands[0], True, known)
        return False

    def _heads(self, label: str) -> bool:
        return any(label in self._dominators[source] for source in self.predecessors[label])

    def _open_ways(self, line: Line, known: Iterable[Fact]) -> list[tuple[str, str]]:
        """Return the incoming edges of a phi that ``known`` does not exclude."""
        facts = set(known)
        ways = []
        for value, source in ways_of(line):
            block = self.blocks.get(source)
            if block is None:
                continue  # there is no such edge
            taken = line.block == block.successors[0]
            if block.condition and self._follows(block.condition, not taken, facts):
                continue
            if not self._refuted(source, line.block, facts):
                ways.append((value, source))
        return ways

    def _refuted(self, source: str, target: str, facts: Iterable[Fact]) -> bool:
        """Return whether ``facts`` contradict that control reached ``target`` from ``source``."""
        phis = [line for line in self.blocks[target].lines if line.op == "phi"]
        came = {phi.name: dict(map(reversed, ways_of(phi)))[source] for phi in phis}
        block = self.blocks[source]
        cases: list[Settled] = [{}]
        if block.condition and len(set(block.successors)) == 2:
            cases = self._cases(block.condition, target == block.successors[0])
        return all(
            any(self._settled(name, case, came) is (not truth) for name, truth in facts)
            for case in cases
        )

    def _cases(self, name: str, truth: bool) -> list[Settled]:
        """Return the cases in which ``name`` is ``truth``, with the conditions and whole masks of
        each.
        """
        if self._settled(name, {}, {}) is (not truth):
            return []
        found: Settled = {name: truth}
        line = self.lines.get(name)
        if line is None:
            return [found]
        parts: list[list[Settled]] = []
        if line.op == ("or" if truth else "and") and line.type == "i1":
            return [case | found for one in line.operands for case in self._cases(one, truth)]
        if line.op == ("and" if truth else "or"):
            parts = [self._cases(one, truth) for one in line.operands]
        elif line.op == "xor" and constants(line.operands[1]) == [1]:
            parts = [self._cases(line.operands[0], not truth)]
        elif line.op.startswith("@llvm.vector.reduce.or.") and not truth:
            parts = [self._cases(line.operands[0], False)]
        cases = [found]
        for part in parts:
            cases = [one | other for one in cases for other in part]
        return cases

    def _settled(self, name: str, known: Settled, came: dict[str, str]) -> bool | None:
        """Return the constant value of a condition, or of a whole mask; None if it is not implied.

        ``came`` has the values of phis. Results are added to ``known``.
        """
        if name not in known:
            known[name] = None
            known[name] = self._find_settled(name, known, came)
        return known[name]

    def _find_settled(self, name: str, known: Settled, came: dict[str, str]) -> bool | None:
        numbers = constants(name)
        if numbers is not None:
            return bool(numbers[0]) if len(set(numbers)) == 1 else None
        line = self.lines.get(name)
        if line is None:
            return None
        if name in came:
            return self._settled(came[name], known, {})
        if line.op == "phi":
            values = [constants(value) or [None] for value, _ in ways_of(line)]
            same = {one for numbers in values for one in numbers}
            return bool(same.pop()) if len(same) == 1 and None not in same else None
        if line.op in ("and", "or"):
            parts = [self._settled(one, known, came) for one in line.operands]
            decides = line.op == "or"
            return decides if decides in parts else (None if None in parts else not decides)
        if line.op == "xor" and constants(line.operands[1]) == [1]:
            part = self._settled(line.operands[0], known, came)
            return None if part is None else not part
        if line.op.startswith("@llvm.vector.reduce."):
            return self._settled(line.operands[0], known, came)
        if line.op == "shufflevector":
            first = self.lines.get(line.operands[0])
            if first is not None and first.op == "insertelement":
                return self._settled(first.operands[1], known, came)
        return None

    @functools.cache  # noqa: B019
    def _body(self, header: str) -> frozenset[str]:
        body = {header}
        pending = [p for p in self.predecessors[header] if header in self._dominators[p]]
        while pending:
            label = pending.pop()
            if label not in body:
                body.add(label)
                pending += self.predecessors[label]
        return frozenset(body)

    def _steady(self, operand: str, header: str, depth: int = 20) -> bool:
        """Return whether a value is the same in all trips of a loop."""
        line = self.lines.get(operand)
        if line is None or line.block not in self._body(header):
            return True
        pure = line.op in _PURE or line.op.startswith(("icmp ", "@llvm.vector.reduce."))
        return depth > 0 and pure and all(self._steady(o, header, depth - 1) for o in line.operands)

    def _lasting(self, facts: Facts, header: str) -> Facts:
        """Return those facts that hold in all trips of a loop, and concern values that do not
        change.
        """
        body, before = self._body(header), self._dominators[header] - {header}
        return frozenset(
            (name, truth)
            for name, truth in self._closed(facts)
            if name not in self.lines
            or self.lines[name].block in before
            or (self.lines[name].block in body and self._steady(name, header))
        )

    def _of_header(self, symbol: str, header: str) -> bool:
        line = self.lines.get(symbol)
        return line is not None and line.op == "phi" and line.block == header
