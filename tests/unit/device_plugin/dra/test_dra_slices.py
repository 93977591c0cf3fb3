"""ResourceSlices: counters accept what the geometry accepts, and slices keep the API's limits.

The scheduler is modelled by its rule: a device is accepted if no counter is exceeded.
"""

import dataclasses
import json
import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from device_plugin.dra import counters, slices
from device_plugin.dra.devices import SUSPECT, UNHEALTHY, Node
from device_plugin.dra.places import list_instances
from device_plugin.dra.slices import OfferedGpu, resource_slices
from device_plugin.inventory.model import Gpu, MigSlice
from facts.document import GpuFacts
from gpu_operator.api import claim_devices as names
from gpu_operator.api.v1alpha1 import quantity
from mig import geometry, planner
from mig.planner.occupancy import budget_of
from vgpu_sim.gpud.devices import claim_shares

NODE = Node("worker", "580.0.1", "13.0", numa_nodes=2)
BOARDS = list(geometry.BOARDS.values())
H100 = geometry.board("h100-80gb")


def gpu_of(board: geometry.Board, index: int = 0, health: str = "Healthy") -> Gpu:
    return Gpu(f"GPU-{index}", index, board, health, ())


def devices_of(specs: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {d["name"]: d for spec in specs.values() for d in spec.get("devices", ())}


def counter_sets(specs: dict[str, dict[str, Any]]) -> dict[str, dict[str, int]]:
    return {
        one["name"]: {name: int(count["value"]) for name, count in one["counters"].items()}
        for spec in specs.values()
        for one in spec.get("sharedCounters", ())
    }


def consumed_counters(device: dict[str, Any]) -> dict[str, int]:
    (consumption,) = device["consumesCounters"]
    return {name: int(count["value"]) for name, count in consumption["counters"].items()}


def instance_of(board: geometry.Board, name: str) -> geometry.Instance:
    device = names.parse(name)
    return geometry.Instance(board.profile(device.profile or "whole"), device.start or 0)


def is_accepted(available: dict[str, int], allocated: Iterable[dict[str, Any]]) -> bool:
    """Return the result of the scheduler's check (checkAvailableCounters of Kubernetes 1.36)."""
    total: Counter[str] = Counter()
    for device in allocated:
        total.update(consumed_counters(device))
    return all(count <= available.get(name, 0) for name, count in total.items())


@pytest.mark.parametrize("board", BOARDS, ids=str)
def test_counters_accept_the_same_devices_as_the_geometry_in_every_state(
    board: geometry.Board,
) -> None:
    """Check every state of all profiles, media and graphics included, with each further device.

    A state consists of devices of claims, which the scheduler subtracts, and of instances of
    layouts, which the slices subtract; its instances are divided at random.
    """
    chance = random.Random(board.key)
    budget = budget_of(board)
    published = resource_slices(NODE, [OfferedGpu(gpu_of(board))])
    (available,) = counter_sets(published).values()
    devices = {instance_of(board, name): d for name, d in devices_of(published).items()}
    assert devices.keys() == set(list_instances(board))
    uses = {one: consumed_counters(device) for one, device in devices.items()}
    costs = {one: budget.of(one.profile, one.start) for one in devices}
    reached = planner.states(board, board.profiles)
    assert len(reached) >= {12: 26, 4: 26, 8: 723}[board.placement_units]
    for state in reached:
        occupied = budget.total(state)
        by_layout = [one for one in state if chance.random() < 0.5]
        by_claim = [one for one in state if one not in by_layout]
        left = counters.remaining_counters(board, by_layout)
        for one in by_claim:
            for name, count in uses[one].items():
                left[name] -= count
        assert min(left.values()) >= 0
        for one, cost in costs.items():
            fits = all(count <= left[name] for name, count in uses[one].items())
            assert fits == budget.is_compatible(occupied, cost), (state, one)
    assert counters.total_counters(board) == available


@pytest.mark.parametrize("board", BOARDS, ids=str)
def test_devices_that_have_no_room_beside_a_layout_are_not_published(board: geometry.Board) -> None:
    for state in planner.states(board)[::13]:
        published = resource_slices(NODE, [OfferedGpu(gpu_of(board), state)])
        (available,) = counter_sets(published).values()
        there = {instance_of(board, name) for name in devices_of(published)}
        room = {
            one for one in list_instances(board) if not planner.violations(board, [*state, one])
        }
        assert there == room
        assert available == counters.remaining_counters(board, state)
        assert all(is_accepted(available, [one]) for one in devices_of(published).values())


@pytest.mark.parametrize("board", BOARDS, ids=str)
def test_a_gpu_instance_that_a_layout_divides_is_taken_as_one_device(board: geometry.Board) -> None:
    """Claims get no part of a GPU instance, and no room in one that is divided."""
    for profile in board.profiles:
        for inner in profile.ci_profiles:
            for start in profile.starts if not inner.is_full else ():
                parts = [board.instance(inner.name, start, at) for at in inner.starts]
                whole = geometry.Instance(profile, start)
                divided, whole_one = (
                    resource_slices(NODE, [OfferedGpu(gpu_of(board), taken)])
                    for taken in (tuple(parts), (whole,))
                )
                assert divided == whole_one
                room = {
                    one
                    for one in list_instances(board)
                    if not planner.violations(board, [*parts, one])
                }
                assert {instance_of(board, name) for name in devices_of(divided)} == room
    assert all(one.compute is None for one in list_instances(board))


def test_a_limit_on_a_profile_that_nothing_else_implies_gets_a_counter() -> None:
    small = dataclasses.replace(H100.profile("1g.10gb"), max_count=2)
    others = tuple(one for one in H100.profiles if one.name != small.name)
    board = dataclasses.replace(H100, key="odd", profiles=(small, *others))
    assert counters.total_counters(board)["profile-19"] == 2
    two = [geometry.Instance(small, start) for start in (0, 1)]
    third = geometry.Instance(small, 2)
    assert not counters.fits(
        counters.remaining_counters(board, two), counters.used_counters(third, board)
    )
    assert counters.fits(
        counters.remaining_counters(board, two[:1]), counters.used_counters(third, board)
    )


@pytest.mark.parametrize("board", BOARDS, ids=str)
@pytest.mark.parametrize("count", [1, 3, 8])
def test_slices_keep_the_limits_of_the_api(board: geometry.Board, count: int) -> None:
    published = resource_slices(NODE, [OfferedGpu(gpu_of(board, index)) for index in range(count)])
    assert len(devices_of(published)) == count * len(list_instances(board))
    for number, (name, spec) in enumerate(published.items()):
        assert name == f"worker-gpu.tessera.dev-{number}"
        assert spec["pool"] == {"name": "worker", "resourceSliceCount": len(published)}
        assert ("devices" in spec) != ("sharedCounters" in spec)
        assert len(spec.get("devices", ())) <= 64
        assert len(spec.get("sharedCounters", ())) <= 8
        assert all(len(one["counters"]) <= 32 for one in spec.get("sharedCounters", ()))
        for device in spec.get("devices", ()):
            assert len(device["attributes"]) + len(device["capacity"]) <= 32
            texts = [value.get("string", "") for value in device["attributes"].values()]
            assert max(map(len, texts)) <= 64
        assert len(json.dumps(spec)) < 512 << 10
    assert sorted(published) == list(published)  # the scheduler reads them in the order of names
    assert len(published) <= 10


def test_the_first_device_that_a_request_fits_is_the_one_to_take() -> None:
    published = resource_slices(NODE, [OfferedGpu(gpu_of(H100, index)) for index in (0, 1)])
    there = [names.parse(name) for name in devices_of(published)]
    small = [(one.gpu_index, one.start) for one in there if one.profile == "1g.10gb"]
    assert small[0] == (0, 6)  # no profile larger than two units can use unit 6
    assert [gpu for gpu, _ in small] == sorted(gpu for gpu, _ in small)
    large = next(one.start for one in there if one.profile == "3g.40gb")
    assert large == 4  # 4g can only be at 0
    sizes = [H100.profile(one.profile or "whole").memory_bytes for one in there]
    assert sizes == sorted(sizes)
    assert there[-1].is_whole


def test_attributes_of_a_mig_device_and_a_whole_gpu() -> None:
    found = devices_of(resource_slices(NODE, [OfferedGpu(gpu_of(H100, 1))]))
    mig, whole = found["gpu-1-mig-2g20gb-4"], found["gpu-1"]
    assert mig["attributes"] == {
        "type": {"string": "mig"},
        "profile": {"string": "2g.20gb"},
        "parentUUID": {"string": "GPU-1"},
        "parentIndex": {"int": 1},
        "placementStart": {"int": 4},
        "placementSize": {"int": 2},
        "productName": {"string": "NVIDIA H100 80GB HBM3"},
        "brand": {"string": "Nvidia"},
        "architecture": {"string": "Hopper"},
        "board": {"string": "h100-80gb"},
        "cudaComputeCapability": {"version": "9.0.0"},
        "driverVersion": {"version": "580.0.1"},
        "cudaDriverVersion": {"version": "13.0.0"},
        "numaNode": {"int": 1},
        "resource.kubernetes.io/pcieRoot": {"string": "pci0000:02"},
        "resource.kubernetes.io/pciBusID": {"string": "0000:02:00.0"},
    }
    assert mig["capacity"]["multiprocessors"] == {"value": "32"}
    assert mig["capacity"]["memory"] == {"value": "20096Mi"}
    assert whole["attributes"]["type"] == {"string": "gpu"}
    assert whole["attributes"]["uuid"] == {"string": "GPU-1"}
    assert consumed_counters(whole) == counters.total_counters(H100)
    assert "taints" not in mig


@pytest.mark.parametrize("board", BOARDS, ids=str)
def test_a_shared_device_s_policy_is_one_that_the_api_server_takes(board: geometry.Board) -> None:
    """The rules are validateRequestPolicyRange of Kubernetes 1.36 and gpud's limit of shares."""
    alone = devices_of(resource_slices(NODE, [OfferedGpu(gpu_of(board))]))
    found = devices_of(resource_slices(NODE, [OfferedGpu(gpu_of(board), shared=True)]))
    assert list(found) == list(alone)
    for name, device in found.items():
        assert device.pop("allowMultipleAllocations") is True
        policies = {what: one.pop("requestPolicy") for what, one in device["capacity"].items()}
        assert device == alone[name]
        value = quantity.parse_api_quantity(device["capacity"]["memory"]["value"])
        memory = policies.pop("memory")
        default = quantity.parse_api_quantity(memory["default"])
        least, step = (
            quantity.parse_api_quantity(memory["validRange"][one]) for one in ("min", "step")
        )
        assert default == value  # a request without an amount gets all of it
        assert (default - least) % step == 0
        assert least + step <= value
        assert value // least <= claim_shares.MAX_SHARES
        assert set(map(str, policies.values())) == {"{'default': '0'}"}
        policy = names.share_policy(value)
        assert policy.round_up(1) == policy.round_up(least) == least
        assert policy.round_up(least + 1) == least + step
        assert policy.round_up(value) == value
        assert policy.round_up(value + 1) > value


def test_places_follow_the_topology() -> None:
    gpu = dataclasses.replace(gpu_of(H100, 5), facts=GpuFacts(topology="dgx-h100"))
    found = devices_of(resource_slices(NODE, [OfferedGpu(gpu)]))["gpu-5"]["attributes"]
    assert found["numaNode"] == {"int": 1}
    assert found["resource.kubernetes.io/pciBusID"] == {"string": "0000:c3:00.0"}
    # The root is the bus of the HCA below the same bridge, which is lower than the GPU's.
    assert found["resource.kubernetes.io/pcieRoot"] == {"string": "pci0000:c0"}
    own = "custom:numa=2;nvlinks=0;gpus=10.0.0.0,c3.1.1.1;hcas=c1.1.1.2"
    gpu = dataclasses.replace(gpu_of(H100, 1), facts=GpuFacts(topology=own))
    found = devices_of(resource_slices(NODE, [OfferedGpu(gpu)]))["gpu-1"]["attributes"]
    assert found["numaNode"] == {"int": 1}
    assert found["resource.kubernetes.io/pciBusID"] == {"string": "0000:c3:00.0"}
    assert found["resource.kubernetes.io/pcieRoot"] == {"string": "pci0000:c1"}


def test_health_becomes_taints() -> None:
    sick = gpu_of(H100, health="Unhealthy: Xid 79, GPU has fallen off the bus")
    found = devices_of(resource_slices(NODE, [OfferedGpu(sick)]))
    taint = {"key": UNHEALTHY, "effect": "NoSchedule", "value": "xid-79"}
    assert all(device["taints"] == [taint] for device in found.values())
    odd = devices_of(resource_slices(NODE, [OfferedGpu(gpu_of(H100, health="Suspect: Xid 94"))]))
    reported = {"key": SUSPECT, "effect": "None", "value": "xid-94"}
    assert all(device["taints"] == [reported] for device in odd.values())


def test_a_sick_instance_of_a_claim_taints_its_device_only() -> None:
    place = geometry.Instance(H100.profile("1g.10gb"), 6)
    one = MigSlice("MIG-6", "GPU-0", place, 1, 0, 1, "/run/6", 0, (), health="Unhealthy: Xid 48")
    gpu = dataclasses.replace(gpu_of(H100), slices=(one,))
    found = devices_of(resource_slices(NODE, [OfferedGpu(gpu)]))
    assert [name for name, d in found.items() if "taints" in d] == ["gpu-0-mig-1g10gb-6"]


@pytest.mark.parametrize(
    ("gpu_health", "slice_health", "effect"),
    [
        ("Unhealthy: Xid 79", "Healthy", "NoSchedule"),
        ("Unhealthy: Xid 79", "Suspect: Xid 94", "NoSchedule"),
        ("Suspect: Xid 94", "Unhealthy: Xid 48", "NoSchedule"),
        ("Suspect: Xid 94", "Healthy", None),  # another slice had the event
        ("Healthy", "Suspect: Xid 94", "None"),
        ("Healthy", "Healthy", None),
    ],
)
def test_a_slice_that_is_there_is_no_better_than_its_gpu(
    gpu_health: str, slice_health: str, effect: str | None
) -> None:
    place = geometry.Instance(H100.profile("1g.10gb"), 6)
    one = MigSlice("MIG-6", "GPU-0", place, 1, 0, 1, "/run/6", 0, (), health=slice_health)
    gpu = dataclasses.replace(gpu_of(H100, health=gpu_health), slices=(one,))
    found = devices_of(resource_slices(NODE, [OfferedGpu(gpu)]))["gpu-0-mig-1g10gb-6"]
    assert [taint["effect"] for taint in found.get("taints", ())] == ([effect] if effect else [])


def test_a_node_that_offers_nothing_has_no_slice() -> None:
    assert resource_slices(NODE, []) == {}
    full = OfferedGpu(gpu_of(H100), (geometry.Instance(H100.whole, 0),))
    published = resource_slices(NODE, [full])
    assert set(counter_sets(published)["gpu-0"].values()) == {0}
    assert devices_of(published) == {}
    assert slices.slice_name("worker", 0) == "worker-gpu.tessera.dev-0"
