"""Which lanes of a group run: a vector per strip and a scalar, either of them absent if all ones.

Uniform branches touch only the scalar part, so nothing becomes a vector under uniform control.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from vgpu_sim.exec.jit.text import flags as folding
from vgpu_sim.exec.jit.text.writer import Text


@dataclass(frozen=True, slots=True)
class Mask:
    """Lanes that are set in ``vector[strip]`` if ``scalar`` is true. Names are LLVM i1 values."""

    vector: tuple[str, ...] | None = None
    scalar: str | None = None

    @property
    def full(self) -> bool:
        """Return all lanes, whatever happens."""
        return self.vector is None and self.scalar is None


FULL = Mask()


@dataclass(frozen=True, slots=True)
class Edge:
    """Lanes on their way from one block to another."""

    source: int
    target: int
    mask: Mask


class MaskWriter:
    """Operations on masks, written to ``text``."""

    def __init__(self, text: Text, strips: int) -> None:
        self._text = text
        self._strips = strips
        self._type = text.type_of("i1", vector=True)

    def flat(self, mask: Mask) -> tuple[str, ...]:
        """Return the mask as vectors alone."""
        vector = mask.vector
        if vector is None:
            scalar = "true" if mask.scalar is None else mask.scalar
            return (self._text.splat("i1", scalar),) * self._strips
        if mask.scalar is None:
            return vector
        spread = self._text.splat("i1", mask.scalar)
        return tuple(self.both(lanes, spread) for lanes in vector)

    def split(self, mask: Mask, flags: Sequence[str]) -> tuple[Mask, Mask]:
        """Return a mask's lanes that are set in ``flags`` (vectors), and the others."""
        flat = self.flat(mask)
        yes = tuple(self.both(lanes, own) for lanes, own in zip(flat, flags, strict=True))
        no = tuple(self.without(lanes, own) for lanes, own in zip(flat, flags, strict=True))
        return Mask(yes), Mask(no)

    def both(self, a: str, b: str) -> str:
        """Lanes in both vectors."""
        for one, other in ((self._known(a), b), (self._known(b), a)):
            if one is not None and len(set(one)) == 1:
                return other if one[0] else folding.written(one)
        return self._let("and", a, b)

    def either(self, a: str, b: str) -> str:
        """Lanes in one of two vectors."""
        for one, other in ((self._known(a), b), (self._known(b), a)):
            if one is not None and len(set(one)) == 1:
                return folding.written(one) if one[0] else other
        return self._let("or", a, b)

    def without(self, a: str, b: str) -> str:
        """Lanes of a that are not in b."""
        return self.both(a, self.inverse(b))

    def inverse(self, lanes: str) -> str:
        """Lanes that are not in a vector."""
        return self._let("xor", lanes, self._text.const(1, "i1", True))

    def _known(self, lanes: str) -> tuple[bool, ...] | None:
        return folding.known(lanes, self._text.width)

    def _let(self, operation: str, a: str, b: str) -> str:
        one, other = self._known(a), self._known(b)
        if one is None or other is None:
            return self._text.let(f"{operation} {self._type} {a}, {b}")
        function = {"and": bool.__and__, "or": bool.__or__, "xor": bool.__xor__}[operation]
        return folding.written([function(x, y) for x, y in zip(one, other, strict=True)])

    def narrow(self, mask: Mask, condition: str) -> Mask:
        """Return the mask where a scalar condition holds."""
        if mask.scalar is None:
            return Mask(mask.vector, condition)
        return Mask(mask.vector, self._text.let(f"and i1 {mask.scalar}, {condition}"))

    def union(self, masks: Sequence[Mask]) -> Mask:
        """Lanes in any of the masks."""
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
        for other in flats[1:]:
            lanes = tuple(self.either(a, b) for a, b in zip(lanes, other, strict=True))
        return Mask(lanes)

    def any_lane(self, lanes: str) -> str:
        """Return whether a strip's vector has a lane."""
        return self._reduce("or", lanes)

    def all_lanes(self, vectors: Sequence[str]) -> str:
        """Return whether all lanes of all strips are set."""
        joined = vectors[0]
        for lanes in vectors[1:]:
            joined = self.both(joined, lanes)
        return self._reduce("and", joined)

    def any(self, mask: Mask) -> str:
        """Return whether the mask has a lane."""
        if mask.vector is None:
            return "true" if mask.scalar is None else mask.scalar
        joined = mask.vector[0]
        for lanes in mask.vector[1:]:
            joined = self.either(joined, lanes)
        found = self.any_lane(joined)
        if mask.scalar is None or found == "false":
            return found
        return self._text.let(f"and i1 {mask.scalar}, {found}")

    def _reduce(self, operation: str, lanes: str) -> str:
        found = self._known(lanes)
        if found is not None:
            return "true" if (any(found) if operation == "or" else all(found)) else "false"
        name = f"llvm.vector.reduce.{operation}.v{self._text.width}i1"
        return self._text.call("i1", name, (self._type, lanes))
