"""Numbers of lanes as sums of what the lanes share, each times a number that is known per lane.

Row and column of a tile that threads fill in linear order change anywhere in a strip: ``top + i /
34`` and ``left + i % 34``. With i known, ``row * width + column`` is ``width`` times a known
number, and a sum of what all lanes share, and a known number. So it is known which lanes address
neighbours (those with equal factors whose known numbers follow each other), and the address of the
first of them is computed as a scalar. All modulo 2^bits.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from vgpu_sim.exec.jit.ir.ssa import Value

Lanes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Base:
    """What all lanes have of a value: its base (``Affine``)."""

    value: Value

    @property
    def bits(self) -> int:
        return self.value.bits


@dataclass(frozen=True, slots=True)
class Product:
    """The product of two of these, modulo 2^bits."""

    a: "Shared"
    b: "Shared"

    @property
    def bits(self) -> int:
        return self.a.bits


@dataclass(frozen=True, slots=True)
class Extended:
    """One of 32 bits, extended to 64."""

    narrow: "Shared"
    is_signed: bool

    @property
    def bits(self) -> int:
        return 64


Shared = Base | Product | Extended


@dataclass(frozen=True, slots=True)
class Linear:
    """``terms``: what is shared, and its factor for each lane; ``own``: the known number of each.

    Lanes in the order of strips; numbers are signed.
    """

    bits: int
    terms: tuple[tuple[Shared, Lanes], ...]
    own: Lanes

    @property
    def alike(self) -> bool:
        """Return whether lanes lie at known distances from each other."""
        return all(len(set(factors)) == 1 for _, factors in self.terms)

    def values_shared(self) -> Iterator[Value]:
        """Yield the values whose bases are read."""
        pending = [shared for shared, _ in self.terms]
        while pending:
            shared = pending.pop()
            match shared:
                case Base(value):
                    yield value
                case Product(a, b):
                    pending += [a, b]
                case Extended(narrow, _):
                    pending.append(narrow)
