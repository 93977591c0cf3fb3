"""The notation: round trips, and errors that name the position and the remedy."""

import contextlib
import re

import pytest
from hypothesis import given, strategies as st

from mig import geometry, spec
from mig.errors import SpecError
from mig.geometry import BOARDS, Instance

H100 = geometry.board("h100-80gb")

boards = st.sampled_from(list(BOARDS.values()))
profile_lists = boards.flatmap(
    lambda board: st.tuples(
        st.just(board), st.lists(st.sampled_from(board.device_profiles), max_size=12)
    )
)
instance_lists = boards.flatmap(
    lambda board: st.tuples(
        st.just(board),
        st.lists(
            st.sampled_from([Instance(p, s) for p in board.profiles for s in p.starts]), max_size=8
        ),
    )
)


@given(profile_lists)
def test_requests_round_trip(case):
    board, profiles = case
    assert spec.parse_requests(board, spec.format_requests(profiles)) == tuple(profiles)


@given(instance_lists)
def test_instances_round_trip(case):
    board, instances = case
    assert spec.parse_instances(board, spec.format_instances(instances)) == tuple(instances)
    for instance in instances:
        assert spec.parse_instance(board, spec.format_instance(instance)) == instance


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text):
    for parse in (spec.parse_requests, spec.parse_instances):
        with contextlib.suppress(SpecError):  # any other exception fails the test
            parse(H100, text)


def test_requests_keep_their_order():
    names = [p.name for p in spec.parse_requests(H100, "2x2g.20gb,1g.10gb,2g.20gb")]
    assert names == ["2g.20gb", "2g.20gb", "1g.10gb", "2g.20gb"]


def test_aliases_and_kubernetes_spelling_are_read():
    a100 = geometry.board("a100-80gb")
    assert spec.parse_requests(a100, "7g.79gb") == (a100.device_profile("7g.80gb"),)
    assert spec.parse_instance(H100, "1g.10gb.me@3") == Instance(H100.profile("1g.10gb+me"), 3)


def test_an_older_driver_s_name_of_the_whole_board_is_read():
    """Manifests written for an A100 use this name on any board."""
    assert spec.parse_instance(H100, "7g.79gb@0") == spec.parse_instance(H100, "7g.80gb@0")
    assert spec.format_instances(spec.parse_instances(H100, "7g.79gb@0")) == "7g.80gb@0"


def test_places_are_read_back_without_a_board():
    places = (spec.Place("1c.3g.40gb", 4, 1), spec.Place("1g.10gb+me", 0))
    assert spec.parse_places(spec.format_places(places)) == places
    assert spec.parse_places("") == ()


@pytest.mark.parametrize("text", ["nonsense", "1g.10gb", "2x1g.10gb@0", "1g.10gb@-1", "1g.10gb@0,"])
def test_an_invalid_place_is_refused_with_its_position(text):
    with pytest.raises(SpecError, match=r"item [12]: cannot read '.*'; write 3g.40gb@4"):
        spec.parse_places(text)


def test_no_text_is_no_slices():
    assert spec.parse_requests(H100, "") == ()
    assert spec.parse_instances(H100, "") == ()


LEGAL = "legal profiles: 1g.10gb, 1g.10gb+me, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb"
FORM = "write a profile such as 2g.20gb, a count 2x2g.20gb or a placed instance 3g.40gb@4"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1g.5gb", f"item 1: board h100-80gb has no profile '1g.5gb'; {LEGAL}"),
        ("1g.10gb,,1g.10gb", f"item 2: cannot read ''; {FORM}"),
        ("1g.10gb,", f"item 2: cannot read ''; {FORM}"),
        ("1g.10gb, 2g.20gb", f"item 2: cannot read ' 2g.20gb'; {FORM}"),
        ("0x1g.10gb", "item 1: count 0; write a count from 1 to 64"),
        ("65x1g.10gb", "item 1: count 65; write a count from 1 to 64"),
        ("999999999x1g.10gb", "item 1: count 999999999; write a count from 1 to 64"),
        ("-1x1g.10gb", f"item 1: board h100-80gb has no profile '-1x1g.10gb'; {LEGAL}"),
        (
            "3g.40gb@4",
            "item 1: '3g.40gb@4' names a placement; request 3g.40gb and let the planner place it",
        ),
        ("64x1g.10gb,1g.10gb", "item 2: more than 64 slices wanted; request fewer"),
        ("1g.10gb," * 600, "text: 4800 characters; at most 4096 are read"),
        ("1" * 50, f"item 1: board h100-80gb has no profile '{'1' * 40}'...; {LEGAL}"),
    ],
)
def test_requests_that_cannot_be_read(text, message):
    with pytest.raises(SpecError, match=f"^{re.escape(message)}$"):
        spec.parse_requests(H100, text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("3g.40gb", "item 1: '3g.40gb' has no start; write 3g.40gb@START"),
        (
            "3g.40gb@99999",
            "item 1: 3g.40gb cannot start at 99999; legal starts on h100-80gb: 0, 4",
        ),
        (
            "1g.10gb@0,3g.40gb@2",
            "item 2: 3g.40gb cannot start at 2; legal starts on h100-80gb: 0, 4",
        ),
        (
            "2x3g.40gb@4",
            "item 1: '2x3g.40gb@4' has a count and a start; list placed instances one by one",
        ),
        ("3g.40gb@", f"item 1: cannot read '3g.40gb@'; {FORM}"),
        ("3g.40gb@-4", f"item 1: cannot read '3g.40gb@-4'; {FORM}"),
        ("3g.40gb@٤", f"item 1: cannot read '3g.40gb@٤'; {FORM}"),
        ("3g.40gb@4@4", f"item 1: cannot read '3g.40gb@4@4'; {FORM}"),
    ],
)
def test_instances_that_cannot_be_read(text, message):
    with pytest.raises(SpecError, match=f"^{re.escape(message)}$"):
        spec.parse_instances(H100, text)
