"""The modelled clock: order of streams, copy engines, and launches that share the chip."""

import pytest

from vgpu_sim.perf.kernels import chip_of
from vgpu_sim.perf.kernels.copies import Way, copy_us
from vgpu_sim.perf.kernels.timeline import Timeline


def test_a_stream_runs_one_after_the_other() -> None:
    clock = Timeline()
    first = clock.launch(0, 1, [], 100, 0.1)
    second = clock.launch(0, 2, [], 50, 0.1)
    assert second.start == first.end
    assert clock.mark(0, 3, []) == second.end


def test_small_launches_of_two_streams_overlap_and_large_ones_do_not() -> None:
    clock = Timeline()
    small = [clock.launch(stream, 1, [], 100, 0.5) for stream in (1, 2)]
    assert small[1].start < small[0].end
    third = clock.launch(3, 1, [], 100, 0.5)
    assert third.start == pytest.approx(min(one.end for one in small))
    whole = clock.launch(4, 1, [], 10, 1.0)
    assert whole.start >= third.end


def test_launches_never_take_more_than_the_chip() -> None:
    clock = Timeline()
    shares = (0.3, 0.9, 0.2, 0.5, 0.1, 0.6, 0.4)
    spans = [clock.launch(s, 1, [], 20 + 7 * s, share) for s, share in enumerate(shares)]
    for at in (one.start for one in spans):
        assert sum(one.share for one in spans if one.start <= at < one.end) <= 1.0 + 1e-6


def test_a_copy_each_way_overlaps_a_launch_and_two_the_same_way_do_not() -> None:
    clock = Timeline()
    launch = clock.launch(1, 1, [], 100, 1.0)
    into = clock.copy(2, 1, [], 50, "in")
    out = clock.copy(3, 1, [], 50, "out")
    more = clock.copy(4, 1, [], 50, "in")
    assert into.start < launch.end
    assert out.start < into.end
    assert more.start == into.end


def test_a_wait_is_for_a_value_not_for_the_whole_stream() -> None:
    clock = Timeline()
    first = clock.launch(1, 1, [], 100, 0.1)
    clock.launch(1, 2, [], 500, 0.1)
    waiting = clock.launch(2, 1, [(1, 1)], 10, 0.1)
    assert waiting.start == first.end


def test_short_launches_are_bound_by_the_host() -> None:
    clock = Timeline()
    begin = clock.mark(0, 1, [])
    for value in range(2, 102):
        clock.launch(0, value, [], 0.5, 0.1)
    assert clock.mark(0, 102, []) - begin == pytest.approx(200, rel=0.05)
    assert clock.gaps_us == pytest.approx(99 * 1.5, rel=0.05)


def test_a_long_history_stays_small_and_right() -> None:
    clock = Timeline()
    for value in range(1, 5000):
        end = clock.launch(0, value, [], 10, 1.0).end
    assert clock.span_us == pytest.approx(4999 * 10)
    assert clock.launch(1, 1, [(0, 1)], 1, 0.1).start <= end


def test_copies_take_what_the_data_sheet_allows() -> None:
    chip, size = chip_of("h100-80gb"), 1 << 30
    assert copy_us(chip, Way.H2D, size) > size / 64e3
    assert copy_us(chip, Way.H2D, size, pageable=True) > 1.9 * copy_us(chip, Way.H2D, size)
    assert copy_us(chip, Way.D2D, size) > 2 * size / 3350e3
    assert copy_us(chip, Way.P2P, size) < copy_us(chip, Way.H2D, size)
