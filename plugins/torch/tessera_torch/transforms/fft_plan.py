"""How a Fourier transform of a length is computed; no torch here."""

from typing import Final

_COMBINED: Final = (8, 4)  # fewer stages than with twos
_LARGEST: Final = 61  # a stage costs its radix for each number


def stages(length: int) -> list[int] | None:
    """Return radices whose product is the length; None if a prime factor is too large."""
    cofactor, radices = length, []
    for radix in _COMBINED:
        while cofactor % radix == 0:
            radices.append(radix)
            cofactor //= radix
    factor = 2
    while factor * factor <= cofactor:
        while cofactor % factor == 0:
            radices.append(factor)
            cofactor //= factor
        factor += 1
    if cofactor > 1:
        radices.append(cofactor)
    return None if max(radices, default=1) > _LARGEST else radices


def padded_length(length: int) -> int:
    """Return the power of two in which a convolution of Bluestein's algorithm fits."""
    return 1 << (2 * length - 2).bit_length()
