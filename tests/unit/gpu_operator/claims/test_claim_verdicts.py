"""Why a claim waits: which GPUs are full, and who uses them."""

from typing import Any

import pytest

from gpu_operator.api.v1alpha1 import quantity
from gpu_operator.api.v1alpha1.gpupool import Allocation
from gpu_operator.api.v1alpha1.resource import Gpu
from gpu_operator.controllers.claims import reading
from gpu_operator.controllers.claims.reading import Claim
from gpu_operator.controllers.claims.request_resolution import resolve_claim
from gpu_operator.controllers.claims.room import GpuCapacities
from gpu_operator.controllers.claims.selectors import Facts
from gpu_operator.controllers.claims.verdict import ClaimEvaluator
from gpu_operator.controllers.common.world import World
from mig import geometry
from support.worlds.gpu_world import claimed_slice, mig_slice, node, world
from support.worlds.waiting_claims import (
    CLASS_DOCUMENTS,
    CLASSES,
    THREE,
    claim_document,
    class_document,
    exactly,
    offered_gpu,
)


def nodes(*gpus: Gpu, **facts: Any) -> World:
    names = sorted({gpu.spec.node_name for gpu in gpus})
    return world(*(node(name, **facts) for name in names), *gpus)


def read(*args: Any, **facts: Any) -> Claim:
    found = reading.read_claim(claim_document(*args, **facts))
    assert found is not None
    return found


def evaluate(seen: World, wanting: Claim, *others: Claim, **theirs: Facts) -> tuple[str, str]:
    wanted = resolve_claim(wanting, CLASSES | theirs)
    assert wanted is not None
    verdict = ClaimEvaluator(GpuCapacities().read(seen, (wanting, *others))).evaluate(wanted)
    return verdict.reason.value, verdict.message


def test_layouts_claims_and_pods_that_use_the_gpus_are_named() -> None:
    whole = ["3g.40gb@0", "3g.40gb@4"]
    divided = [
        offered_gpu(
            "a",
            index,
            Allocation.BOTH,
            layout="halves",
            want=whole,
            have=[mig_slice(whole[0], "default/train"), mig_slice(whole[1])],
        )
        for index in range(2)
    ]
    full = offered_gpu(
        "b", claims=[claimed_slice("3g.40gb@0", "x"), claimed_slice("3g.40gb@4", "y")]
    )
    given = read("z", held=("b/gpu-1",))
    assert evaluate(nodes(*divided, full, offered_gpu("b", 1)), read("want"), given) == (
        "ClaimNoRoom",
        "request gpu: no 3g.40gb left: of 4 GPUs 2 hold layouts, 2 are held by claims;"
        " layouts: halves; claims: team/x, team/y, team/z; pods of the plugin: default/train",
    )


def test_the_users_of_most_gpus_are_named() -> None:
    every = [offered_gpu("n", index) for index in range(6)]
    two = read("two", held=("n/gpu-0", "n/gpu-1"))
    ones = [read(f"one-{index}", held=(f"n/gpu-{index}",)) for index in range(2, 6)]
    _, message = evaluate(nodes(*every), read("want", exactly("gpu.tessera.dev")), two, *ones)
    assert message == (
        "request gpu: no whole GPU left: of 6 GPUs 6 are held by claims;"
        " claims: team/two, team/one-2, team/one-3 and 2 more"
    )


def test_gpus_not_offered_and_not_in_service_are_distinguished() -> None:
    gpus = (
        offered_gpu("a", 0, Allocation.DEVICE_PLUGIN),
        offered_gpu("a", 1, board="a30"),
        offered_gpu("a", 2, health="Unhealthy: Xid 79"),
    )
    assert evaluate(nodes(*gpus), read("want")) == (
        "ClaimNoRoom",
        "request gpu: no 3g.40gb left: of 3 GPUs 1 is given to pods by the device plugin alone,"
        " 1 is of boards without it, 1 is out of service",
    )
    reason, message = evaluate(nodes(*gpus[:2]), read("want"))
    assert reason == "ClaimNotOffered"
    assert message == (
        "request gpu: no GPU offers 3g.40gb to claims: of 2 GPUs 1 is given to pods by the device"
        " plugin alone, 1 is of boards without it"
    )
    assert evaluate(nodes(), read("want"))[1].endswith(
        "no GPU offers 3g.40gb to claims: of 0 GPUs none"
    )
    _, lost = evaluate(nodes(offered_gpu("a"), ready=False), read("want"))
    assert lost.endswith("of 1 GPU 1 is out of service")


def test_devices_of_one_request_must_be_on_one_node() -> None:
    gpus = (offered_gpu("a"), offered_gpu("b"), offered_gpu("b", 1))
    given = read("x", held=("a/gpu-0-mig-3g40gb-0", "b/gpu-0"))
    reason, message = evaluate(nodes(*gpus), read("want", exactly(THREE, count=3)), given)
    assert reason == "ClaimNoRoom"
    assert message == (
        "request gpu: no node has 3 x 3g.40gb left (the most is 2 on b): of 3 GPUs"
        " 2 have room for fewer, 1 is held by claims; claims: team/x"
    )


def test_existing_room_is_reported_with_what_was_not_evaluated() -> None:
    wanting = read("want", exactly(THREE, "large"), exactly("mig.tessera.dev", "any"))
    given = read("x", held=("a/gpu-0-mig-3g40gb-0",))
    reason, message = evaluate(nodes(offered_gpu("a"), offered_gpu("b")), wanting, given)
    assert reason == "ClaimUnmatched"
    assert "(large: 3g.40gb, 2 on b, 1 on a; any: MIG device, 7 on b," in message


def on_one_gpu(*requests: dict[str, Any], **constraint: Any) -> Claim:
    document = claim_document("want", *requests)
    wanted = {"matchAttribute": "gpu.tessera.dev/parentUUID", **constraint}
    document["spec"]["devices"]["constraints"] = [wanted]
    found = reading.read_claim(document)
    assert found is not None
    return found


def test_devices_for_one_gpu_are_evaluated_together() -> None:
    small = exactly("mig-1g.10gb.tessera.dev", "small", count=2)
    wanting = on_one_gpu(exactly(THREE, "large"), small)
    half = offered_gpu("a", claims=[claimed_slice("4g.40gb@0", "x")])
    room = offered_gpu(
        "a", 1, claims=[claimed_slice("3g.40gb@4", "y"), claimed_slice("3g.40gb@0", "z")]
    )
    other = offered_gpu("a", 2, Allocation.BOTH, layout="l", want=["4g.40gb@0", "3g.40gb@4"])
    one = offered_gpu(
        "a", 3, claims=[claimed_slice("2g.20gb@0", "u"), claimed_slice("3g.40gb@4", "v")]
    )
    assert evaluate(nodes(half, room, other, one), wanting) == (
        "ClaimNoRoom",
        "no GPU has 1 x 3g.40gb, 2 x 1g.10gb left together: of 4 GPUs 1 holds layouts,"
        " 3 are held by claims; layouts: l; claims: team/u, team/v, team/x and 2 more",
    )
    assert evaluate(nodes(half, offered_gpu("b")), wanting)[0] == "ClaimUnmatched"
    apart = on_one_gpu(exactly(THREE, "large"), small, requests=["large"])
    assert evaluate(nodes(half, one), apart)[0] == "ClaimUnmatched"
    whole = on_one_gpu(
        exactly("mig-4g.40gb.tessera.dev", "a"), exactly("mig-4g.40gb.tessera.dev", "b")
    )
    assert evaluate(nodes(offered_gpu("b")), whole)[1].endswith(
        "left together: of 1 GPU 1 is empty"
    )


@pytest.mark.parametrize("count", [17, 2**62])
def test_impossible_requests_cost_no_search(count: int) -> None:
    many = on_one_gpu(exactly("mig-1g.10gb.tessera.dev", "a", count=count), exactly(THREE, "b"))
    reason, message = evaluate(nodes(offered_gpu("a")), many)
    assert reason == "ClaimNoRoom"
    assert f"no node has {count} x 1g.10gb left (the most is 7 on a)" in message
    spread = [exactly("mig-1g.10gb.tessera.dev", f"r{n}", count=7) for n in range(3)]
    message = evaluate(nodes(offered_gpu("a")), on_one_gpu(*spread))[1]
    assert message.startswith("no GPU has 21 x 1g.10gb left together")


def test_a_class_for_no_board_is_reported() -> None:
    theirs = reading.read_device_class(
        class_document("x", 'device.attributes["gpu.tessera.dev"].profile == "9g.999gb"')
    )
    wanting = read("want", exactly("huge"))
    assert evaluate(nodes(offered_gpu("a")), wanting, huge=theirs) == (
        "ClaimNotOffered",
        "request gpu: no GPU offers 9g.999gb to claims: no board has it",
    )


def test_an_alternative_that_fits_is_enough() -> None:
    small = {"deviceClassName": "mig-1g.10gb.tessera.dev"}
    either = {"name": "gpu", "firstAvailable": [{"deviceClassName": THREE}, small]}
    layouts = offered_gpu(
        "a", layout="l", allocation=Allocation.BOTH, want=["4g.40gb@0", "2g.20gb@4"]
    )
    assert evaluate(nodes(layouts), read("want", either))[0] == "ClaimUnmatched"
    full = offered_gpu("a", layout="l", allocation=Allocation.BOTH, want=["7g.80gb@0"])
    reason, message = evaluate(nodes(full), read("want", either))
    assert reason == "ClaimNoRoom"
    assert message.endswith("1 holds layouts; layouts: l; no alternative")


def test_room_follows_the_planner_and_each_gpu_is_read_once() -> None:
    capacities = GpuCapacities()
    gpu = offered_gpu("a", claims=[claimed_slice("1g.10gb@0")])
    seen = nodes(gpu)
    (capacity,) = capacities.read(seen, ())
    assert [
        capacity.room(f"mig-{one}") for one in ("1g.10gb", "3g.40gb", "4g.40gb", "7g.80gb")
    ] == [
        6,
        1,
        0,
        0,
    ]
    assert capacity.room("gpu") == 0
    assert capacities.read(seen, ())[0] is capacity
    (beside,) = capacities.read(seen, (read("x", held=("a/gpu-0-mig-3g40gb-4", "a/tpu-7")),))
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
def test_requests_for_other_drivers_or_admin_access_are_not_evaluated(
    request_: dict[str, Any],
) -> None:
    found = reading.read_claim(claim_document("want", request_))
    assert found is None or resolve_claim(found, CLASSES | {"gpu.example.com": Facts()}) is None


def test_deleted_and_foreign_claims_are_not_kept() -> None:
    going = claim_document("want")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert reading.read_claim(going) is None
    held = claim_document("has", held=("a/gpu-0",))
    held["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    found = reading.read_claim(held)
    assert found is not None  # it keeps its device until it is deleted
    assert (found.requests, len(found.held)) == ((), 1)
    held["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
    assert reading.read_claim(held) is None


GIB = 1 << 30
SMALL = "mig-1g.10gb.tessera.dev"  # 9.6 GiB each, seven on a GPU


def part(memory: str, device_class: str = SMALL, count: int = 1) -> dict[str, Any]:
    return exactly(device_class, count=count, capacity={"requests": {"memory": memory}})


def test_a_share_finds_room_beside_others_of_its_slice() -> None:
    """One slice is shared, and six are used as a whole: the shared one has room for another 4 GiB,
    but not for a request of its full size.
    """
    others = [claimed_slice(f"1g.10gb@{start}", f"c{start}") for start in range(1, 7)]
    gpu = offered_gpu("a", shared=True, claims=[claimed_slice("1g.10gb@0", "x", 4 * GIB), *others])
    reason, _ = evaluate(nodes(gpu), read("want", part("4Gi")))
    assert reason == "ClaimUnmatched"  # there is room: no GPU is the cause
    reason, message = evaluate(nodes(gpu), read("want", part("6Gi")))
    assert reason == "ClaimNoRoom"
    assert "no 6Gi of a 1g.10gb left: of 1 GPU 1 is held by claims" in message
    # the default: the full size
    reason, message = evaluate(nodes(gpu), read("want", exactly(SMALL)))
    assert (reason, "no 1g.10gb left" in message) == ("ClaimNoRoom", True)
    # An allocation counts before it is prepared, and only once after that.
    prepared = read("x", held=("a/gpu-0-mig-1g10gb-0",), consumed="4Gi")
    assert evaluate(nodes(gpu), read("want", part("4Gi")), prepared)[0] == "ClaimUnmatched"
    given = read("y", held=("a/gpu-0-mig-1g10gb-0",), consumed="4Gi")
    assert evaluate(nodes(gpu), read("want", part("4Gi")), prepared, given)[0] == "ClaimNoRoom"


def test_room_beside_shares_of_another_profile_is_none() -> None:
    """A small slice has 5.75 GiB left, so it has no room for 6 GiB, though a larger slice has."""
    held = [claimed_slice(f"1g.10gb@{start}", f"c{start}") for start in (1, 4, 5, 6)]
    shares = [claimed_slice("1g.10gb@0", "x", 4 * GIB), claimed_slice("2g.20gb@2", "y", GIB)]
    gpu = offered_gpu("a", shared=True, claims=[*shares, *held])
    assert evaluate(nodes(gpu), read("want", part("5Gi")))[0] == "ClaimUnmatched"
    assert evaluate(nodes(gpu), read("want", part("6Gi")))[0] == "ClaimNoRoom"
    larger = part("6Gi", device_class="mig-2g.20gb.tessera.dev")
    assert evaluate(nodes(gpu), read("want", larger))[0] == "ClaimUnmatched"


@pytest.mark.parametrize("shared", [True, False])
def test_a_request_for_more_memory_than_a_device_has_is_not_offered(shared: bool) -> None:
    gpu = offered_gpu("a", shared=shared, claims=[claimed_slice("7g.80gb@0", "x")])
    most = geometry.board("h100-80gb").profile("1g.10gb").memory_bytes
    reason, message = evaluate(nodes(gpu), read("want", part("20Gi")))
    assert (reason, message) == (
        "ClaimNotOffered",
        f"request gpu: no 1g.10gb has 20Gi: it has {quantity.format_bytes(most)}",
    )
    assert evaluate(nodes(gpu), read("want", part(str(most))))[0] == "ClaimNoRoom"
    assert evaluate(nodes(gpu), read("want", part(str(most + 1))))[0] == "ClaimNotOffered"


@pytest.mark.parametrize(
    ("health", "reason"),
    [("Healthy", "ClaimUnmatched"), ("Suspect: Xid 94", "ClaimUnmatched")]
    + [(health, "ClaimNoRoom") for health in ("Unhealthy: Xid 79", "Probation", "Unknown", "")],
)
def test_only_a_gpu_in_service_has_room(health: str, reason: str) -> None:
    assert evaluate(nodes(offered_gpu("a", health=health)), read("want"))[0] == reason


def test_shares_are_counted_as_the_scheduler_rounds_them() -> None:
    empty = offered_gpu("a", shared=True)
    _, message = evaluate(nodes(empty), read("want", part("4Gi", count=15)))
    assert "the most is 14 on a" in message  # two on each of seven
    _, message = evaluate(nodes(empty), read("want", part("1", count=64)))
    assert "the most is 63 on a" in message  # at least 1 GiB each: nine on each


def test_a_deleted_claim_s_part_does_not_belong_to_its_successor() -> None:
    """The claim was deleted and created again: the old part exists until its pods have ended."""
    others = [claimed_slice(f"1g.10gb@{start}", f"c{start}") for start in range(1, 7)]
    old = claimed_slice("1g.10gb@0", "x", 5 * GIB)
    before = old.model_copy(update={"claim": old.claim.model_copy(update={"uid": "uid-before"})})
    gpu = offered_gpu("a", shared=True, claims=[before, *others])
    assert evaluate(nodes(gpu), read("want", part("4Gi")))[0] == "ClaimUnmatched"
    given = read("x", held=("a/gpu-0-mig-1g10gb-0",), consumed="5Gi")
    assert evaluate(nodes(gpu), read("want", part("4Gi")), given)[0] == "ClaimNoRoom"


def test_a_gpu_with_an_unknown_board_blocks_no_events() -> None:
    strange = offered_gpu("a", board="gb900-1tb")
    full = offered_gpu("a", 1, claims=[claimed_slice("7g.80gb@0", "x")])
    assert evaluate(nodes(strange, full), read("want"))[1] == (
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
def test_users_classes_are_parsed_if_their_form_is_supported(
    expressions: list[str], own: list[str], what: str
) -> None:
    theirs = reading.read_device_class(class_document("theirs", *expressions))
    selectors = [{"cel": {"expression": one}} for one in own]
    wanting = read("want", exactly("theirs", selectors=selectors))
    full = offered_gpu("a", claims=[claimed_slice("7g.80gb@0", "x")])
    reason, message = evaluate(nodes(full), wanting, theirs=theirs)
    assert reason == "ClaimNoRoom"
    assert message.startswith(f"request gpu: no {what} left: of 1 GPU 1 is held by claims")
    assert evaluate(nodes(offered_gpu("a")), wanting, theirs=theirs)[0] == "ClaimUnmatched"


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
def test_requests_that_may_match_other_drivers_are_not_evaluated(expression: str) -> None:
    theirs = reading.read_device_class(class_document("theirs", expression))
    assert resolve_claim(read("want", exactly("theirs")), {"theirs": theirs}) is None


@pytest.mark.parametrize("one", [c["metadata"]["name"] for c in CLASS_DOCUMENTS])
def test_the_chart_s_classes_are_parsed(one: str) -> None:
    resource = one.removesuffix(".tessera.dev")
    assert CLASSES[one].resource == resource


def test_memory_parts_are_ignored_where_claims_do_not_share_devices() -> None:
    full = offered_gpu("a", claims=[claimed_slice("7g.80gb@0", "x")])
    _, message = evaluate(nodes(full), read("want", part("4Gi")))
    assert "no 1g.10gb left" in message
    full = offered_gpu("a", shared=True, claims=[claimed_slice("7g.80gb@0", "x")])
    _, message = evaluate(nodes(full), read("want", part("something else")))
    assert "no 1g.10gb left" in message
