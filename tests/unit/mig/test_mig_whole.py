"""A whole GPU in plans: one more profile, whose instance occupies every unit of the board."""

import pytest

from mig import planner, spec
from mig.errors import InUseError, PlanError
from mig.geometry import BOARDS, Board, Instance

EVERY_BOARD = pytest.mark.parametrize("board", BOARDS.values(), ids=str)


@EVERY_BOARD
def test_it_goes_for_slices_and_slices_go_for_it(board: Board) -> None:
    whole = Instance(board.whole, 0)
    small = board.profiles[0]
    divided = planner.diff(board, [whole], [small, small])
    assert (divided.keep, divided.destroy) == ((), (whole,))
    assert [one.profile for one in divided.create] == [small, small]
    back = planner.diff(board, divided.layout, [board.whole])
    assert back.destroy == divided.layout
    assert back.layout == (whole,)
    assert planner.diff(board, [whole], [board.whole]).is_empty


@EVERY_BOARD
def test_slices_in_use_are_not_destroyed_for_a_whole_gpu(board: Board) -> None:
    whole, slice_ = Instance(board.whole, 0), Instance(board.profiles[0], 0)
    with pytest.raises(InUseError, match="whole@0"):
        planner.diff(board, [whole], [board.profiles[0]], in_use=[whole])
    with pytest.raises(InUseError, match=str(slice_).replace("+", r"\+")):
        planner.diff(board, [slice_], [board.whole], in_use=[slice_])


@EVERY_BOARD
def test_nothing_is_beside_it(board: Board) -> None:
    whole = Instance(board.whole, 0)
    for profile in (*board.profiles, board.whole):
        with pytest.raises(PlanError, match="beside whole@0"):
            planner.plan(board, [whole], [profile])
        with pytest.raises(PlanError, match="even when empty"):
            planner.plan(board, [], [board.whole, profile])
        for start in profile.starts:
            assert planner.violations(board, [whole, Instance(profile, start)])
    assert planner.choose_preferred(board, [whole], [whole], [], 1) == (whole,)


def test_its_name_is_read_where_profiles_are() -> None:
    board = BOARDS["h100-80gb"]
    assert spec.parse_instances(board, "whole@0") == (Instance(board.whole, 0),)
    assert spec.parse_requests(board, "whole") == (board.device_profile("whole"),)


def test_the_mig_states_do_not_include_the_whole_gpu() -> None:
    board = BOARDS["h100-80gb"]
    assert planner.census(board).states == 723
    assert not any(i.profile.is_whole for state in planner.states(board) for i in state)
