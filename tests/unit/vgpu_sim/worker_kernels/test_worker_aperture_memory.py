"""The interpreter's view of the aperture, compared with bytes: all widths, offsets and region
edges.
"""

import ctypes
from collections.abc import Sequence

import numpy as np
import pytest

from vgpu_sim.exec.errors import BadAddress
from vgpu_sim.worker.backends.aperture_memory import ApertureMemory
from vgpu_sim.worker.runtime.binding import Region

SIZE = 64
PATTERN = bytes((37 * place + 11) % 256 for place in range(3 * SIZE))
WIDTHS = (1, 2, 4, 8)


class Mapped:
    """``PATTERN`` in memory; its middle third is not mapped, and the first in two regions."""

    def __init__(self) -> None:
        self.bytes = (ctypes.c_uint8 * len(PATTERN)).from_buffer_copy(PATTERN)
        self.base = ctypes.addressof(self.bytes)
        parts = ((2 * SIZE, SIZE), (SIZE // 2, SIZE // 2), (0, SIZE // 2))  # in no order
        self.memory = ApertureMemory([Region(self.base + at, size) for at, size in parts])

    def at(self, places: Sequence[int]) -> np.ndarray:
        return np.array([(self.base + place) % 2**64 for place in places], dtype=np.uint64)

    def load(self, places: Sequence[int], width: int) -> list[int]:
        return self.memory.load(self.at(places), width).tolist()

    def store(self, places: Sequence[int], values: Sequence[int], width: int) -> None:
        self.memory.store(self.at(places), np.array(values, dtype=np.uint64), width)


def whole(width: int, step: int) -> list[int]:
    """Offsets of accesses in mapped memory, the second region's first."""
    first = range(0, SIZE - width + 1, step)
    return [*range(2 * SIZE, 3 * SIZE - width + 1, step), *first]


@pytest.mark.parametrize("step", [1, 8])
@pytest.mark.parametrize("width", WIDTHS)
def test_a_load_is_the_bytes_that_lie_there(width: int, step: int) -> None:
    """Zero-extended, little-endian, aligned or not, also where two regions touch."""
    places = whole(width, step)
    expected = [int.from_bytes(PATTERN[p : p + width], "little") for p in places]
    mapped = Mapped()
    assert mapped.load(places, width) == expected
    assert [mapped.load([place], width)[0] for place in places] == expected


@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("width", WIDTHS)
def test_a_store_changes_its_bytes_and_no_others(width: int, shift: int) -> None:
    """The low bytes of a value; misaligned where ``shift`` is not 0."""
    places = [2 * SIZE + shift, SIZE // 2 - 8 + shift, 8 + shift, SIZE // 2 - 1 + (1 - shift)]
    values = [0xF1F2_F3F4_F5F6_F7F8 + place for place in places]
    expected = bytearray(PATTERN)
    for place, value in zip(places, values, strict=True):
        expected[place : place + width] = value.to_bytes(8, "little")[:width]
    mapped = Mapped()
    mapped.store(places, values, width)
    assert bytes(mapped.bytes) == bytes(expected)


@pytest.mark.parametrize("place", [8, 9])
@pytest.mark.parametrize("width", WIDTHS)
def test_of_equal_addresses_the_last_one_wins(width: int, place: int) -> None:
    mapped = Mapped()
    mapped.store([place, 2 * SIZE, place], [1, 2, 3], width)
    assert mapped.load([place, 2 * SIZE], width) == [3, 2]


@pytest.mark.parametrize("width", WIDTHS)
def test_the_first_address_that_is_not_all_mapped_is_bad(width: int) -> None:
    """No value has been stored by then."""
    edges = (
        -1,
        -width,
        SIZE - width + 1,
        SIZE,
        2 * SIZE - 1,
        3 * SIZE - width + 1,
        3 * SIZE,
        2**63,
    )
    for bad in edges:
        mapped = Mapped()
        places = [0, 2 * SIZE, bad, 8, -8]
        with pytest.raises(BadAddress) as caught:
            mapped.load(places, width)
        assert caught.value.address == (mapped.base + bad) % 2**64
        with pytest.raises(BadAddress) as caught:
            mapped.store(places, [0] * len(places), width)
        assert caught.value.address == (mapped.base + bad) % 2**64
        assert bytes(mapped.bytes) == PATTERN


def test_where_nothing_is_mapped_every_address_is_bad() -> None:
    empty = ApertureMemory([])
    with pytest.raises(BadAddress) as caught:
        empty.load(np.array([4096, 8], dtype=np.uint64), 4)
    assert caught.value.address == 4096


def test_no_lanes_touch_nothing() -> None:
    nothing = np.array([], dtype=np.uint64)
    for memory in (ApertureMemory([]), Mapped().memory):
        assert memory.load(nothing, 4).tolist() == []
        memory.store(nothing, nothing, 4)
