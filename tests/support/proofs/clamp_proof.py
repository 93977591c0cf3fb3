"""A proof, from generated LLVM IR text, that no access leaves the aperture and its guard zones.

It shares nothing with the JIT's own analysis: it reads the text alone. Every 64-bit value
becomes a sum of symbols (loaded values, and those that it cannot interpret) and an interval. An
access is safe if its pointer is one of these:

- the aperture's base plus an interval within the zones, or within their image, to which misaligned
  accesses are redirected;
- the base of the block's shared memory, which is in the caller's state, plus an interval within
  the reservation around it;
- the base of the group's local memory plus less than a group's maximum, there or in an image;
- an address in the function's own table.

Only ``umin`` with the limit can turn a symbol into an interval that large, so a proof is a proof
of the clamp. A pointer that moves in a loop is followed through as many trips as ``trip_proof``
proves.

Code that no lane needs is skipped, and its results are zeros then. Therefore the facts at an
access (which branches led to it, that a mask has a lane) determine which edges into a phi are
possible. One thing is assumed: the values that lanes hold when they leave a loop are collected
trip by trip, starting from zeros, and a lane that continues after the loop has left it in one of
its trips.
"""

import re

from support.proofs.clamp_sums import APERTURE_BYTES, Sum, symbol_of
from support.proofs.ir_flow import Facts
from support.proofs.ir_text import MASKED, STOP, TABLE_CALLS, Line, access_of, constants
from support.proofs.trip_proof import TripProof

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


class NotShown(AssertionError):
    """An access whose address is not proved to be confined."""


class FunctionProof(TripProof):
    """The proof for one function of the text.

    A function of matrix products is ``called``: ``needs`` is the number of bytes that it
    accesses from each pointer argument on, and the proof checks that its callers pass as many of
    their own stack.
    """

    def __init__(self, name: str, lines: list[str], parameters: tuple[str, ...] = ()) -> None:
        super().__init__(name, lines)
        self.called = name.startswith("product.")
        self.parameters = parameters
        self.needs: dict[str, int] = {}
        stacked = (re.search(r"(%\w+) = alloca (?:\[(\d+) x i8\]|i32$)", one) for one in lines)
        self.scratch = {found[1]: int(found[2] or 4) for found in stacked if found}

    def check_calls(self, called: "dict[str, FunctionProof]") -> None:
        """Check the pointers that are passed to functions of products.

        Raises:
            NotShown: for a pointer to fewer bytes than they need, or to anything but the stack.
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
        """Check every access; return how many are to the aperture.

        Raises:
            NotShown: for the first access that is not proved to be safe.
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
                return 0  # callers of this function pass the value of "stop"
            if self.sum(pointer, facts) != symbol_of("stop"):
                raise NotShown(f"{self.name}: {line.text}: not a call of the worker's")
            return 0
        if line.op.startswith("@llvm.masked."):
            facts |= {(line.operands[MASKED[line.op.split(".")[2]][1]], True)}
        if any(self._settled(name, {}, {}) is (not truth) for name, truth in facts):
            return 0  # no lane reaches this
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
            elif terms == {"%table": 1}:  # delayed sums, on the stack
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
        """Return the places to which a pointer may refer; a select may lead to the caller's state
        instead.
        """
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
        """Return the possible distances of an operand: two if it selects between two numbers."""
        line = self.lines.get(operand)
        if line is not None and line.op == "select" and all(map(constants, line.operands[1:])):
            return [self.sum(one, facts) for one in line.operands[1:]]
        return [self.expand(self.sum(operand, facts), facts)]


def prove(text: str) -> int:
    """Prove every access of a module's text; return how many are to the aperture.

    Raises:
        NotShown: for an access that is not proved to be safe.
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
