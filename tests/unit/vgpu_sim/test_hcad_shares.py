"""Who may have how much of hcad's: halves of what is left, within what its container may use."""

from pathlib import Path

import pytest

from vgpu_sim.hcad.shares import OBJECT_BYTES, RING_BYTES, Shares, memory_limit

GIB = 1 << 30


def test_nobody_takes_the_last_of_anything() -> None:
    shares = Shares(1000, 1 << 20, 1 << 20)
    first, second = shares.share(), shares.share()
    for wanted in ((500, 0, 0), (0, 1 << 19, 0), (0, 0, 1 << 19)):
        first.take(*wanted)
        with pytest.raises(OSError, match="left for this function"):
            first.take(*(1 if one else 0 for one in wanted))
        second.take(*(one // 2 for one in wanted))


def test_what_goes_wrong_is_given_back() -> None:
    share = Shares(10).share()
    with pytest.raises(ZeroDivisionError), share.paying(1 << 20):
        raise ZeroDivisionError
    assert share._held == [0, 0, 0]


@pytest.mark.parametrize(
    ("limit", "rings", "objects"),
    [
        (None, RING_BYTES, OBJECT_BYTES),
        (512 << 20, 256 << 20, 128 << 20),
        (64 * GIB, RING_BYTES, OBJECT_BYTES),
    ],
)
def test_rings_and_objects_fit_into_the_container(
    limit: int | None, rings: int, objects: int
) -> None:
    share = Shares.within(1000, limit).share()
    assert [pool.total for pool in share._pools] == [1000, rings, objects]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"memory.max": "536870912\n"}, 512 << 20),
        ({"memory.max": "max\n"}, None),
        ({"memory/memory.limit_in_bytes": "536870912\n"}, 512 << 20),
        ({"memory/memory.limit_in_bytes": "9223372036854771712\n"}, None),
        ({}, None),
    ],
)
def test_the_container_s_limit_is_its_control_group_s(
    tmp_path: Path, files: dict[str, str], said: int | None
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert memory_limit(tmp_path) == said
