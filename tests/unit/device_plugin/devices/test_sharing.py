"""Shared slices as the kubelet sees them: their ids, their holders, and refused allocations."""

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from device_plugin.agent.desired_state import Desired
from device_plugin.agent.holding import ABSENT_S, HolderMemory
from device_plugin.agent.loop import Agent
from device_plugin.backends.gpud import Gpud
from device_plugin.dp.allocations import Allocations
from device_plugin.dp.slices import SliceOffer, left_over_ids
from device_plugin.inventory.model import Gpu, HolderPod, Inventory, MigSlice, slice_uuid_of
from device_plugin.inventory.resources import Kind, assign_resources
from gpu_operator.api.v1alpha1.gpupolicy import Strategy
from gpu_operator.api.v1alpha1.sharing import Shared, SharingKind
from mig import geometry

BOARD = geometry.board("h100-80gb")
SLICES = tuple(
    MigSlice(
        f"MIG-{start}",
        "GPU-1",
        geometry.Instance(BOARD.profile("1g.10gb"), start),
        *(1, 0, 1, f"/run/{start}", 0, ()),
    )
    for start in range(2)
)
MIGS = ("MIG-0", "MIG-1")
GPU = Gpu("GPU-1", 0, BOARD, "Healthy", SLICES)
ONE = HolderPod("team", "one", "11111111-1111-4111-8111-111111111111")
TWO = HolderPod("team", "two", "22222222-2222-4222-8222-222222222222")


def make_shared(fail: bool = False, offered_as: str = "mig-1g.10gb") -> Shared:
    return Shared(
        name="mig-1g.10gb",
        offered_as=offered_as,
        replicas=3,
        kind=SharingKind.TIME_SLICING,
        fail_greater_than_one=fail,
    )


def offer(fail: bool = False) -> SliceOffer:
    every = {one.uuid: make_shared(fail) for one in SLICES}
    return SliceOffer(SLICES, (GPU,), "/lib", shared=every)


def test_each_slice_is_listed_so_often_and_mounted_once() -> None:
    ids = [f"MIG-{start}::{number}" for start in range(2) for number in range(3)]
    assert [device.ID for device in offer().devices()] == ids
    assert set(offer().allocatable_ids()) == set(ids)
    given = offer().container(["MIG-0::0", "MIG-0::2"], use_cdi=True)
    assert [one.name for one in given.cdi_devices] == ["gpu.tessera.dev/mig=MIG-0"] or len(
        given.cdi_devices
    ) == 1


@pytest.mark.parametrize(
    ("fail", "ids", "refused"),
    [
        (True, ["MIG-0::0"], False),
        (True, ["MIG-0::0", "MIG-1::0"], True),
        (False, ["MIG-0::0", "MIG-1::0"], False),
    ],
)
def test_more_than_one_is_refused_in_nvidias_words(
    fail: bool, ids: list[str], refused: bool
) -> None:
    said = "invalid request: maximum request size for shared resources is 1; found 2"
    assert offer(fail).problem(ids) == (said if refused else "")


def test_shares_are_spread_over_slices() -> None:
    free = ["MIG-0::1", "MIG-0::2", "MIG-1::0", "MIG-1::1", "MIG-1::2"]
    first = offer().prefer(free, [], 1, [])
    assert [slice_uuid_of(one) for one in first] == ["MIG-1"]
    assert {slice_uuid_of(one) for one in offer().prefer(free, [], 4, [])} == {"MIG-0", "MIG-1"}
    assert offer().prefer(free, ["MIG-0::1"], 1, []) == ["MIG-0::1"]


@pytest.mark.parametrize(
    ("held", "listed"),
    [
        ((), {"::0", "::1", "::2"}),
        (("::2",), {"::0", "::1", "::2"}),
        (("::5",), {"::0", "::1", "::5"}),
        (("::1", "::5"), {"::0", "::1", "::5"}),
        (("::2", "::4", "::5"), {"::2", "::4", "::5"}),
    ],
)
def test_a_share_of_more_than_there_are_now_stays_its_pod_s_and_counts_as_one(
    held: tuple[str, ...], listed: set[str]
) -> None:
    every = {one.uuid: make_shared() for one in SLICES}
    over = left_over_ids(every, [*("MIG-0" + one for one in held), "MIG-1::0", "MIG-9::7", "MIG-8"])
    made = replace(offer(), left_over=over)
    ids = [device.ID for device in made.devices()]
    assert {one.removeprefix("MIG-0") for one in ids if one.startswith("MIG-0")} == listed
    assert [one for one in ids if one.startswith("MIG-1")] == [f"MIG-1::{n}" for n in range(3)]
    assert set(made.allocatable_ids()) >= {*ids, "MIG-0::0", "MIG-0::1", "MIG-0::2"}


def test_four_pods_of_three_shares_are_counted_as_three_and_no_other_gets_theirs() -> None:
    held = [f"MIG-0::{number}" for number in range(2, 6)]
    made = replace(offer(), left_over=left_over_ids(offer().shared, held))
    ids = [device.ID for device in made.devices()]
    assert [one for one in ids if one.startswith("MIG-0")] == held[:3]
    ended = [
        "MIG-0::2",
        "MIG-0::3",
        "MIG-1::2",
    ]  # the kubelet observes the end of pods before the agent does
    assert made.prefer(ended, [], 1, []) == ["MIG-1::2"]
    assert made.prefer(ended[:2], [], 1, []) == ["MIG-0::2"], "a pod that is bound does not fail"


def test_the_resource_has_the_name_that_sharing_gives_it() -> None:
    every = {"GPU-1": (make_shared(offered_as="mig-1g.10gb.shared"),)}
    found = assign_resources("nvidia.com", Strategy.MIXED, SLICES, (), every)
    assert set(found.names.values()) == {"nvidia.com/mig-1g.10gb.shared"}
    assert found.shared.keys() == {"MIG-0", "MIG-1"}
    single = assign_resources("nvidia.com", Strategy.SINGLE, SLICES, (), every)
    assert (set(single.names.values()), single.shared) == ({"nvidia.com/gpu"}, {})


def test_sharers_hold_a_slice_together_and_each_share_changes_hands_by_itself() -> None:
    memory = HolderMemory()
    view = memory.observe({"MIG-0::0": (ONE,), "MIG-0::1": (TWO,)}, True, 0)
    assert view.holders == {"MIG-0": (ONE, TWO)}
    new = HolderPod("team", "new", "33333333-3333-4333-8333-333333333333")
    view = memory.observe({"MIG-0::0": (new,), "MIG-0::1": (TWO,)}, True, 1)
    assert view.holders == {"MIG-0": (new, TWO)}
    memory.observe({"MIG-0::1": (TWO,)}, True, 2)
    view = memory.observe({"MIG-0::1": (TWO,)}, True, 2 + ABSENT_S)
    assert view.holders == {"MIG-0": (TWO,)}


def test_a_slice_of_which_a_share_is_on_its_way_is_not_destroyed() -> None:
    now = [0.0]
    allocations = Allocations(clock=lambda: now[0], listed_within_s=30)
    assert allocations.allocate(["MIG-0::1"]) is None
    allocations.confirm_listed(["MIG-0::0"])
    assert not allocations.forbid("MIG-0")
    allocations.confirm_listed(["MIG-0::1"])
    assert allocations.forbid("MIG-0")
    assert allocations.allocate(["MIG-0::2"]) == "MIG-0::2"


def test_an_agent_that_does_not_know_the_sharing_does_not_send_it() -> None:
    """The agent starts while the API server is away; gpud keeps the sharing that it has."""
    gpud, holders = MagicMock(), MagicMock(**{"allocated_kinds.return_value": {}})
    settings = MagicMock(budget="1Gi", resource_prefix="gpu.tessera.dev")
    agent = Agent(settings, gpud, holders, *(MagicMock() for _ in range(6)))
    inventory = Inventory("1", "/lib", 0, 0, True, "", (), (GPU,))
    agent._send_sharing(inventory, {})
    gpud.set_sharing.assert_not_called()
    agent._offering.set_desired(Desired(), in_pool=False)
    agent._send_sharing(inventory, {})
    gpud.set_sharing.assert_called_once_with({})


def test_gpud_keeps_the_limits_by_which_pods_got_a_slice() -> None:
    """Until they end, pods keep an exclusive slice whole, and sharing pods keep their parts."""
    gpud, holders = MagicMock(), MagicMock(seen_at=lambda: 0.0)
    settings = MagicMock(budget="1Gi", resource_prefix="p")
    agent = Agent(settings, gpud, holders, *(MagicMock() for _ in range(6)))
    inventory = Inventory("1", "/lib", 0, 0, True, "", (), (GPU,))
    name, mps = "p/mig-1g.10gb", make_shared().model_copy(update={"kind": SharingKind.MPS})
    spec: Any = MagicMock(sharing=(mps,))
    agent._offering.set_desired(Desired({"GPU-1": spec}), in_pool=True)
    for given, reported in (
        ({"MIG-0": frozenset({Kind(name)})}, {"MIG-1": ("mps", 3)}),
        ({"MIG-0": frozenset({Kind(name, is_share=True)})}, dict.fromkeys(MIGS, ("mps", 3))),
    ):
        holders.allocated_kinds.return_value = given
        agent._send_sharing(inventory, {})
        gpud.set_sharing.assert_called_with(reported)
    agent._offering.set_desired(Desired(), in_pool=True)
    agent._send_sharing(inventory, {})
    gpud.set_sharing.assert_called_with({"MIG-0": ("mps", 3)})
    holders.allocated_kinds.return_value = {}
    agent._send_sharing(inventory, {})
    gpud.set_sharing.assert_called_with({})


@pytest.mark.parametrize("all_frozen", [True, False])
def test_a_gpu_whose_object_is_refused_keeps_its_sharing_and_strategy(all_frozen: bool) -> None:
    gpud, holders = (
        MagicMock(),
        MagicMock(**{"allocated_kinds.return_value": {}, "seen_at": lambda: 0.0}),
    )
    settings = MagicMock(budget="1Gi", resource_prefix="p")
    agent = Agent(settings, gpud, holders, *(MagicMock() for _ in range(6)))
    inventory = Inventory("1", "/lib", 0, 0, True, "", (), (GPU,))
    single = make_shared(offered_as="gpu.shared").model_copy(update={"name": "gpu"})
    spec: Any = MagicMock(sharing=(single,))
    agent._offering.set_desired(Desired({"GPU-1": spec}, strategy=Strategy.SINGLE), in_pool=True)
    before = agent._offering.name_resources(inventory, {})
    frozen = frozenset[str]() if all_frozen else frozenset({"GPU-1"})
    agent._offering.set_desired(Desired(frozen=frozen, all_frozen=all_frozen), in_pool=True)
    assert agent._offering.name_resources(inventory, {}) == before
    agent._send_sharing(inventory, {})
    gpud.set_sharing.assert_called_with(dict.fromkeys(MIGS, ("time-slicing", 3)))
    agent._offering.set_desired(Desired(), in_pool=True)  # the GPU object was deleted
    agent._send_sharing(inventory, {})
    gpud.set_sharing.assert_called_with({})


def test_gpud_gets_each_pod_once_with_all_its_claims() -> None:
    """Tenants may have many claims; the size of the request depends on the number of pods only."""
    reported: list[dict[str, Any]] = []

    class FakePublisher(Gpud):
        def call(self, method: str, **params: Any) -> dict[str, Any]:
            assert method == "set_holders"
            reported.append(params)
            return {}

    claims = ["claim:a", "claim:b"]
    pods = [*(replace(ONE, claim=claim) for claim in claims), replace(TWO, claim="claim:b"), ONE]
    FakePublisher(Path("/nowhere")).set_holders({"MIG-1": pods, "MIG-2": [TWO]}, complete=True)
    ((rows, others),) = [one["holders"].values() for one in reported]
    assert [(row["pod_uid"], row.get("claims")) for row in rows] == [
        (ONE.uid, claims),
        (TWO.uid, ["claim:b"]),
    ]
    assert "claims" not in others[0]
