"""The allocations that a client reports: what launches may access, by chunk and allocation."""

import random
from unittest.mock import patch

from vgpu_sim.worker.modelling import allocations
from vgpu_sim.worker.modelling.allocations import Allocations

_CHUNKS = [(1 << 21, 2 << 21), (4 << 21, 6 << 21), (8 << 21, 9 << 21)]


def test_a_chunk_is_its_allocations_or_whole_if_none_is_known() -> None:
    reported = Allocations(lambda: _CHUNKS)
    assert reported.extents() == _CHUNKS
    first, second = (1 << 21) + 1024, (1 << 21)
    reported.record(first, 100)
    reported.record(second, 512)
    whole = _CHUNKS[1:]
    assert reported.extents() == [(second, second + 512), (first, first + 128), *whole]
    reported.record(first, 64)
    assert reported.extents() == [(second, second + 512), (first, first + 64), *whole]
    reported.record(first, 0)
    reported.record(second, 0)
    reported.record(second, 0)
    assert reported.extents() == _CHUNKS


def test_no_report_leads_beyond_a_chunk() -> None:
    reported = Allocations(lambda: _CHUNKS)
    draws = random.Random(3)
    for _ in range(200):
        reported.record(draws.randrange(10 << 21), draws.choice([0, 1, 700, 1 << 20, 1 << 63]))
    extents = reported.extents()
    assert all(any(a <= begin < end <= b for a, b in _CHUNKS) for begin, end in extents)
    assert [begin for begin, _ in extents] == sorted(begin for begin, _ in extents)


def test_the_number_of_allocations_is_bounded() -> None:
    reported = Allocations(lambda: [(0, 1 << 20)])
    with patch.object(allocations, "MOST_ALLOCATIONS", 4):
        for number in range(10):
            reported.record(512 * number, 512)
        reported.record(0, 32)
    assert reported.extents() == [(0, 32), *((512 * n, 512 * n + 512) for n in range(1, 4))]
