"""The agent's offer to claims: the room that layouts leave, on GPUs that claims may use."""

import dataclasses
from typing import Any

import pytest

from device_plugin.agent.claims import PublishedOffer, unavailable_instances
from device_plugin.agent.desired_state import desired_from_objects
from device_plugin.agent.steps import plan_steps
from device_plugin.config import Settings
from device_plugin.dp.offer import CLAIM_SERVED
from device_plugin.dra.slices import slice_name
from device_plugin.inventory.model import Gpu, Inventory, MigSlice
from device_plugin.kube.gpu_object import GpuObject, read
from gpu_operator.api.v1alpha1 import NODE_UID
from gpu_operator.api.v1alpha1.base import Reason
from mig import geometry, planner

BOARD = geometry.board("h100-80gb")
SETTINGS = Settings("n", "agent", resource_prefix="nvidia.com")


def place(text: str, start: int) -> geometry.Instance:
    return geometry.Instance(BOARD.profile(text), start)


def gpu_with(*instances: geometry.Instance, claimed: tuple[geometry.Instance, ...] = ()) -> Gpu:
    slices = [MigSlice(f"MIG-{i}", "GPU-a", i, 1, 0, 1, "/run", 0, ()) for i in instances]
    slices += [
        MigSlice(f"MIG-{i}", "GPU-a", i, 1, 0, 1, "/run", 0, (), owner="claim:u", owner_name="n/c")
        for i in claimed
    ]
    return Gpu("GPU-a", 0, BOARD, "Healthy", tuple(slices))


RAW: dict[str, Any] = {
    "metadata": {
        "name": "a",
        "generation": 1,
        "uid": "o",
        "annotations": {NODE_UID: "node-uid"},
    },
    "spec": {
        "nodeName": "n",
        "index": 0,
        "board": BOARD.key,
        "uuid": "GPU-a",
        "pool": "p",
        "allocation": "DRA",
    },
}


def an_object(**spec: Any) -> GpuObject:
    return read({**RAW, "spec": RAW["spec"] | {"allocation": "DevicePlugin"} | spec})


class FakePublisher:
    """A publisher that records its calls."""

    def __init__(self) -> None:
        self.wanted: Any = None
        self.owners: Any = None
        self.problem = ""
        self.reported = 0

    def offer(self, wanted: Any, owners: Any) -> None:
        self.reported += 1
        self.wanted, self.owners = wanted, owners


class Events:
    def __init__(self) -> None:
        self.reported: list[str] = []

    def post_gpu(self, name: str, uid: str, reason: Any, message: str, warning: bool) -> None:
        del name, uid, reason, warning
        self.reported.append(message)


def published_devices(gpu: Gpu, *objects: GpuObject) -> FakePublisher:
    publisher: Any = FakePublisher()
    events: Any = Events()
    desired = desired_from_objects(objects, 0)
    inventory = Inventory("1", "/lib", 0, 0, True, "", (), (gpu,))
    PublishedOffer(SETTINGS, publisher, events).offer(objects, desired, inventory)
    result: FakePublisher = publisher
    return result


def devices(publisher: FakePublisher) -> set[str]:
    return {d["name"] for spec in publisher.wanted.values() for d in spec.get("devices", ())}


def counters(publisher: FakePublisher) -> dict[str, str]:
    (one,) = publisher.wanted[slice_name("n", 0)]["sharedCounters"]
    return {name: count["value"] for name, count in one["counters"].items()}


def test_a_gpu_of_the_device_plugin_is_not_offered_to_claims() -> None:
    assert published_devices(gpu_with(), an_object()).wanted == {}
    assert published_devices(gpu_with()).wanted == {}
    assert published_devices(gpu_with(), an_object(allocation="DRA")).wanted != {}


def test_the_node_object_owns_the_slices() -> None:
    publisher = published_devices(gpu_with(), an_object(allocation="DRA"))
    (owner,) = publisher.owners
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Node", "n", "node-uid")


def test_layouts_slices_are_taken_and_claims_own_are_not() -> None:
    gpu = gpu_with(place("3g.40gb", 4), claimed=(place("1g.10gb", 0),))
    publisher = published_devices(
        gpu,
        an_object(
            allocation="Both",
            layout="l",
            migMode="Enabled",
            instances=[{"profile": "3g.40gb", "start": 4}],
        ),
    )
    # otherwise the scheduler would count it as free
    assert "gpu-0-mig-1g10gb-0" in devices(publisher)
    assert "gpu-0-mig-1g10gb-5" not in devices(publisher)
    assert counters(publisher)["memory-slice-0"] == "1"
    assert counters(publisher)["memory-slice-5"] == "0"
    assert counters(publisher)["compute-slices"] == "4"


def test_planned_instances_of_a_layout_are_unavailable() -> None:
    publisher = published_devices(
        gpu_with(),
        an_object(
            allocation="Both",
            layout="l",
            migMode="Enabled",
            instances=[{"profile": "4g.40gb", "start": 0}],
        ),
    )
    assert "gpu-0-mig-1g10gb-0" not in devices(publisher)
    assert "gpu-0-mig-3g40gb-4" in devices(publisher)


@pytest.mark.parametrize(
    "instances",
    [
        [
            {"profile": "4g.20gb", "start": 0}
        ],  # a profile of another board: the pool has just changed its board
        [{"profile": "4g.40gb", "start": 3}],
        [{"profile": "9g.999gb+x", "start": 15, "computeStart": 15}],
        [{"profile": "7g.80gb", "start": 0}, {"profile": "1g.10gb", "start": 0}],
    ],
)
def test_illegal_planned_instances_take_no_room_and_raise_no_error(instances: list[Any]) -> None:
    requested = an_object(allocation="Both", layout="l", migMode="Enabled", instances=instances)
    assert requested.spec is not None
    (gpu, kept) = (gpu_with(place("1g.10gb", 6)), {"gpu-0-mig-1g10gb-0", "gpu-0-mig-4g40gb-0"})
    assert kept <= devices(published_devices(gpu, requested))
    assert plan_steps(gpu, [one.place for one in requested.spec.instances], ()).problem


def test_counters_cover_claims_whatever_a_layout_requests() -> None:
    """The scheduler refuses every device of a pool if one counter is exceeded."""
    states = planner.states(BOARD)
    for claimed in states[:: len(states) // 40]:
        for wanted in states[:: len(states) // 40]:
            gpu = gpu_with(claimed=claimed)
            requested = an_object(
                allocation="Both",
                layout="l",
                migMode="Enabled",
                instances=[{"profile": i.profile.name, "start": i.start} for i in wanted],
            )
            desired = desired_from_objects([requested], 0).instances(gpu) or ()
            both = [*unavailable_instances(gpu, desired), *claimed]
            assert not planner.violations(BOARD, both)


def test_slices_that_cannot_be_written_are_reported_once_on_the_gpu() -> None:
    publisher: Any = FakePublisher()
    events: Any = Events()
    offer = PublishedOffer(SETTINGS, publisher, events)
    requested = [an_object(allocation="DRA")]
    inventory = Inventory("1", "/lib", 0, 0, True, "", (), (gpu_with(),))
    publisher.problem = "API server: 403 no"
    for _ in range(3):
        offer.offer(requested, desired_from_objects(requested, 0), inventory)
    assert len(events.reported) == 1
    assert "403" in events.reported[0]
    ((name, (reason, message)),) = offer.problems().items()
    assert (name, reason, message) == ("a", Reason.AGENT_ERROR, events.reported[0])
    publisher.problem = ""
    assert offer.problems() == {}
    publisher.problem = "again"
    both = [an_object(allocation="Both")]  # a problem with claims does not make the layout fail
    offer.offer(both, desired_from_objects(both, 0), inventory)
    assert len(events.reported) == 2
    assert offer.problems() == {}
    back = [an_object()]  # back to the device plugin, which needs no ResourceSlices
    offer.offer(back, desired_from_objects(back, 0), inventory)
    assert offer.problems() == {}


def test_resources_that_classes_serve_stay_registered_while_claims_have_gpus() -> None:
    publisher: Any = FakePublisher()
    events: Any = Events()
    inventory = Inventory("1", "/lib", 0, 0, True, "", (), (gpu_with(),))
    wanted = [an_object(allocation="DRA")]
    for extended in (False, True):
        settings = dataclasses.replace(SETTINGS, dra_extended=extended)
        offer = PublishedOffer(settings, publisher, events)
        assert offer.claim_resources() == {}
        offer.offer(wanted, desired_from_objects(wanted, 0), inventory)
        names = offer.claim_resources()
        assert ({"nvidia.com/gpu", "nvidia.com/mig-1g.10gb.me"} <= names.keys()) == extended
        assert all(one is CLAIM_SERVED for one in names.values())
        back = [an_object()]
        offer.offer(back, desired_from_objects(back, 0), inventory)
        assert offer.claim_resources() == {}


def test_slices_are_described_again_when_something_of_them_has_changed_and_only_then() -> None:
    publisher: Any = FakePublisher()
    events: Any = Events()
    offer = PublishedOffer(SETTINGS, publisher, events)
    one = place("1g.10gb", 0)
    sick = dataclasses.replace(gpu_with(claimed=(one,)), health="Unhealthy")
    failing = gpu_with(claimed=(one,))
    slices = (dataclasses.replace(failing.slices[0], health="Unhealthy"),)
    other_node = read({**RAW, "metadata": {**RAW["metadata"], "annotations": {NODE_UID: "new"}}})
    for gpu, requested in (
        (gpu_with(), an_object(allocation="DRA")),
        (gpu_with(), an_object(allocation="DRA", allowMultipleAllocations=True)),
        (gpu_with(one), an_object(allocation="DRA")),
        (gpu_with(claimed=(one,)), an_object(allocation="DRA")),
        (sick, an_object(allocation="DRA")),
        (dataclasses.replace(failing, slices=slices), an_object(allocation="DRA")),
        (gpu_with(), other_node),
        (gpu_with(), an_object()),
    ):
        before = publisher.reported
        for _ in range(3):
            inventory = Inventory("1", "/lib", 0, 0, True, "", (), (gpu,))
            offer.offer([requested], desired_from_objects([requested], 0), inventory)
        assert publisher.reported == before + 1


def test_a_claim_s_slice_that_comes_and_goes_does_not_change_the_publication() -> None:
    publisher: Any = FakePublisher()
    events: Any = Events()
    offer = PublishedOffer(SETTINGS, publisher, events)
    requested = an_object(allocation="DRA")
    published = []
    for gpu in (gpu_with(), gpu_with(claimed=(place("1g.10gb", 0),)), gpu_with()):
        inventory = Inventory("1", "/lib", 0, 0, True, "", (), (gpu,))
        offer.offer([requested], desired_from_objects([requested], 0), inventory)
        # a new agent describes the GPU in the same way
        published.append(published_devices(gpu, requested).wanted)
    assert publisher.reported == 1
    assert published[0] == published[1] == published[2] == publisher.wanted
