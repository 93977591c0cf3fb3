"""Parameters of administration requests: valid ones are parsed, others are refused by name."""

from typing import Any

import pytest

from vgpu_sim.gpud.admin import parameters
from vgpu_sim.gpud.model import Gpu, Holder
from vgpu_sim.system.admin_socket.errors import InvalidRequest
from vgpu_sim.system.admin_socket.parameters import fields

GPU = "GPU-11111111-1111-4111-8111-111111111111"
SLICE = "MIG-11111111-1111-4111-8111-111111111111"
POD = "11111111-1111-4111-8111-111111111111"
KINDS = {"name": str, "start": int, "admit": bool}
GIVEN = {"name": "x", "start": 1, "admit": True}
ENTRY = {"uuid": GPU, "index": 3, "board": "a30"}
HOLDER = {"pod_uid": POD, "namespace": "team", "name": "train-0"}


def test_exactly_the_requested_fields_are_read() -> None:
    assert fields(GIVEN, KINDS) == GIVEN
    assert fields({}, {}) == {}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"start": 1}, r"missing \['admit', 'name'\], unknown \[\]"),
        (GIVEN | {"more": 1}, r"missing \[\], unknown \['more'\]"),
        (GIVEN | {"name": 1}, "'name' is not of type str"),
        (GIVEN | {"start": True}, "'start' is not of type int"),
        (GIVEN | {"admit": 1}, "'admit' is not of type bool"),
        (GIVEN | {"start": None}, "'start' is not of type int"),
    ],
)
def test_what_is_missing_unknown_or_of_another_type_is_named(
    given: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidRequest, match=words):
        fields(given, KINDS)


def test_gpus_are_read() -> None:
    assert parameters.gpus([ENTRY]) == [Gpu(parameters.parse_gpu_uuid(GPU), 3, "a30")]


@pytest.mark.parametrize(
    "entry",
    [
        1,
        ENTRY | {"uuid": SLICE},
        ENTRY | {"uuid": f"{GPU}\n"},
        ENTRY | {"uuid": GPU.replace("1", "A")},
        ENTRY | {"board": "h1000"},
        ENTRY | {"index": "3"},
    ],
)
def test_a_gpu_that_is_none_is_refused(entry: object) -> None:
    with pytest.raises(InvalidRequest):
        parameters.gpus([entry])


@pytest.mark.parametrize("value", [0, 1, 2**50])
def test_a_budget_in_range_is_read(value: int) -> None:
    assert parameters.budget_bytes(value) == value


@pytest.mark.parametrize("value", [-1, 2**50 + 1])
def test_a_budget_out_of_range_is_refused(value: int) -> None:
    with pytest.raises(InvalidRequest, match="budget_bytes must be 0 to"):
        parameters.budget_bytes(value)


def test_holders_are_read() -> None:
    many = [HOLDER] * 64
    read = parameters.holders({SLICE: many})
    assert read == {SLICE: [Holder(POD, "team", "train-0")] * 64}  # type: ignore[arg-type]
    assert parameters.holders({GPU: [HOLDER]}).keys() == {GPU}  # a whole one
    longest = HOLDER | {"name": "a" * 253}
    assert len(parameters.holders({SLICE: [longest]})) == 1
    claims = [f"claim:{POD}", f"claim:{SLICE[4:].replace('1', '2')}"]
    (one,) = parameters.holders({SLICE: [HOLDER | {"claims": claims}]})[SLICE]  # type: ignore[index]
    assert one.claims == tuple(claims)


@pytest.mark.parametrize(
    "document",
    [
        {SLICE: {}},
        {SLICE: [HOLDER] * (parameters.MAX_HOLDERS + 1)},
        {SLICE: [1]},
        {f"HCA-{SLICE[4:]}": [HOLDER]},
        {SLICE: [HOLDER | {"pod_uid": "../etc"}]},
        {SLICE: [HOLDER | {"name": "a" * 254}]},
        {SLICE: [HOLDER | {"name": "Train"}]},
        {SLICE: [HOLDER | {"namespace": "-"}]},
        {SLICE: [HOLDER | {"namespace": ""}]},
        {SLICE: [HOLDER | {"claims": "claim:x"}]},
        {SLICE: [HOLDER | {"claims": [""]}]},
        {SLICE: [HOLDER | {"claims": [1]}]},
        {SLICE: [HOLDER | {"claims": [f"claim:{POD}"] * (parameters.MAX_CLAIMS + 1)}]},
    ],
)
def test_holders_that_are_none_are_refused(document: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        parameters.holders(document)


CLAIM = "claim:33333333-3333-4333-8333-333333333333"


def test_what_an_instance_is_made_for_is_a_claim_or_nothing() -> None:
    assert parameters.parse_owner({}) == ("", "")
    assert parameters.parse_owner({"owner": CLAIM, "owner_name": "team/x.y"}) == (CLAIM, "team/x.y")


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (CLAIM, ""),
        ("", "team/job"),
        ("claim:1", "team/job"),
        (f"{CLAIM}/..", "team/job"),
        (CLAIM.upper(), "team/job"),
        (CLAIM, "job"),
        (CLAIM, "../job"),
        (CLAIM, "team/job/x"),
        (CLAIM, "team/Job"),
        (CLAIM, 1),
        (None, ""),
    ],
)
def test_an_owner_that_is_no_claim_is_refused(owner: object, name: object) -> None:
    with pytest.raises(InvalidRequest):
        parameters.parse_owner({"owner": owner, "owner_name": name})
