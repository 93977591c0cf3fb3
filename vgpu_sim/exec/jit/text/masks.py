"""The active lanes of a group: a vector of flags per vector of lanes, and a scalar.

Either of them is absent if it is all ones. Uniform branches affect only the scalar, so that
uniform control flow produces no vectors.
"""

from collections.abc import Sequence

from vgpu_sim.exec.jit.text import flags as folding
from vgpu_sim.exec.jit.text.writer import Text
from vgpu_sim.records import dataclass


@dataclass(frozen=True, slots=True)
class Mask:
    """The lanes that are set in ``vector``, provided that ``scalar`` is true.

    ``vector`` has the name of an LLVM vector of i1 for each vector of lanes. ``scalar`` is the
    name of an i1. Either is None if it is all ones.
    """

    vector: tuple[str, ...] | None = None
    scalar: str | None = None

    @property
    def full(self) -> bool:
        """Return whether all lanes are active unconditionally."""
        return self.vector is None and self.scalar is None


FULL = Mask()


@dataclass(frozen=True, slots=True)
class Edge:
    """A control-flow edge between two basic blocks, and the mask of the lanes that take it."""

    source: int
    target: int
    mask: Mask


class MaskWriter:
    """Writes operations on masks to ``text``."""

    def __init__(self, text: Text, vectors: int) -> None:
        self._text = text
        self._vectors = vectors
        self._type = text.type_of("i1", vector=True)

    def flat(self, mask: Mask) -> tuple[str, ...]:
        """Return the mask as vectors of flags only, without a scalar."""
        vector = mask.vector
        if vector is None:
            scalar = "true" if mask.scalar is None else mask.scalar
            return (self._text.splat("i1", scalar),) * self._vectors
        if mask.scalar is None:
            return vector
        spread = self._text.splat("i1", mask.scalar)
        return tuple(self.lanes_in_both(lanes, spread) for lanes in vector)

    def split(self, mask: Mask, flags: Sequence[str]) -> tuple[Mask, Mask]:
        """Split a mask into the lanes that are set in ``flags`` (vectors), and the others."""
        flat = self.flat(mask)
        yes = tuple(self.lanes_in_both(lanes, own) for lanes, own in zip(flat, flags, strict=True))
        no = tuple(self.without(lanes, own) for lanes, own in zip(flat, flags, strict=True))
        return Mask(yes), Mask(no)

    def lanes_in_both(self, a: str, b: str) -> str:
        """Return the lanes that are set in both vectors of flags."""
        for flags, operand in ((self._constant_flags(a), b), (self._constant_flags(b), a)):
            if flags is not None and len(set(flags)) == 1:
                return operand if flags[0] else folding.format_constant(flags)
        return self._let("and", a, b)

    def lanes_in_either(self, a: str, b: str) -> str:
        """Return the lanes that are set in at least one of two vectors of flags."""
        for flags, operand in ((self._constant_flags(a), b), (self._constant_flags(b), a)):
            if flags is not None and len(set(flags)) == 1:
                return folding.format_constant(flags) if flags[0] else operand
        return self._let("or", a, b)

    def without(self, a: str, b: str) -> str:
        """Return the lanes that are set in ``a`` but not in ``b``."""
        return self.lanes_in_both(a, self.inverse(b))

    def inverse(self, lanes: str) -> str:
        """Return the lanes that are not set in a vector of flags."""
        return self._let("xor", lanes, self._text.const(1, "i1", True))

    def _constant_flags(self, lanes: str) -> tuple[bool, ...] | None:
        return folding.parse_constant(lanes, self._text.width)

    def _let(self, operation: str, a: str, b: str) -> str:
        a_flags, b_flags = self._constant_flags(a), self._constant_flags(b)
        if a_flags is None or b_flags is None:
            return self._text.let(f"{operation} {self._type} {a}, {b}")
        function = {"and": bool.__and__, "or": bool.__or__, "xor": bool.__xor__}[operation]
        return folding.format_constant(
            [function(x, y) for x, y in zip(a_flags, b_flags, strict=True)]
        )

    def narrow(self, mask: Mask, condition: str) -> Mask:
        """Return the lanes of ``mask`` if the scalar ``condition`` is true, else no lanes."""
        if mask.scalar is None:
            return Mask(mask.vector, condition)
        return Mask(mask.vector, self._text.let(f"and i1 {mask.scalar}, {condition}"))

    def union(self, masks: Sequence[Mask]) -> Mask:
        """Return the mask of the lanes that are set in any of the masks."""
        first = masks[0]
        if len(masks) == 1:
            return first
        if all(mask.vector == first.vector for mask in masks):
            scalars = [mask.scalar for mask in masks if mask.scalar is not None]
            if len(scalars) < len(masks):
                return Mask(first.vector)
            joined = scalars[0]
            for scalar in scalars[1:]:
                joined = self._text.let(f"or i1 {joined}, {scalar}")
            return Mask(first.vector, joined)
        flats = [self.flat(mask) for mask in masks]
        lanes = flats[0]
        for flat in flats[1:]:
            lanes = tuple(self.lanes_in_either(a, b) for a, b in zip(lanes, flat, strict=True))
        return Mask(lanes)

    def any_lane(self, lanes: str) -> str:
        """Return whether a vector of flags has a lane set."""
        return self._reduce("or", lanes)

    def all_lanes(self, vectors: Sequence[str]) -> str:
        """Return whether all lanes of all vectors are set."""
        joined = vectors[0]
        for lanes in vectors[1:]:
            joined = self.lanes_in_both(joined, lanes)
        return self._reduce("and", joined)

    def any(self, mask: Mask) -> str:
        """Return whether the mask has a lane set."""
        if mask.vector is None:
            return "true" if mask.scalar is None else mask.scalar
        joined = mask.vector[0]
        for lanes in mask.vector[1:]:
            joined = self.lanes_in_either(joined, lanes)
        flag = self.any_lane(joined)
        if mask.scalar is None or flag == "false":
            return flag
        return self._text.let(f"and i1 {mask.scalar}, {flag}")

    def _reduce(self, operation: str, lanes: str) -> str:
        flags = self._constant_flags(lanes)
        if flags is not None:
            return "true" if (any(flags) if operation == "or" else all(flags)) else "false"
        name = f"llvm.vector.reduce.{operation}.v{self._text.width}i1"
        return self._text.call("i1", name, (self._type, lanes))
