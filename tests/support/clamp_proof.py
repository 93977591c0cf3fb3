"""Shows of generated LLVM IR text that no access can leave the aperture and the zones around it.

It shares nothing with the JIT's own analysis: it reads the text alone. Every 64-bit value becomes a
sum of symbols (what was loaded, what is not understood) and an interval; an access is safe where
its pointer is the aperture's base plus an interval within the zones, or within their image, where
misaligned accesses are moved; or the base of the block's shared memory, which is in the caller's
state, plus an interval within what is reserved around that; or the base of the group's local memory
plus less than a group may have of it, there or in an image; or in the function's own table. Only ``umin`` with the limit
can turn a symbol into an interval that large, so a proof is a proof of the clamp. A pointer that
moves in a loop is followed through as many turns as a 32-bit counter on the way round allows.

Code that no lane needs is jumped over, and its results are zeros then. So what is known where an
access stands (which branches led there, that a mask has a lane) says which ways into a phi count.
One thing is taken as given: what lanes hold when they leave a loop is collected turn by turn, from
zeros on, and a lane that goes on behind the loop has left it in one of its turns.
"""

import functools
import math
import re

from clamp_sums import APERTURE_BYTES, Sum, Sums, symbol_of
from ir_flow import NOTHING, Facts
from ir_text import MASKED, STOP, TABLE_CALLS, Line, access_of, bits_of, constants, ways_of

GIB = 1 << 30
ZONE_BYTES = 128 * GIB
IMAGE_BYTES = 9 << 40
SHARED_REACH_BYTES = 4 * GIB
SHARED_IMAGE_BYTES = 8 * GIB
LOCAL_REACH_BYTES = (1 << 27) + (1 << 16)
TABLE_BYTES = 8256
LOCAL_IMAGES = (0, 1 * GIB, 2 * GIB, 3 * GIB)
LEAST, END = -ZONE_BYTES, APERTURE_BYTES + ZONE_BYTES
_ARGUMENTS = ("%ctx", "%params", "%thread")
_ARGUMENT_BYTES = 1 << 16
_ALL = 1 << 32


class NotShown(AssertionError):
    """An access whose address is not shown to stay where it must."""


class FunctionProof(Sums):
    """The proof for one function of the text.

    A function of products is ``called``: ``needs`` is how many bytes it asks behind each pointer
    that it gets, and its callers are checked to hand over as many of their own stack.
    """

    def __init__(self, name: str, lines: list[str], parameters: tuple[str, ...] = ()) -> None:
        super().__init__(name, lines)
        self.called = name.startswith("product.")
        self.parameters = parameters
        self.needs: dict[str, int] = {}
        stacked = (re.search(r"(%\w+) = alloca (?:\[(\d+) x i8\]|i32$)", one) for one in lines)
        self.scratch = {found[1]: int(found[2] or 4) for found in stacked if found}

    def check_calls(self, called: "dict[str, FunctionProof]") -> None:
        """Check what functions of products are given.

        Raises:
            NotShown: for a pointer to less than they need, or to something else.
        """
        for block in self.blocks.values():
            for line in block.lines:
                proof = called.get(line.op.removeprefix("@"))
                for name, given in (
                    zip(proof.parameters, line.operands, strict=True) if proof else ()
                ):
                    if name == "%thread":
                        right = given == name
                    elif name == "%collect":
                        right = self.sum(given, self._facts_at(line.block)) == symbol_of("stop")
                    else:
                        right = self.scratch.get(given, 0) >= proof.needs.get(name, 0)
                    if not right:
                        raise NotShown(f"{self.name}: {line.text}: {given} for {name}")

    def prove(self) -> int:
        """Check every access; return how many reach the aperture.

        Raises:
            NotShown: for the first access that is not shown to be safe.
        """
        count = 0
        for block in self.blocks.values():
            for line in block.lines:
                if line.op in TABLE_CALLS and "%table" not in line.operands:
                    raise NotShown(f"{self.name}: {line.text}: not this function's table")
                pointer, size = access_of(line)
                if pointer is not None:
                    count += self._check(line, pointer, size)
        return count

    def _check(self, line: Line, pointer: str, size: int) -> int:
        reached = 0
        facts = self._facts_at(line.block)
        if line.op == STOP:
            if self.called and pointer in self.parameters:
                return 0  # whoever calls this function hands over what "stop" is
            if self.sum(pointer, facts) != symbol_of("stop"):
                raise NotShown(f"{self.name}: {line.text}: not a call of the worker's")
            return 0
        if line.op.startswith("@llvm.masked."):
            facts |= {(line.operands[MASKED[line.op.split(".")[2]][1]], True)}
        for place in self._places(pointer, facts):
            terms = dict(place.terms)
            if any(terms == {argument: 1} for argument in _ARGUMENTS):
                inside = place.low >= 0 and place.high + size <= _ARGUMENT_BYTES
            elif terms == {"shared": 1}:
                reached = 1
                inside = any(
                    place.low - image >= -SHARED_REACH_BYTES
                    and place.high - image + size <= SHARED_REACH_BYTES
                    for image in (0, SHARED_IMAGE_BYTES)
                )
            elif terms == {"%table": 1}:  # sums that wait, on the stack
                inside = place.low >= 0 and place.high + size <= TABLE_BYTES
            elif terms == {"local": 1}:
                reached = 1
                inside = any(
                    image <= place.low and place.high + size <= image + LOCAL_REACH_BYTES
                    for image in LOCAL_IMAGES
                )
            elif any(terms == {name: 1} for name in self.scratch):
                inside = place.low >= 0 and place.high + size <= self.scratch[next(iter(terms))]
            elif self.called and any(terms == {name: 1} for name in self.parameters):
                inside = place.low >= 0
                name = next(iter(terms))
                self.needs[name] = max(self.needs.get(name, 0), place.high + size)
            else:
                reached = 1
                inside = terms == {"base": 1} and any(
                    place.low - image >= LEAST and place.high - image + size <= END
                    for image in (0, IMAGE_BYTES)
                )
            if not inside:
                where = " + ".join(f"{count}*{symbol}" for symbol, count in terms.items())
                raise NotShown(
                    f"{self.name}: {line.text}: at {where} + [{place.low:#x}, {place.high:#x}]"
                )
        return reached

    def _places(self, pointer: str, facts: Facts) -> list[Sum]:
        """The places that a pointer may name; a select may lead to the caller's state instead."""
        line = self.lines.get(pointer)
        if line is not None and line.op == "select" and line.type == "i1":
            condition, yes, no = line.operands
            first = self._places(yes, facts | {(condition, True)})
            return first + self._places(no, facts | {(condition, False)})
        if line is not None and line.op == "select" and line.type.endswith(" x i1>"):
            return [place for one in line.operands[1:] for place in self._places(one, facts)]
        if line is not None and line.op == "extractelement":
            return self._places(line.operands[0], facts)
        if line is not None and line.op == "getelementptr":
            steps = self._steps(line.operands[1], facts)
            places = self._places(line.operands[0], facts)
            return [place.plus(step) for place in places for step in steps]
        return [self.expand(self.sum(pointer, facts), facts)]

    def _steps(self, operand: str, facts: Facts) -> list[Sum]:
        """The distances that an operand may be: a choice of two numbers is two."""
        line = self.lines.get(operand)
        if line is not None and line.op == "select" and all(map(constants, line.operands[1:])):
            return [self.sum(one, facts) for one in line.operands[1:]]
        return [self.expand(self.sum(operand, facts), facts)]

    @functools.cache  # noqa: B019
    def turns(self, header: str) -> int | None:
        body = self._body(header)
        latches = [p for p in self.predecessors[header] if p in body]
        found = []
        for label in body:
            block = self.blocks[label]
            out = [target not in body for target in block.successors]
            asked = all(label in self._dominators[latch] for latch in latches)
            if block.condition and out in ([False, True], [True, False]) and asked:
                stays = out == [False, True]
                turns = self._while(header, block.condition, stays)
                found += [] if turns is None else [turns]
        return min(found, default=None)

    def _while(self, header: str, condition: str, holds: bool) -> int | None:
        """For how many turns ``condition`` can be ``holds``, turn after turn."""
        line = self.lines.get(condition)
        if line is None:
            return None
        both = {"and": holds, "or": not holds}.get(line.op)
        if both is not None:
            parts = [self._while(header, one, holds) for one in line.operands]
            known = [turns for turns in parts if turns is not None]
            if both:
                return min(known, default=None)
            return max(known) if len(known) == len(parts) else None
        if line.op == "xor" and constants(line.operands[1]) == [1]:
            return self._while(header, line.operands[0], not holds)
        if line.op.startswith("@llvm.vector.reduce.or.") and holds:
            mask = line.operands[0]
            return self._while(header, mask, True) if self._lasts(header, mask) else None
        if line.op == "shufflevector":
            first = self.lines.get(line.operands[0])
            if first is not None and first.op == "insertelement":
                return self._while(header, first.operands[1], holds)
        if line.op == "phi" and line.block != header:
            ways = [value for value, _ in ways_of(line) if constants(value) != [int(not holds)]]
            if len(ways) == 1:
                return self._while(header, ways[0], holds)
        if line.op.startswith("icmp ") and bits_of(line.type) == 32:
            return self._counted(header, line, holds)
        return None

    def _lasts(self, header: str, mask: str) -> bool:
        """Whether a lane that is not in ``mask`` never comes back to it."""
        line = self.lines.get(mask)
        if line is not None and line.op == "or":
            return all(self._lasts(header, one) for one in line.operands)
        for phi in self.blocks[header].lines:
            if phi.op == "phi" and self._within(mask, phi.name):
                around = self._arguments(phi, frozenset(), around=True)
                if around and all(self._within(value, mask) for value, _ in around):
                    return True
        return False

    def _within(self, mask: str, other: str) -> bool:
        """Whether the lanes of ``mask`` are lanes of ``other``."""
        if mask == other:
            return True
        line = self.lines.get(mask)
        if line is None:
            return False
        if line.op == "and":
            return any(self._within(one, other) for one in line.operands)
        if line.op == "or":
            return all(self._within(one, other) for one in line.operands)
        if line.op == "phi":
            ways = [value for value, _ in ways_of(line) if constants(value) != [0]]
            return len(ways) == 1 and self._within(ways[0], other)
        return False

    def _counted(self, header: str, line: Line, holds: bool) -> int | None:
        how = line.op.split(" ")[1]
        body = self._body(header)
        for (counter, limit), swapped in ((line.operands, False), (line.operands[::-1], True)):
            moving = self.sum(counter, NOTHING)
            phis = [(s, c) for s, c in moving.terms if self._of_header(s, header)]
            fixed = self.sum(limit, NOTHING)
            others = [s for s, _ in moving.terms | fixed.terms if not self._of_header(s, header)]
            if (
                len(phis) != 1
                or phis[0][1] not in (1, -1)
                or any(self._of_header(s, header) for s, _ in fixed.terms)
            ):
                continue
            if not all(self._steady(symbol, body) for symbol in others):
                continue
            phi = self.lines[phis[0][0]]
            steps = [
                self.sum(value, NOTHING).plus(symbol_of(phi.name), -1)
                for value, _ in self._arguments(phi, NOTHING, around=True)
            ]
            if not steps or any(s.terms or s.low != s.high or s != steps[0] for s in steps):
                continue
            step = steps[0].low % _ALL
            if not step:
                continue
            grain = step & -step
            if _meets(how, holds, swapped, limit, grain, self._apart(phi, moving, fixed, grain)):
                return _ALL // grain
        return None

    def _apart(self, phi: Line, counter: Sum, limit: Sum, grain: int) -> bool:
        """Whether the counter starts a multiple of ``grain`` away from the limit."""
        ways = self._arguments(phi, NOTHING, around=False)
        starts = [self.sum(value, NOTHING | self._facts_at(source)) for value, source in ways]
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
        """A power of two that divides ``operand``."""
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
    """Whether a counter in steps of ``grain`` comes to a number that ends the loop."""
    negated = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}
    mirrored = {"eq": "eq", "ne": "ne", "lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
    is_signed, plain = how[0] == "s" and how != "eq", how if how in ("eq", "ne") else how[1:]
    if swapped:
        plain = mirrored[plain]
    ends = negated[plain] if holds else plain
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


def prove(text: str) -> int:
    """Prove every access of a module's text; return how many reach the aperture.

    Raises:
        NotShown: for an access that is not shown to be safe.
    """
    functions = re.findall(
        r"^define [^@]*@([\w.]+)\((.*?)\) .*?\{\n(.*?)^\}", text, re.DOTALL | re.MULTILINE
    )
    assert functions, "no function in this text"
    proofs = []
    for name, head, body in functions:
        parameters = re.findall(r"%[\w.]+", head) if name.startswith("product.") else ()
        proofs.append(FunctionProof(name, body.splitlines(), tuple(parameters)))
    count = sum(proof.prove() for proof in proofs)
    for proof in proofs:
        proof.check_calls({other.name: other for other in proofs if other.called})
    return count
