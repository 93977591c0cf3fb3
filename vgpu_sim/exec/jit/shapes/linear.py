"""Lanes as linear sums of shared values, with known factors per lane.

In a tile that threads fill in linear order, row and column change at any lane of a vector: ``top
+ i / 34`` and ``left + i % 34``. If i is known, ``row * width + column`` is the sum of ``width``
times a known integer per lane, a shared value, and another known integer per lane. This
determines which lanes have contiguous addresses (those with equal factors and consecutive known
integers), and the address of the first of them is computed as a scalar. All integers are modulo
2^bits.
"""

from collections.abc import Iterator

from vgpu_sim.exec.jit.ir.ssa import Value
from vgpu_sim.records import dataclass

Lanes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Base:
    """The base of a value (see ``Affine``), which all lanes share."""

    value: Value

    @property
    def bits(self) -> int:
        return self.value.bits


@dataclass(frozen=True, slots=True)
class Product:
    """The product of two shared values, modulo 2^bits."""

    a: "Shared"
    b: "Shared"

    @property
    def bits(self) -> int:
        return self.a.bits


@dataclass(frozen=True, slots=True)
class Extended:
    """A 32-bit value that all lanes share, extended to 64 bits."""

    narrow: "Shared"
    is_signed: bool

    @property
    def bits(self) -> int:
        return 64


Shared = Base | Product | Extended


@dataclass(frozen=True, slots=True)
class Linear:
    """The lanes of a value, each as a sum of values that all lanes share.

    ``terms`` has each shared value with its factors, one per lane. ``own`` has the constant term
    of each lane. Lanes are ordered by vector; integers are signed.
    """

    bits: int
    terms: tuple[tuple[Shared, Lanes], ...]
    own: Lanes

    @property
    def alike(self) -> bool:
        """Return whether the distances between lanes are known."""
        return all(len(set(factors)) == 1 for _, factors in self.terms)

    def values_shared(self) -> Iterator[Value]:
        """Yield the values whose bases occur in the sum."""
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
