"""GPU objects divided into applicable and refused ones, and the devices that stay frozen."""

from dataclasses import replace
from typing import Any

from device_plugin.agent.desired_state import desired_from_objects
from device_plugin.agent.reporting import status
from device_plugin.inventory.model import Gpu, Inventory, MigSlice
from device_plugin.kube.gpu_object import GpuObject, read
from facts.document import GpuFacts
from gpu_operator.api.v1alpha1.base import Reason
from mig import geometry

BOARD = geometry.board("h100-80gb")


def an_object(name: str, **spec: Any) -> GpuObject:
    whole = {"nodeName": "n", "index": 0, "board": BOARD.key, "uuid": f"GPU-{name}", "pool": "p"}
    return read({"metadata": {"name": name, "generation": 1}, "spec": whole | spec})


def gpu(name: str, index: int = 0, slices: int = 0) -> Gpu:
    made = tuple(
        MigSlice(
            f"MIG-{name}-{i}",
            f"GPU-{name}",
            geometry.Instance(BOARD.profile("1g.10gb"), i),
            1,
            0,
            1,
            "/run",
            0,
            (),
        )
        for i in range(slices)
    )
    return Gpu(f"GPU-{name}", index, BOARD, "Healthy", made)


def inventory(*gpus: Gpu) -> Inventory:
    return Inventory("1", "/lib", 0, 0, True, "", ("landlock", "seccomp"), gpus)


def test_objects_become_configuration_and_budget() -> None:
    wanted = [an_object("a", index=1, nodeBudget="2Gi"), an_object("b")]
    desired = desired_from_objects(wanted, 1)
    assert desired.budget_bytes == 2 << 30
    assert [(g["index"], g["uuid"]) for g in desired.configuration(inventory())] == [
        (0, "GPU-b"),
        (1, "GPU-a"),
    ]
    assert not desired.refused
    assert desired_from_objects([an_object("a")], 7).budget_bytes == 7


def test_each_bad_object_is_refused_alone_with_its_reason() -> None:
    wanted = [
        an_object("good"),
        an_object("board", board="h9000", index=1),
        an_object("same-index"),
        an_object("same-uuid", uuid="GPU-good", index=2),
        an_object("extra", index=3, fieldOfTomorrow=1),
        an_object("budget", index=4, nodeBudget="lots"),
    ]
    desired = desired_from_objects(wanted, 0)
    assert list(desired.gpus) == ["GPU-good"]
    assert {name: reason for name, (reason, _) in desired.refused.items()} == {
        "board": Reason.UNKNOWN_BOARD,
        "same-index": Reason.NODE_CONFLICT,
        "same-uuid": Reason.NODE_CONFLICT,
        "extra": Reason.INVALID_SPEC,
        "budget": Reason.INVALID_SPEC,
    }
    assert "fieldOfTomorrow" in desired.refused["extra"][1]


def test_a_refused_objects_device_stays_as_it_is_and_a_deleted_ones_goes() -> None:
    desired = desired_from_objects([an_object("a", fieldOfTomorrow=1)], 0)
    assert desired.instances(gpu("a", slices=1)) is None
    assert desired.instances(gpu("b", slices=1)) == ()
    there = inventory(gpu("a"), gpu("b", 1, slices=1), gpu("c", 2))
    kept = [g["uuid"] for g in desired.configuration(there)]
    assert kept == ["GPU-a", "GPU-b"]  # b still has a slice, c is removed


def test_an_object_that_cannot_be_read_at_all_freezes_the_node() -> None:
    desired = desired_from_objects([an_object("a", uuid=7)], 0)
    assert desired.all_frozen
    assert desired.instances(gpu("z")) is None


def test_a_device_that_changes_board_or_index_is_emptied_before_it_changes() -> None:
    desired = desired_from_objects(
        [an_object("a", index=3, instances=[{"profile": "1g.10gb", "start": 0}])], 0
    )
    assert desired.instances(gpu("a", 0, slices=1)) == ()
    assert desired.configuration(inventory(gpu("a", 0, slices=1)))[0]["index"] == 0
    assert desired.configuration(inventory(gpu("a", 0)))[0]["index"] == 3
    assert desired.instances(gpu("a", 3)) == desired.gpus["GPU-a"].instances


def test_an_unreadable_status_is_written_anew_not_fatal() -> None:
    found = read({"metadata": {"name": "a"}, "spec": None, "status": {"slices": "many"}})
    assert found.problem
    assert found.status.slices == ()


def test_a_gpu_that_claims_may_take_is_not_made_whole_for_want_of_a_layout() -> None:
    whole = [{"profile": "whole", "start": 0}]
    for how, layout, count in (
        ("DevicePlugin", None, 1),
        ("DRA", None, 0),
        ("DRA", "l", 0),
        ("Both", None, 0),
        ("Both", "l", 1),
    ):
        wanted = an_object("a", allocation=how, instances=whole, layout=layout, migMode="Disabled")
        requested = desired_from_objects([wanted], 0).instances(gpu("a"))
        assert requested is not None
        assert len(requested) == count, (how, layout)


def test_a_topology_reaches_gpud_once_the_gpu_has_no_slices_and_bad_places_are_refused() -> None:
    desired = desired_from_objects([an_object("a", index=5, topology="dgx-h100")], 0)
    (row,) = desired.configuration(inventory())
    assert row["topology"] == "dgx-h100"
    (row,) = desired.configuration(inventory(gpu("a", 5, slices=1)))
    assert "topology" not in row  # without the field gpud uses the same default
    refused = desired_from_objects([an_object("a", index=5, topology="hgx-4")], 0).refused
    assert refused["a"] == (
        Reason.INVALID_SPEC,
        "spec.topology: hgx-4 has room for 4 GPUs, not 6",
    )
    own = "custom:numa=1;nvlinks=0;gpus=10.0.0.0"
    (row,) = desired_from_objects([an_object("a", index=0, topology=own)], 0).configuration(
        inventory()
    )
    assert row["topology"] == own
    refused = desired_from_objects([an_object("a", index=1, topology=own)], 0).refused
    assert refused["a"][1] == "spec.topology: the custom topology has room for 1 GPUs, not 2"
    strange = desired_from_objects([an_object("a", index=0, topology="of tomorrow")], 0).refused
    assert "no topology 'of tomorrow'" in strange["a"][1]


def test_numa_nodes_follow_the_topology() -> None:
    flat, placed = gpu("a", 5), replace(gpu("b", 5), facts=GpuFacts(topology="dgx-h100"))
    assert (flat.root, placed.root) == (5, 1)


def test_a_status_has_the_boards_peaks_as_the_model_has_them() -> None:
    peak = status.peak_of("h100-80gb")
    assert peak is not None
    assert (peak.memory_gigabytes_per_second, peak.fp32_gigaflops) == (3350, 66900)
    assert peak.tensor_gigaflops["bf16"] == 989400
    assert status.peak_of("of tomorrow") is None
    written = peak.model_dump(by_alias=True)
    assert {"memoryGigabytesPerSecond", "linkGigabytesPerSecond", "pcieGigabytesPerSecond"} < set(
        written
    )
