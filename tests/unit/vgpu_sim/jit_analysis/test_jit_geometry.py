"""Lanes and threads of a block: every thread is one lane, and every other lane is known padding."""

import pytest

from vgpu_sim.exec.jit.shapes.geometry import Geometry, Padding, legal_geometries

BLOCKS = [
    (1, 1, 1),
    (100, 1, 1),
    (1, 256, 1),
    (25, 8, 1),
    (33, 7, 1),
    (24, 4, 2),
    (5, 3, 2),
    (1, 1, 37),
    (64, 2, 1),
]


def _threads(geometry: Geometry) -> list[tuple[int, int, int] | None]:
    """Return the thread of each slot by its axes; None for an axis computed at run time."""
    x, y, _ = geometry.padded
    found: list[tuple[int, int, int] | None] = []
    for group in range(geometry.groups):
        first = group * geometry.span
        bases = (first % x, first // x % y, first // (x * y))
        if geometry.padding is Padding.LINE:
            bases = (first, first, first)
        axes = geometry.axes()
        for part in range(geometry.vectors):
            for lane in range(geometry.width):
                place = []
                for axis, base in zip(axes, bases, strict=True):
                    if axis is not None:
                        known = 0 if axis.align is None else base
                        assert axis.align is None or known % axis.align == 0
                        place.append(known + axis.rows[part][lane])
                found.append((place[0], place[1], place[2]) if len(place) == 3 else None)
    return found


@pytest.mark.parametrize("block", BLOCKS)
def test_every_thread_is_a_lane(block: tuple[int, int, int]) -> None:
    all_threads = {
        (x, y, z) for x in range(block[0]) for y in range(block[1]) for z in range(block[2])
    }
    for geometry in legal_geometries(block):
        threads = _threads(geometry)
        assert len(threads) == geometry.slots == geometry.groups * geometry.span
        if None in threads:
            assert geometry.padding is Padding.LINE
            continue
        assert len(set(threads)) == len(threads)
        assert all_threads <= set(threads)
        assert geometry.lacks_lanes == (set(threads) > all_threads)


def test_each_group_has_a_thread_and_some_have_all() -> None:
    for block in BLOCKS:
        for geometry in legal_geometries(block):
            threads = [thread in range(geometry.threads) for thread in range(geometry.slots)]
            if geometry.padding is Padding.ROWS:
                x = geometry.padded[0]
                threads = [slot % x < block[0] for slot in range(geometry.slots)]
            groups = [threads[n : n + geometry.span] for n in range(0, len(threads), geometry.span)]
            assert all(any(group) for group in groups)
            assert geometry.always_lacks == (not any(all(group) for group in groups))


@pytest.mark.parametrize(
    ("block", "shapes"),
    [
        ((64, 1, 1), {(16, 4, Padding.NONE)}),
        ((100, 1, 1), {(16, 2, Padding.LINE), (16, 4, Padding.LINE), (4, 25, Padding.NONE)}),
        ((25, 8, 1), {(16, 2, Padding.ROWS), (16, 2, Padding.LINE)}),
        ((1, 256, 1), {(16, 16, Padding.LINE)}),
    ],
)
def test_blocks_that_do_not_nest_are_padded(
    block: tuple[int, int, int], shapes: set[tuple[int, int, Padding]]
) -> None:
    found = {(g.width, g.vectors, g.padding) for g in legal_geometries(block)}
    assert {shape for shape in shapes if shape[1] <= 16} <= found
    if block[0] % 16 == 0:
        assert not any(padding is Padding.ROWS for *_, padding in found)
