"""Why a claim waits: what is full, and who has it."""

from typing import Any

import pytest

from gpu_operator.api.v1alpha1 import quantity
from gpu_operator.api.v1alpha1.gpupool import Allocation
from gpu_operator.api.v1alpha1.resource import Gpu
from gpu_operator.controllers.claims import reading
from gpu_operator.controllers.claims.reading import Claim
from gpu_operator.controllers.claims.room import Seats
from gpu_operator.controllers.claims.selectors import Facts
from gpu_operator.controllers.claims.verdict import Judge
from gpu_operator.controllers.claims.wanting import wish
from gpu_operator.controllers.common.world import World
from mig import geometry
from support.worlds.gpu_world import claimed, mig_slice, node, world
from support.worlds.waiting_claims import (
    CLASS_DOCUMENTS,
    CLASSES,
    THREE,
    claim_document,
    class_document,
    exactly,
    offered,
)


def nodes(*gpus: Gpu, **facts: Any) -> World:
    names = sorted({gpu.spec.node_name for gpu in gpus})
    return world(*(node(name, **facts) for name in names), *gpus)


def read(*args: Any, **facts: Any) -> Claim:
    found = reading.claim(claim_document(*args, **facts))
    assert found is not None
    return found


def said(seen: World, wanting: Claim, *others: Claim, **theirs: Facts) -> tuple[str, str]:
    wanted = wish(wanting, CLASSES | theirs)
    assert wanted is not None
    verdict = Judge(Seats().of(seen, (wanting, *others))).verdict(wanted)
    return verdict.reason.value, verdict.message


def test_layouts_claims_and_pods_that_have_the_gpus_are_named() -> None:
    whole = ["3g.40gb@0", "3g.40gb@4"]
    divided = [
        offered(
            "a",
            index,
            Allocation.BOTH,
            layout="halves",
            want=whole,
            have=[mig_slice(whole[0], "default/train"), mig_slice(whole[1])],
        )
        for index in range(2)
    ]
    full = offered("b", claims=[claimed("3g.40gb@0", "x"), claimed("3g.40gb@4", "y")])
    given = read("z", held=("b/gpu-1",))
    assert said(nodes(*divided, full, offered("b", 1)), read("want"), given) == (
        "ClaimNoRoom",
        "request gpu: no 3g.40gb left: of 4 GPUs 2 hold layouts, 2 are held by claims;"
        " layouts: halves; claims: team/x, team/y, team/z; pods of the plugin: default/train",
    )


def test_of_many_that_have_the_gpus_those_with_the_most_are_named() -> None:
    every = [offered("n", index) for index in range(6)]
    two = read("two", held=("n/gpu-0", "n/gpu-1"))
    ones = [read(f"one-{index}", held=(f"n/gpu-{index}",)) for index in range(2, 6)]
    _, message = said(nodes(*every), read("want", exactly("gpu.tessera.dev")), two, *ones)
    assert message == (
        "request gpu: no whole GPU left: of 6 GPUs 6 are held by claims;"
        " claims: team/two, team/one-2, team/one-3 and 2 more"
    )


def test_what_is_not_offered_or_not_in_service_is_told_apart() -> None:
    gpus = (
        offered("a", 0, Allocation.DEVICE_PLUGIN),
        offered("a", 1, board="a30"),
        offered("a", 2, health="Unhealthy: Xid 79"),
    )
    assert said(nodes(*gpus), read("want")) == (
        "ClaimNoRoom",
        "request gpu: no 3g.40gb left: of 3 GPUs 1 is given to pods by the device plugin alone,"
        " 1 is of boards without it, 1 is out of service",
    )
    reason, message = said(nodes(*gpus[:2]), read("want"))
    assert reason == "ClaimNotOffered"
    assert message == (
        "request gpu: no GPU offers 3g.40gb to claims: of 2 GPUs 1 is given to pods by the device"
        " plugin alone, 1 is of boards without it"
    )
    assert said(nodes(), read("want"))[1].endswith(
        "no GPU offers 3g.40gb to claims: of 0 GPUs none"
    )
    _, lost = said(nodes(offered("a"), ready=False), read("want"))
    assert lost.endswith("of 1 GPU 1 is out of service")


def test_devices_of_one_request_are_on_one_node() -> None:
    gpus = (offered("a"), offered("b"), offered("b", 1))
    given = read("x", held=("a/gpu-0-mig-3g40gb-0", "b/gpu-0"))
    reason, message = said(nodes(*gpus), read("want", exactly(THREE, count=3)), given)
    assert reason == "ClaimNoRoom"
    assert message == (
        "request gpu: no node has 3 x 3g.40gb left (the most is 2 on b): of 3 GPUs"
        " 2 have room for fewer, 1 is held by claims; claims: team/x"
    )


def test_room_that_is_there_is_told_with_what_was_not_asked() -> None:
    wanting = read("want", exactly(THREE, "large"), exactly("mig.tessera.dev", "any"))
    given = read("x", held=("a/gpu-0-mig-3g40gb-0",))
    reason, message = said(nodes(offered("a"), offered("b")), wanting, given)
    assert reason == "ClaimUnmatched"
    assert "(large: 3g.40gb, 2 on b, 1 on a; any: MIG device, 7 on b," in message


def on_one_gpu(*requests: dict[str, Any], **constraint: Any) -> Claim:
    document = claim_document("want", *requests)
    wanted = {"matchAttribute": "gpu.tessera.dev/parentUUID", **constraint}
    document["spec"]["devices"]["constraints"] = [wanted]
    found = reading.claim(document)
    assert found is not None
    return found


def test_devices_that_are_to_be_on_one_gpu_are_judged_together() -> None:
    small = exactly("mig-1g.10gb.tessera.dev", "small", count=2)
    wanting = on_one_gpu(exactly(THREE, "large"), small)
    half = offered("a", claims=[claimed("4g.40gb@0", "x")])
    room = offered("a", 1, claims=[claimed("3g.40gb@4", "y"), claimed("3g.40gb@0", "z")])
    other = offered("a", 2, Allocation.BOTH, layout="l", want=["4g.40gb@0", "3g.40gb@4"])
    one = offered("a", 3, claims=[claimed("2g.20gb@0", "u"), claimed("3g.40gb@4", "v")])
    assert said(nodes(half, room, other, one), wanting) == (
        "ClaimNoRoom",
        "no GPU has 1 x 3g.40gb, 2 x 1g.10gb left together: of 4 GPUs 1 holds layouts,"
        " 3 are held by claims; layouts: l; claims: team/u, team/v, team/x and 2 more",
    )
    assert said(nodes(half, offered("b")), wanting)[0] == "ClaimUnmatched"
    apart = on_one_gpu(exactly(THREE, "large"), small, requests=["large"])
    assert said(nodes(half, one), apart)[0] == "ClaimUnmatched"
    whole = on_one_gpu(
        exactly("mig-4g.40gb.tessera.dev", "a"), exactly("mig-4g.40gb.tessera.dev", "b")
    )
    assert said(nodes(offered("b")), whole)[1].endswith("left together: of 1 GPU 1 is empty")


@pytest.mark.parametrize("count", [17, 2**62])
def test_what_no_gpu_can_have_costs_no_search(count: int) -> None:
    many = on_one_gpu(exactly("mig-1g.10gb.tessera.dev", "a", count=count), exactly(THREE, "b"))
    reason, message = said(nodes(offered("a")), many)
    assert reason == "ClaimNoRoom"
    assert f"no node has {count} x 1g.10gb left (the most is 7 on a)" in message
    spread = [exactly("mig-1g.10gb.tessera.dev", f"r{n}", count=7) for n in range(3)]
    message = said(nodes(offered("a")), on_one_gpu(*spread))[1]
    assert message.startswith("no GPU has 21 x 1g.10gb left together")


def test_a_class_of_no_board_is_said_to_be_that() -> None:
    theirs = reading.device_class(
        class_document("x", 'device.attributes["gpu.tessera.dev"].profile == "9g.999gb"')
    )
    wanting = read("want", exactly("huge"))
    assert said(nodes(offered("a")), wanting, huge=theirs) == (
        "ClaimNotOffered",
        "request gpu: no GPU offers 9g.999gb to claims: no board has it",
    )


def test_an_alternative_that_fits_is_enough() -> None:
    small = {"deviceClassName": "mig-1g.10gb.tessera.dev"}
    either = {"name": "gpu", "firstAvailable": [{"deviceClassName": THREE}, small]}
    layouts = offered("a", layout="l", allocation=Allocation.BOTH, want=["4g.40gb@0", "2g.20gb@4"])
    assert said(nodes(layouts), read("want", either))[0] == "ClaimUnmatched"
    full = offered("a", layout="l", allocation=Allocation.BOTH, want=["7g.80gb@0"])
    reason, message = said(nodes(full), read("want", either))
    assert reason == "ClaimNoRoom"
    assert message.endswith("1 holds layouts; layouts: l; no alternative")


def test_room_follows_the_planner_and_each_gpu_is_read_once() -> None:
    seats = Seats()
    gpu = offered("a", claims=[claimed("1g.10gb@0")])
    seen = nodes(gpu)
    (seat,) = seats.of(seen, ())
    assert [seat.room(f"mig-{one}") for one in ("1g.10gb", "3g.40gb", "4g.40gb", "7g.80gb")] == [
        6,
        1,
        0,
        0,
    ]
    assert seat.room("gpu") == 0
    assert seats.of(seen, ())[0] is seat
    (beside,) = seats.of(seen, (read("x", held=("a/gpu-0-mig-3g40gb-4", "a/tpu-7")),))
    assert beside.room("mig-3g.40gb") == 0
    assert beside.claims == {"team/job", "team/x"}


@pytest.mark.parametrize(
    "request_",
    [
        exactly("gpu.example.com"),
        exactly("gpu.tessera.dev", adminAccess=True),
        {"name": "gpu", "firstAvailable": [{"deviceClassName": c} for c in (THREE, "cpu.dra")]},
    ],
)
def test_requests_that_others_may_serve_or_that_take_nothing_are_not_judged(
    request_: dict[str, Any],
) -> None:
    found = reading.claim(claim_document("want", request_))
    assert found is None or wish(found, CLASSES | {"gpu.example.com": Facts()}) is None


def test_claims_that_are_going_or_not_ours_are_not_kept() -> None:
    going = claim_document("want")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert reading.claim(going) is None
    held = claim_document("has", held=("a/gpu-0",))
    held["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    found = reading.claim(held)
    assert found is not None  # it has its device until it is gone
    assert (found.requests, len(found.held)) == ((), 1)
    held["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
    assert reading.claim(held) is None


GIB = 1 << 30
SMALL = "mig-1g.10gb.tessera.dev"  # 9.6 GiB each, seven of a GPU


def part(memory: str, device_class: str = SMALL, count: int = 1) -> dict[str, Any]:
    return exactly(device_class, count=count, capacity={"requests": {"memory": memory}})


def test_a_share_finds_room_beside_others_of_its_slice() -> None:
    """One slice is shared, six are held whole: 4 GiB fit beside the 4, and no slice."""
    others = [claimed(f"1g.10gb@{start}", f"c{start}") for start in range(1, 7)]
    gpu = offered("a", shared=True, claims=[claimed("1g.10gb@0", "x", 4 * GIB), *others])
    reason, _ = said(nodes(gpu), read("want", part("4Gi")))
    assert reason == "ClaimUnmatched"  # there is room: nothing of ours is in the way
    reason, message = said(nodes(gpu), read("want", part("6Gi")))
    assert reason == "ClaimNoRoom"
    assert "no 6Gi of a 1g.10gb left: of 1 GPU 1 is held by claims" in message
    reason, message = said(nodes(gpu), read("want", exactly(SMALL)))  # the default: all of it
    assert (reason, "no 1g.10gb left" in message) == ("ClaimNoRoom", True)
    # What the scheduler gave and nobody has prepared counts, and what was prepared counts once.
    prepared = read("x", held=("a/gpu-0-mig-1g10gb-0",), consumed="4Gi")
    assert said(nodes(gpu), read("want", part("4Gi")), prepared)[0] == "ClaimUnmatched"
    given = read("y", held=("a/gpu-0-mig-1g10gb-0",), consumed="4Gi")
    assert said(nodes(gpu), read("want", part("4Gi")), prepared, given)[0] == "ClaimNoRoom"


def test_room_beside_shares_of_another_profile_is_none() -> None:
    """5.75 GiB of the small slice are left, and most of the larger: 6 of a small one are not."""
    held = [claimed(f"1g.10gb@{start}", f"c{start}") for start in (1, 4, 5, 6)]
    shares = [claimed("1g.10gb@0", "x", 4 * GIB), claimed("2g.20gb@2", "y", GIB)]
    gpu = offered("a", shared=True, claims=[*shares, *held])
    assert said(nodes(gpu), read("want", part("5Gi")))[0] == "ClaimUnmatched"
    assert said(nodes(gpu), read("want", part("6Gi")))[0] == "ClaimNoRoom"
    larger = part("6Gi", device_class="mig-2g.20gb.tessera.dev")
    assert said(nodes(gpu), read("want", larger))[0] == "ClaimUnmatched"


@pytest.mark.parametrize("shared", [True, False])
def test_more_memory_than_a_device_has_is_never_to_be_had(shared: bool) -> None:
    gpu = offered("a", shared=shared, claims=[claimed("7g.80gb@0", "x")])
    most = geometry.board("h100-80gb").profile("1g.10gb").memory_bytes
    reason, message = said(nodes(gpu), read("want", part("20Gi")))
    assert (reason, message) == (
        "ClaimNotOffered",
        f"request gpu: no 1g.10gb has 20Gi: it has {quantity.of_bytes(most)}",
    )
    assert said(nodes(gpu), read("want", part(str(most))))[0] == "ClaimNoRoom"
    assert said(nodes(gpu), read("want", part(str(most + 1))))[0] == "ClaimNotOffered"


@pytest.mark.parametrize(
    ("health", "reason"),
    [("Healthy", "ClaimUnmatched"), ("Suspect: Xid 94", "ClaimUnmatched")]
    + [(health, "ClaimNoRoom") for health in ("Unhealthy: Xid 79", "Probation", "Unknown", "")],
)
def test_a_gpu_in_service_has_room_and_no_other(health: str, reason: str) -> None:
    assert said(nodes(offered("a", health=health)), read("want"))[0] == reason


def test_shares_are_counted_as_the_scheduler_rounds_them() -> None:
    empty = offered("a", shared=True)
    _, message = said(nodes(empty), read("want", part("4Gi", count=15)))
    assert "the most is 14 on a" in message  # two of each of seven
    _, message = said(nodes(empty), read("want", part("1", count=64)))
    assert "the most is 63 on a" in message  # at least 1 GiB each: nine of each


def test_the_part_of_a_claim_that_is_gone_is_not_its_namesake_s() -> None:
    """Deleted and made anew: the old one's part is there until its pods have ended."""
    others = [claimed(f"1g.10gb@{start}", f"c{start}") for start in range(1, 7)]
    old = claimed("1g.10gb@0", "x", 5 * GIB)
    before = old.model_copy(update={"claim": old.claim.model_copy(update={"uid": "uid-before"})})
    gpu = offered("a", shared=True, claims=[before, *others])
    assert said(nodes(gpu), read("want", part("4Gi")))[0] == "ClaimUnmatched"
    given = read("x", held=("a/gpu-0-mig-1g10gb-0",), consumed="5Gi")
    assert said(nodes(gpu), read("want", part("4Gi")), given)[0] == "ClaimNoRoom"


def test_a_gpu_of_a_board_that_nobody_knows_keeps_nobody_from_being_told() -> None:
    strange = offered("a", board="gb900-1tb")
    full = offered("a", 1, claims=[claimed("7g.80gb@0", "x")])
    assert said(nodes(strange, full), read("want"))[1] == (
        "request gpu: no 3g.40gb left: of 1 GPU 1 is held by claims; claims: team/x"
    )


OURS = 'device.attributes["gpu.tessera.dev"]'
ANY_OF_OURS = 'device.driver == "gpu.tessera.dev"'


@pytest.mark.parametrize(
    ("expressions", "own", "what"),
    [
        ([ANY_OF_OURS], [], "device"),
        ([f'{ANY_OF_OURS} && {OURS}.type == "gpu"'], [], "whole GPU"),
        ([ANY_OF_OURS], [f'{OURS}.type == "mig"'], "MIG device"),
        (["device.driver == 'gpu.tessera.dev'"], [f"'3g.40gb' == {OURS}[\"profile\"]"], "3g.40gb"),
        ([], [f'{OURS}.profile == "3g.40gb"'], "3g.40gb"),
        ([f'(({OURS}.profile == "1g.10gb+me") && true)'], [], "1g.10gb+me"),
        ([f'{OURS}.profile in ["3g.40gb", "4g.40gb"]'], [], "device"),
        ([f"{OURS}.productName.matches('H100 && (')"], [], "device"),
        (
            ['device.capacity["gpu.tessera.dev"].memory.isGreaterThan(quantity("9Gi"))'],
            [],
            "device",
        ),
    ],
)
def test_classes_that_users_write_are_read_as_far_as_is_plain(
    expressions: list[str], own: list[str], what: str
) -> None:
    theirs = reading.device_class(class_document("theirs", *expressions))
    selectors = [{"cel": {"expression": one}} for one in own]
    wanting = read("want", exactly("theirs", selectors=selectors))
    full = offered("a", claims=[claimed("7g.80gb@0", "x")])
    reason, message = said(nodes(full), wanting, theirs=theirs)
    assert reason == "ClaimNoRoom"
    assert message.startswith(f"request gpu: no {what} left: of 1 GPU 1 is held by claims")
    assert said(nodes(offered("a")), wanting, theirs=theirs)[0] == "ClaimUnmatched"


@pytest.mark.parametrize(
    "expression",
    [
        'device.driver == "nic.example.org"',
        'device.driver != "gpu.tessera.dev"',
        f'{ANY_OF_OURS} || device.driver == "nic.example.org"',
        f"!({ANY_OF_OURS})",
        f"{ANY_OF_OURS} ? false : true",
        f'("gpu.tessera.dev" in device.attributes) || {OURS}.type == "gpu"',
        f"has({OURS}.type)",
        f'{OURS}.?type.orValue("gpu") == "gpu"',
        f"true // && {ANY_OF_OURS}",
        f'"a" == "\\"" && {ANY_OF_OURS}',
        f'""" && {ANY_OF_OURS} && """ == ""',
        f'r"\\" == "x" && {ANY_OF_OURS}',
        f"{ANY_OF_OURS} && (",
        f"{ANY_OF_OURS} ) && (",
        "(" * 9 + ANY_OF_OURS + ")" * 9,
        ANY_OF_OURS + " && true" * 200,
        "",
    ],
)
def test_what_may_mean_devices_of_others_is_not_judged(expression: str) -> None:
    theirs = reading.device_class(class_document("theirs", expression))
    assert wish(read("want", exactly("theirs")), {"theirs": theirs}) is None


@pytest.mark.parametrize("one", [c["metadata"]["name"] for c in CLASS_DOCUMENTS])
def test_the_chart_s_classes_are_read(one: str) -> None:
    resource = one.removesuffix(".tessera.dev")
    assert CLASSES[one].resource == resource


def test_parts_are_of_no_meaning_where_devices_are_for_one_claim() -> None:
    full = offered("a", claims=[claimed("7g.80gb@0", "x")])
    _, message = said(nodes(full), read("want", part("4Gi")))
    assert "no 1g.10gb left" in message
    full = offered("a", shared=True, claims=[claimed("7g.80gb@0", "x")])
    _, message = said(nodes(full), read("want", part("something else")))
    assert "no 1g.10gb left" in message
