"""What the agent offers to claims: what layouts leave, on the GPUs that are allocated so."""

import dataclasses
from typing import Any

import pytest

from device_plugin.agent.claims import PublishedOffer, taken
from device_plugin.agent.desired import sort_out
from device_plugin.agent.steps import plan_steps
from device_plugin.config import Settings
from device_plugin.dp.offer import KEPT
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


class Heard:
    """A publisher that notes what it is told."""

    def __init__(self) -> None:
        self.wanted: Any = None
        self.owners: Any = None
        self.problem = ""
        self.told = 0

    def offer(self, wanted: Any, owners: Any) -> None:
        self.told += 1
        self.wanted, self.owners = wanted, owners


class Events:
    def __init__(self) -> None:
        self.told: list[str] = []

    def post_gpu(self, name: str, uid: str, reason: Any, message: str, warning: bool) -> None:
        del name, uid, reason, warning
        self.told.append(message)


def offered(gpu: Gpu, *objects: GpuObject) -> Heard:
    heard: Any = Heard()
    events: Any = Events()
    desired = sort_out(objects, 0)
    inventory = Inventory("1", "/lib", 0, 0, True, "", (), (gpu,))
    PublishedOffer(SETTINGS, heard, events).offer(objects, desired, inventory)
    result: Heard = heard
    return result


def devices(heard: Heard) -> set[str]:
    return {d["name"] for spec in heard.wanted.values() for d in spec.get("devices", ())}


def counters(heard: Heard) -> dict[str, str]:
    (one,) = heard.wanted[slice_name("n", 0)]["sharedCounters"]
    return {name: count["value"] for name, count in one["counters"].items()}


def test_a_gpu_of_the_device_plugin_is_not_offered_to_claims() -> None:
    assert offered(gpu_with(), an_object()).wanted == {}
    assert offered(gpu_with()).wanted == {}
    assert offered(gpu_with(), an_object(allocation="DRA")).wanted != {}


def test_the_node_object_owns_the_slices() -> None:
    heard = offered(gpu_with(), an_object(allocation="DRA"))
    (owner,) = heard.owners
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Node", "n", "node-uid")


def test_layouts_slices_are_taken_and_claims_own_are_not() -> None:
    gpu = gpu_with(place("3g.40gb", 4), claimed=(place("1g.10gb", 0),))
    heard = offered(
        gpu,
        an_object(
            allocation="Both",
            layout="l",
            migMode="Enabled",
            instances=[{"profile": "3g.40gb", "start": 4}],
        ),
    )
    assert "gpu-0-mig-1g10gb-0" in devices(heard)  # else the scheduler would count it as free
    assert "gpu-0-mig-1g10gb-5" not in devices(heard)
    assert counters(heard)["memory-slice-0"] == "1"
    assert counters(heard)["memory-slice-5"] == "0"
    assert counters(heard)["compute-slices"] == "4"


def test_what_a_layout_is_about_to_make_is_taken_already() -> None:
    heard = offered(
        gpu_with(),
        an_object(
            allocation="Both",
            layout="l",
            migMode="Enabled",
            instances=[{"profile": "4g.40gb", "start": 0}],
        ),
    )
    assert "gpu-0-mig-1g10gb-0" not in devices(heard)
    assert "gpu-0-mig-3g40gb-4" in devices(heard)


@pytest.mark.parametrize(
    "instances",
    [
        [{"profile": "4g.20gb", "start": 0}],  # another board's: the pool has just changed its own
        [{"profile": "4g.40gb", "start": 3}],
        [{"profile": "9g.999gb+x", "start": 15, "computeStart": 15}],
        [{"profile": "7g.80gb", "start": 0}, {"profile": "1g.10gb", "start": 0}],
    ],
)
def test_what_a_board_cannot_have_takes_nothing_and_ends_no_agent(instances: list[Any]) -> None:
    asked = an_object(allocation="Both", layout="l", migMode="Enabled", instances=instances)
    assert asked.spec is not None
    (gpu, kept) = (gpu_with(place("1g.10gb", 6)), {"gpu-0-mig-1g10gb-0", "gpu-0-mig-4g40gb-0"})
    assert kept <= devices(offered(gpu, asked))
    assert plan_steps(gpu, [one.place for one in asked.spec.instances], ()).problem


def test_no_counter_is_below_what_claims_use_whatever_a_layout_wants() -> None:
    """The scheduler refuses every device of a pool in which one counter is exceeded."""
    states = planner.states(BOARD)
    for claimed in states[:: len(states) // 40]:
        for wanted in states[:: len(states) // 40]:
            gpu = gpu_with(claimed=claimed)
            asked = an_object(
                allocation="Both",
                layout="l",
                migMode="Enabled",
                instances=[{"profile": i.profile.name, "start": i.start} for i in wanted],
            )
            desired = sort_out([asked], 0).instances(gpu) or ()
            both = [*taken(gpu, desired), *claimed]
            assert not planner.violations(BOARD, both)


def test_slices_that_cannot_be_written_are_told_once_on_the_gpu() -> None:
    heard: Any = Heard()
    events: Any = Events()
    offer = PublishedOffer(SETTINGS, heard, events)
    asked = [an_object(allocation="DRA")]
    inventory = Inventory("1", "/lib", 0, 0, True, "", (), (gpu_with(),))
    heard.problem = "API server: 403 no"
    for _ in range(3):
        offer.offer(asked, sort_out(asked, 0), inventory)
    assert len(events.told) == 1
    assert "403" in events.told[0]
    ((name, (reason, message)),) = offer.problems().items()
    assert (name, reason, message) == ("a", Reason.AGENT_ERROR, events.told[0])
    heard.problem = ""
    assert offer.problems() == {}
    heard.problem = "again"
    both = [an_object(allocation="Both")]  # a layout is not rolled back for what claims lack
    offer.offer(both, sort_out(both, 0), inventory)
    assert len(events.told) == 2
    assert offer.problems() == {}
    back = [an_object()]  # the device plugin's: nothing of it hangs on slices
    offer.offer(back, sort_out(back, 0), inventory)
    assert offer.problems() == {}


def test_resources_that_classes_serve_stay_registered_while_claims_have_gpus() -> None:
    heard: Any = Heard()
    events: Any = Events()
    inventory = Inventory("1", "/lib", 0, 0, True, "", (), (gpu_with(),))
    wanted = [an_object(allocation="DRA")]
    for extended in (False, True):
        settings = dataclasses.replace(SETTINGS, dra_extended=extended)
        offer = PublishedOffer(settings, heard, events)
        assert offer.kept() == {}
        offer.offer(wanted, sort_out(wanted, 0), inventory)
        names = offer.kept()
        assert ({"nvidia.com/gpu", "nvidia.com/mig-1g.10gb.me"} <= names.keys()) == extended
        assert all(one is KEPT for one in names.values())
        back = [an_object()]
        offer.offer(back, sort_out(back, 0), inventory)
        assert offer.kept() == {}


def test_slices_are_described_again_when_something_of_them_has_changed_and_only_then() -> None:
    heard: Any = Heard()
    events: Any = Events()
    offer = PublishedOffer(SETTINGS, heard, events)
    one = place("1g.10gb", 0)
    sick = dataclasses.replace(gpu_with(claimed=(one,)), health="Unhealthy")
    failing = gpu_with(claimed=(one,))
    slices = (dataclasses.replace(failing.slices[0], health="Unhealthy"),)
    other_node = read({**RAW, "metadata": {**RAW["metadata"], "annotations": {NODE_UID: "new"}}})
    for gpu, asked in (
        (gpu_with(), an_object(allocation="DRA")),
        (gpu_with(), an_object(allocation="DRA", allowMultipleAllocations=True)),
        (gpu_with(one), an_object(allocation="DRA")),
        (gpu_with(claimed=(one,)), an_object(allocation="DRA")),
        (sick, an_object(allocation="DRA")),
        (dataclasses.replace(failing, slices=slices), an_object(allocation="DRA")),
        (gpu_with(), other_node),
        (gpu_with(), an_object()),
    ):
        before = heard.told
        for _ in range(3):
            inventory = Inventory("1", "/lib", 0, 0, True, "", (), (gpu,))
            offer.offer([asked], sort_out([asked], 0), inventory)
        assert heard.told == before + 1


def test_a_claim_s_slice_that_comes_and_goes_changes_nothing_of_what_is_published() -> None:
    heard: Any = Heard()
    events: Any = Events()
    offer = PublishedOffer(SETTINGS, heard, events)
    asked = an_object(allocation="DRA")
    published = []
    for gpu in (gpu_with(), gpu_with(claimed=(place("1g.10gb", 0),)), gpu_with()):
        inventory = Inventory("1", "/lib", 0, 0, True, "", (), (gpu,))
        offer.offer([asked], sort_out([asked], 0), inventory)
        published.append(offered(gpu, asked).wanted)  # as one who has just started describes it
    assert heard.told == 1
    assert published[0] == published[1] == published[2] == heard.wanted
