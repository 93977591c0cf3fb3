"""Names of boards that users type."""

import pytest

from boards.record.names import UnknownNameError, did_you_mean, resolve
from mig.errors import UnknownBoardError
from mig.geometry import board, find_board
from pytest_tessera.gpu import Request, RequestError
from vgpu_sim.perf import boards as perf_boards

KNOWN = ("h100-80gb", "h100-nvl", "h200", "rtx-pro-6000")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("h200", "h200"), ("H200", "h200"), ("rtx", "rtx-pro-6000"), ("RTX-Pro", "rtx-pro-6000")],
)
def test_one_board_is_meant(typed: str, meant: str) -> None:
    assert resolve("board", typed, KNOWN) == meant


@pytest.mark.parametrize(
    ("typed", "end"),
    [
        ("h100", "; did you mean h100-80gb or h100-nvl?"),
        ("h100-80", "; did you mean h100-80gb?"),
        ("h20", "; did you mean h200?"),  # a product of its own, and no abbreviation
        ("rtx-pro-60", "; did you mean rtx-pro-6000?"),
        ("h900", "; did you mean h200?"),
        ("", f" (known: {', '.join(KNOWN)})"),
        ("zzz", f" (known: {', '.join(KNOWN)})"),
    ],
)
def test_any_other_name_is_refused_with_what_could_be_meant(typed: str, end: str) -> None:
    with pytest.raises(UnknownNameError) as raised:
        resolve("board", typed, KNOWN)
    assert str(raised.value) == f"no board {typed!r}{end}"


def test_suggestions_are_joined_as_in_a_sentence() -> None:
    assert did_you_mean(["a", "b", "c"]) == "; did you mean a, b or c?"


def test_tests_that_request_gpus_name_boards_in_the_same_way() -> None:
    assert Request("RTX-Pro").device()[0].key == "rtx-pro-6000"
    with pytest.raises(RequestError, match="no board 'h100'; did you mean h100-80gb or h100-nvl"):
        Request("h100").device()


def test_boards_of_predictions_and_of_mig_are_found_alike() -> None:
    assert find_board("A30").key == perf_boards.find_board("A30").name == "a30"
    assert perf_boards.find_board("rtx").name == "rtx-pro-6000"


def test_objects_of_a_cluster_need_the_complete_key() -> None:
    with pytest.raises(UnknownBoardError, match="no board 'rtx-pro'; did you mean rtx-pro-6000"):
        board("rtx-pro")
