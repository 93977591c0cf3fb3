"""Prepare and Unprepare, one claim after the other: creation, refusal, waiting and destruction."""

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from device_plugin.dra.preparing import Preparer
from device_plugin.dra.service import DraService
from device_plugin.errors import ClaimError, ClusterError
from device_plugin.inventory.claims import ClaimRef
from device_plugin.kube.claims import Allocated, Claim, read
from device_plugin.proto import dra_pb2 as pb
from gpu_operator.api.claim_devices import DRIVER
from support.worlds.interlock_world import NODE, UUIDS, World, WorldClaim, _Api

UID, OTHER = (f"{digit * 8}-3333-4333-8333-333333333333" for digit in "ab")
REF = ClaimRef("team", "job", UID)
CONTEXT: Any = SimpleNamespace(is_active=lambda: True)


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path, random.Random(0))
    made.calm = True
    return made


def ask(world: World, *devices: str, ref: ClaimRef = REF) -> ClaimRef:
    world.claims[ref.uid] = WorldClaim(ref, devices)
    return ref


def there(world: World) -> dict[tuple[int, str, int], str]:
    return {
        (one.gpu.index, one.profile.name, one.start): one.owner_name
        for one in world.inventory.instances
    }


def test_every_device_is_created_at_the_place_in_its_name(world: World) -> None:
    ask(world, "gpu-0-mig-1g6gb-me-3", "gpu-1")
    prepared = world.preparer.prepare(REF)
    assert there(world) == {(0, "1g.6gb+me", 3): "team/job", (1, "whole", 0): "team/job"}
    names = [one.allocated.device for one in prepared]
    assert names == ["gpu-0-mig-1g6gb-me-3", "gpu-1"]
    assert prepared[1].cdi_ids == (f"gpu.tessera.dev/claim={UID}-{UUIDS[1]}",)
    assert world.preparer.prepare(REF) == prepared
    world.preparer.unprepare(UID)
    assert there(world) == {}


@pytest.mark.parametrize(
    ("given", "reported"),
    [
        ({"device": "gpu-7"}, "no GPU 7"),
        ({"device": "gpu-0-mig-9g90gb-0"}, "9g.90gb"),
        ({"device": "gpu-0-mig-2g12gb-1"}, "2g.12gb"),
        ({"device": "../gpu-0"}, "not a device"),
        ({"device": "gpu-0", "pool": "node-2"}, "pool node-2"),
        (
            {"device": "gpu-0", "share_id": "x"},
            "a share, but its allocation lacks the capacity 'memory'",
        ),
    ],
)
def test_an_allocation_that_cannot_be_is_refused_by_name(
    world: World, given: dict[str, str], reported: str
) -> None:
    """The other device of the claim, which was created, is destroyed again."""
    results = (
        Allocated("r0", "gpu.tessera.dev", NODE, "gpu-1"),
        Allocated(**{"request": "r1", "driver": "gpu.tessera.dev", "pool": NODE} | given),  # type: ignore[arg-type]
    )
    preparer = preparing(world, lambda *_: Claim(REF, results))
    with pytest.raises(ClaimError, match=reported):
        preparer.prepare(REF)
    assert there(world) == {}


def preparing(
    world: World, claim: Callable[..., Claim | None], wait_s: float = 0.0, **more: Any
) -> Preparer:
    node = world.preparer._node
    api: Any = SimpleNamespace(claim=claim)
    return Preparer(node, api, NODE, world.directory / "cdi", "/lib", wait_s=wait_s, **more)


def test_devices_of_other_drivers_are_not_ours(world: World) -> None:
    results = (
        Allocated("r0", "nic.example.org", "elsewhere", "eth0"),
        Allocated("r1", "gpu.tessera.dev", NODE, "gpu-1"),
    )
    (one,) = preparing(world, lambda *_: Claim(REF, results)).prepare(REF)
    assert one.allocated.request == "r1"


def test_parameters_for_this_driver_are_refused_and_those_for_others_are_theirs(
    world: World,
) -> None:
    def claim_with(driver: str, **parameters: Any) -> Claim:
        results = [{"request": "gpu", "driver": DRIVER, "pool": NODE, "device": "gpu-1"}]
        config = [{"source": "FromClaim", "opaque": {"driver": driver, "parameters": parameters}}]
        devices = {"results": results, "config": config}
        return read(
            {
                "metadata": {"namespace": REF.namespace, "name": REF.name, "uid": REF.uid},
                "status": {"allocation": {"devices": devices}},
            }
        )

    for parameters, reported in (
        ({"kind": "GpuConfig"}, "parameters GpuConfig for"),
        ({}, "for gpu"),
    ):
        ours = claim_with(DRIVER, **parameters)
        with pytest.raises(ClaimError, match=reported):
            preparing(world, lambda *_, ours=ours: ours).prepare(REF)
    assert there(world) == {}
    theirs = claim_with("nic.example.org", kind="NicConfig")
    (one,) = preparing(world, lambda *_: theirs).prepare(REF)
    assert one.allocated.device == "gpu-1"


@pytest.mark.parametrize(
    "parameters",
    [
        {"kind": "\ud800"},
        {"kind": "Gpu\nConfig"},
        {"kind": "x" * 5000},
        {"kind": ["GpuConfig"]},
        {"kind": {"a": 1}},
        ["GpuConfig"],
        "GpuConfig",
        None,
    ],
)
def test_absurd_parameters_are_refused_in_words_that_the_kubelet_and_logs_can_hold(
    world: World, parameters: Any
) -> None:
    config = [{"source": "FromClaim", "opaque": {"driver": DRIVER, "parameters": parameters}}]
    found = read(
        {
            "metadata": {"namespace": REF.namespace, "name": REF.name, "uid": REF.uid},
            "status": {"allocation": {"devices": {"results": [], "config": config}}},
        }
    )
    service = DraService(preparing(world, lambda *_: found))
    requested = pb.NodePrepareResourcesRequest(
        claims=[pb.Claim(namespace=REF.namespace, name=REF.name, uid=UID)]
    )
    reported = service.NodePrepareResources(requested, CONTEXT).claims[UID].error
    assert "has opaque parameters for gpu.tessera.dev" in reported
    assert reported.isprintable()


def test_another_claim_of_the_same_name_gives_nothing(world: World) -> None:
    ask(world, "gpu-0")
    for ref in (ClaimRef("team", "job", OTHER), ClaimRef("team", "gone", UID)):
        with pytest.raises(ClaimError, match="does not exist"):
            world.preparer.prepare(ref)
    with pytest.raises(ClaimError, match="not allocated"):
        preparing(world, lambda *_: Claim(REF, None)).prepare(REF)
    assert there(world) == {}


@pytest.mark.parametrize("uid", ["", "../../etc/cron.d/x", UID.upper(), UID + "\n"])
def test_an_invalid_claim_is_refused_before_anything_is_done(world: World, uid: str) -> None:
    def never(*_: str) -> Claim:
        raise AssertionError("queried")

    preparer = preparing(world, never)
    with pytest.raises(ClaimError, match="not a claim's UID"):
        preparer.prepare(ClaimRef("team", "job", uid))
    with pytest.raises(ClaimError, match="not a claim's UID"):
        preparer.unprepare(uid)


def test_a_conflict_is_reported_once_and_other_slices_of_the_claim_are_destroyed(
    world: World,
) -> None:
    reported: list[str] = []
    other = ask(world, "gpu-0-mig-1g6gb-0", ref=ClaimRef("team", "first", OTHER))
    world.preparer.prepare(other)
    results = (
        Allocated("r0", "gpu.tessera.dev", NODE, "gpu-1"),
        Allocated("r1", "gpu.tessera.dev", NODE, "gpu-0"),
    )
    preparer = preparing(
        world, lambda *_: Claim(REF, results), 0.05, notify=lambda _, m: reported.append(m)
    )
    with pytest.raises(ClaimError, match=r"1g\.6gb@0 is held by claim team/first"):
        preparer.prepare(REF)
    assert reported == ["gpu-0: 1g.6gb@0 is held by claim team/first"]
    assert there(world) == {(0, "1g.6gb", 0): "team/first"}


def test_an_api_server_that_is_away_is_waited_for(world: World) -> None:
    answers = iter([ClusterError("away"), ClusterError("away")])

    def claim(*_: str) -> Claim:
        for err in answers:
            raise err
        return Claim(REF, (Allocated("r", "gpu.tessera.dev", NODE, "gpu-0"),))

    preparing(world, claim, 60, pause=lambda _: None).prepare(REF)
    assert there(world) == {(0, "whole", 0): "team/job"}


def test_with_admin_access_no_slice_is_created_and_existing_ones_are_visible(world: World) -> None:
    world.preparer.prepare(ask(world, "gpu-0-mig-1g6gb-0", "gpu-0-mig-2g12gb-2"))
    admin = ClaimRef("team", "admin", OTHER)
    results = (Allocated("r", "gpu.tessera.dev", NODE, "gpu-0", admin_access=True),)
    before = there(world)
    (one,) = preparing(world, lambda *_: Claim(admin, results)).prepare(admin)
    assert len(one.cdi_ids) == 2
    preparing(world, lambda *_: None).unprepare(OTHER)
    assert there(world) == before


def test_an_unprepare_ends_a_prepare_that_waits(world: World) -> None:
    world.preparer.prepare(ask(world, "gpu-0", ref=ClaimRef("team", "first", OTHER)))
    ask(world, "gpu-0")
    waits = threading.Event()
    preparer = preparing(
        world,
        lambda *_: Claim(REF, (Allocated("r", "gpu.tessera.dev", NODE, "gpu-0"),)),
        600,
        notify=lambda *_: waits.set(),
    )
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(preparer.prepare, REF)
        assert waits.wait(60)
        preparer.unprepare(UID)
        with pytest.raises(ClaimError, match="unprepared"):
            waiting.result(60)
    assert there(world) == {(0, "whole", 0): "team/first"}


def test_waiting_claims_do_not_block_others(world: World) -> None:
    """Claims beyond the limit are refused, while Unprepare is still served."""
    held, release = threading.Semaphore(0), threading.Event()

    def prepare(ref: ClaimRef) -> tuple[()]:
        held.release()
        assert release.wait(60)
        return ()

    done: list[str] = []
    preparer: Any = SimpleNamespace(prepare=prepare, unprepare=done.append)
    service = DraService(preparer, preparing=2)

    def call(uid: str) -> pb.NodePrepareResourcesResponse:
        one = pb.Claim(namespace="team", name="job", uid=uid)
        return service.NodePrepareResources(pb.NodePrepareResourcesRequest(claims=[one]), CONTEXT)

    with ThreadPoolExecutor() as pool:
        waiting = [pool.submit(call, uid) for uid in "ab"]
        for _ in waiting:
            assert held.acquire(timeout=60)
        assert "too many claims" in call("c").claims["c"].error
        one = pb.Claim(namespace="team", name="job", uid="d")
        answer = service.NodeUnprepareResources(
            pb.NodeUnprepareResourcesRequest(claims=[one]), CONTEXT
        )
        assert (done, answer.claims["d"].error) == (["d"], "")
        release.set()
        assert [future.result(60).claims["a"].error for future in waiting[:1]] == [""]


@pytest.mark.parametrize("why", ["does not exist", "not allocated", "elsewhere", "still wanted"])
def test_leftovers_of_a_claim_are_freed_and_reported(
    world: World, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    world.preparer.prepare(ask(world, "gpu-1"))
    reported: list[tuple[ClaimRef, str, str]] = []
    post = lambda *event: reported.append(event)  # noqa: E731
    notices: Any = SimpleNamespace(post_claim=post)
    monkeypatch.setattr(world.orphans, "_notices", notices)
    claim = world.claims[UID]
    elsewhere = (Allocated("r", "gpu.tessera.dev", "node-2", "gpu-1"),)
    found = {
        "does not exist": None,
        "not allocated": Claim(REF, None),
        "elsewhere": Claim(REF, elsewhere),
    }
    if why in found:
        kube: Any = SimpleNamespace(claim=lambda *_: found[why])
        monkeypatch.setattr(world.orphans, "_kube", kube)
    claim.prepared = ()
    for _ in range(3):  # a holder is dropped only after Lists some seconds apart
        world.holders.refresh()
        world.orphans.sweep()
        world.now += 20
        assert there(world) == {(1, "whole", 0): "team/job"}
    world.now += 20
    world.orphans.sweep()
    world.orphans.sweep()
    if why == "still wanted":
        assert there(world) == {(1, "whole", 0): "team/job"}
        assert not reported
        return
    assert there(world) == {}
    ((ref, reason, message),) = reported
    assert (ref, reason) == (REF, "ClaimOrphaned")
    assert message.startswith("slice whole@0 of GPU 1 was left behind and is free again: ")
    assert not list((world.directory / "cdi").iterdir())


GIB = 1 << 30
SMALL = "gpu-0-mig-1g6gb-0"  # 5.8 GiB


def share(world: World, name: str, uid: str, memory_bytes: int, device: str = SMALL) -> ClaimRef:
    ref = ClaimRef("team", name, uid)
    world.claims[uid] = WorldClaim(ref, (device,), memory_bytes)
    return ref


def test_claims_share_a_slice_and_it_goes_with_the_last(world: World) -> None:
    one, two = share(world, "one", UID, 4 * GIB), share(world, "two", OTHER, GIB)
    (first,), (second,) = (world.preparer.prepare(ref) for ref in (one, two))
    assert (first.allocated.share_id, first.cdi_ids[0][-40:]) == ("s", second.cdi_ids[0][-40:])
    assert first.cdi_ids != second.cdi_ids
    (made,) = world.inventory.instances
    assert [(s.owner_name, s.memory_bytes) for s in made.shares] == [
        ("team/one", 4 * GIB),
        ("team/two", GIB),
    ]
    assert world.preparer.prepare(one) == (first,)
    world.preparer.unprepare(UID)
    (left,) = world.inventory.instances
    assert (left.uuid, [s.owner_name for s in left.shares]) == (made.uuid, ["team/two"])
    world.preparer.unprepare(OTHER)
    assert world.inventory.instances == ()


def test_the_sharers_of_a_full_slice_are_named(world: World) -> None:
    world.preparer.prepare(share(world, "one", UID, 4 * GIB))
    share(world, "two", OTHER, 2 * GIB)
    with pytest.raises(ClaimError, match=r"1g\.6gb@0 is shared by claims team/one \(4Gi\)"):
        world.preparer.prepare(ClaimRef("team", "two", OTHER))
    assert len(world.inventory.instances[0].shares) == 1


def test_a_claim_that_has_a_slice_alone_is_not_joined(world: World) -> None:
    whole = world.inventory.gpus[0].board.profile("1g.6gb").memory_bytes
    # the policy's default is all of the slice
    world.preparer.prepare(share(world, "one", UID, whole))
    assert there(world) == {(0, "1g.6gb", 0): "team/one"}
    share(world, "two", OTHER, GIB)
    with pytest.raises(ClaimError, match=r"1g\.6gb@0 is held by claim team/one"):
        world.preparer.prepare(ClaimRef("team", "two", OTHER))


def test_two_shares_that_one_claim_has_of_a_device_are_one(world: World) -> None:
    more = {"share_id": "s", "memory_bytes": 2 * GIB}
    results = tuple(Allocated(r, DRIVER, NODE, SMALL, **more) for r in ("r0", "r1"))  # type: ignore[arg-type]
    prepared = preparing(world, lambda *_: Claim(REF, results)).prepare(REF)
    assert [one.allocated.request for one in prepared] == ["r0", "r1"]
    assert len({one.cdi_ids for one in prepared}) == 1
    ((made,),) = (one.shares for one in world.inventory.instances)
    assert made.memory_bytes == 4 * GIB


def test_a_share_is_read_from_the_allocation() -> None:
    result = {
        "request": "gpu",
        "driver": DRIVER,
        "pool": NODE,
        "device": SMALL,
        "shareID": "a671734a-e8e5-11e4-8fde-42010af09327",
        "consumedCapacity": {"memory": "4Gi", "multiprocessors": "0"},
    }
    metadata = {"namespace": "team", "name": "job", "uid": UID}
    document = {"metadata": metadata, "status": {"allocation": {"devices": {"results": [result]}}}}
    ((one,),) = [read(document).allocated or ()]
    assert (one.share_id, one.memory_bytes) == (result["shareID"], 4 * GIB)


def test_a_share_that_was_left_behind_goes_alone(world: World) -> None:
    for name, uid in (("one", UID), ("two", OTHER)):
        ref = share(world, name, uid, 2 * GIB)
        world.claims[uid].prepared = world.preparer.prepare(ref)
        world.claims[uid].listed = True
    world.claims[UID].prepared, world.claims[UID].exists = (), False
    for _ in range(4):
        world.holders.refresh()
        world.orphans.sweep()
        world.now += 20
    world.orphans.sweep()
    (left,) = world.inventory.instances
    assert [one.owner_name for one in left.shares] == ["team/two"]


def test_a_claim_that_was_allocated_again_has_its_last_allocation(world: World) -> None:
    whole = world.inventory.gpus[0].board.profile("1g.6gb").memory_bytes
    for memory_bytes in (2 * GIB, 4 * GIB, whole, GIB):
        ref = share(world, "one", UID, memory_bytes)
        preparer = preparing(world, _Api(world).claim, 60, pause=lambda _: None)
        preparer.prepare(ref)
        (made,) = world.inventory.instances
        shares = [one.memory_bytes for one in made.shares]
        assert shares == ([memory_bytes] if memory_bytes < whole else [])
        assert bool(made.owner) == (memory_bytes == whole)


def test_a_failing_second_prepare_destroys_only_its_own_slices(world: World) -> None:
    world.preparer.prepare(ask(world, SMALL))
    world.preparer.prepare(ask(world, "gpu-1", ref=ClaimRef("team", "other", OTHER)))
    before = there(world)
    for devices in ((SMALL, "gpu-0-mig-1g6gb-1", "gpu-1"), (SMALL, "gpu-7")):
        ask(world, *devices)
        with pytest.raises(ClaimError):
            world.preparer.prepare(REF)
        assert there(world) == before


def test_a_claim_that_is_prepared_again_after_it_was_unprepared_waits_as_any(world: World) -> None:
    other = ask(world, "gpu-0", ref=ClaimRef("team", "other", OTHER))
    world.preparer.prepare(other)
    ask(world, "gpu-0")
    preparer = preparing(
        world, _Api(world).claim, 60, pause=lambda _: world.preparer.unprepare(OTHER)
    )
    preparer.unprepare(UID)
    assert [one.allocated.device for one in preparer.prepare(REF)] == ["gpu-0"]
    assert there(world) == {(0, "whole", 0): "team/job"}
