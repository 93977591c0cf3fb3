"""Quotas for hcad's resources: a function holds at most what is then free, within the container."""

from pathlib import Path

import pytest

from hca.daemon.common.quotas import OBJECT_BYTES, RING_BYTES, Shares, memory_limit
from support.rigs.share_room import KINDS, most_of, room

GIB = 1 << 30


def amounts(kind: int, amount: int) -> tuple[int, int, int]:
    """Return an amount of one kind and none of the others."""
    wanted = [0, 0, 0]
    wanted[kind] = amount
    return wanted[0], wanted[1], wanted[2]


@pytest.mark.parametrize("kind", range(len(KINDS)), ids=KINDS)
@pytest.mark.parametrize(
    ("others", "own"),
    [(0, 0), (0, 499), (0, 500), (1, 0), (1, 499), (300, 99), (300, 350), (998, 1), (999, 0)],
)
def test_a_function_holds_no_more_than_what_is_then_free(kind: int, others: int, own: int) -> None:
    """In one step or several: exactly that much is granted, and one more is refused."""
    shares = Shares(*amounts(kind, 1000))
    share = shares.new_share()
    for _ in range(others):
        shares.new_share().charge(*amounts(kind, 1))
    share.charge(*amounts(kind, own))
    fair = (1000 - others) // 2
    assert most_of(share, kind) == fair - own
    with pytest.raises(OSError, match=f"no {KINDS[kind]} left for this function"):
        share.charge(*amounts(kind, fair - own + 1))
    for _ in range(fair - own):
        share.charge(*amounts(kind, 1))
    with pytest.raises(OSError, match=f"it has {fair}"):
        share.charge(*amounts(kind, 1))


@pytest.mark.parametrize("kind", range(len(KINDS)), ids=KINDS)
def test_what_is_refused_takes_nothing_and_what_is_given_back_can_be_had_again(kind: int) -> None:
    """This includes other kinds, of which there would have been enough."""
    shares = Shares(100, 100, 100)
    first, second = shares.new_share(), shares.new_share()
    wanted = [50, 50, 50]
    wanted[kind] = 51
    for _ in range(3):
        with pytest.raises(OSError, match=KINDS[kind]):
            first.charge(*wanted)
        assert room(first) == room(second) == (50, 50, 50)
    first.charge(50, 50, 50)
    assert room(first) == (0, 0, 0)
    assert room(second) == (25, 25, 25), "half of what is left"
    first.refund(50, 50, 50)
    assert room(first) == room(second) == (50, 50, 50)


def test_what_goes_wrong_is_given_back() -> None:
    share = Shares(10, 10, 10).new_share()
    with pytest.raises(ZeroDivisionError), share.charging(3):
        raise ZeroDivisionError
    assert room(share) == (5, 5, 5)
    with share.charging(3):
        assert room(share) == (5, 5, 2)
    assert room(share) == (5, 5, 2), "what is paid for stays taken"


def test_what_a_predecessor_has_given_is_taken_whatever_there_is() -> None:
    share = Shares(10, 10, 10).new_share()
    with share.suspending_limits():
        share.charge(9, 9, 9)
    assert room(share) == (0, 0, 0)
    with pytest.raises(OSError, match="left for this function"):
        share.charge(1)
    share.refund(9, 9, 9)
    assert room(share) == (5, 5, 5)


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
    """One function alone can have half of each."""
    share = Shares.for_memory_limit(1000, limit).new_share()
    assert room(share) == (500, rings // 2, objects // 2)


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
