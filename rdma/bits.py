"""Represent sets of small numbers as the bits of an int, for fast union and intersection."""

from collections.abc import Iterator, Sequence
from typing import Final

_OFFSETS: Final = tuple(tuple(bit for bit in range(8) if byte >> bit & 1) for byte in range(1 << 8))


def numbers(bits: int) -> Iterator[int]:
    """Yield the numbers in the set ``bits``. Number n is in the set if bit n of ``bits`` is 1.

    A sparse set is read bit by bit, and its numbers are yielded in descending order. A dense set
    is read byte by byte, and its numbers are yielded in ascending order.
    """
    if bits.bit_count() * 32 < bits.bit_length():
        while bits:
            number = bits.bit_length() - 1
            yield number
            bits ^= 1 << number
        return
    for index, byte in enumerate(bits.to_bytes((bits.bit_length() + 7) // 8, "little")):
        if byte:
            for offset in _OFFSETS[byte]:
                yield index * 8 + offset


def from_numbers(those: Sequence[int]) -> int:
    """Return the set of these numbers as the bits of an int; there must be at least one number."""
    data = bytearray((max(those) >> 3) + 1)
    for number in those:
        data[number >> 3] |= 1 << (number & 7)
    return int.from_bytes(data, "little")
