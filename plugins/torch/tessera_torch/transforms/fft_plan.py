"""How a Fourier transform of a length is computed; no torch here."""

from typing import Final

_COMBINED: Final = (8, 4)  # fewer stages than with twos
_LARGEST: Final = 61  # a stage costs its radix for each number


def stages(length: int) -> list[int] | None:
    """Return radices whose product is the length; None if a prime factor is too large."""
    rest, found = length, []
    for radix in _COMBINED:
        while rest % radix == 0:
            found.append(radix)
            rest //= radix
    factor = 2
    while factor * factor <= rest:
        while rest % factor == 0:
            found.append(factor)
            rest //= factor
        factor += 1
    if rest > 1:
        found.append(rest)
    return None if max(found, default=1) > _LARGEST else found


def padded_length(length: int) -> int:
    """Return the power of two in which a convolution of Bluestein's algorithm fits."""
    return 1 << (2 * length - 2).bit_length()
