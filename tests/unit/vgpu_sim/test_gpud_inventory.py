"""Changes to GPUs and instances are checked by geometry and durable before they count."""

import pytest

from vgpu_sim.gpud.devices.inventory import Inventory
from vgpu_sim.gpud.errors import Conflict, InUse, InvalidRequest, NotFound
from vgpu_sim.gpud.model import Gpu, new_gpu_uuid, new_instance_uuid

H100 = Gpu(new_gpu_uuid(), 0, "h100-80gb")
A30 = Gpu(new_gpu_uuid(), 1, "a30")


@pytest.fixture
def inventory(tmp_path):
    made = Inventory(tmp_path)
    made.configure([A30, H100], 0)
    return made


def test_gpus_are_kept_by_index(inventory):
    assert inventory.gpus == (H100, A30)


def test_instances_survive_a_restart_with_their_uuids(inventory, tmp_path):
    made = inventory.create_instance(H100.uuid, "3g.40gb", 4)
    inventory.set_admission(made.uuid, admit=False)
    again = Inventory(tmp_path)
    assert [one.uuid for one in again.instances] == [made.uuid]
    assert again.instance(made.uuid).admit is False


def test_an_overlap_is_a_conflict_that_names_both(inventory):
    inventory.create_instance(H100.uuid, "3g.40gb", 0)
    with pytest.raises(Conflict, match=r"3g\.40gb@0 overlaps 1g\.10gb@2"):
        inventory.create_instance(H100.uuid, "1g.10gb", 2)
    assert len(inventory.instances) == 1


@pytest.mark.parametrize(
    ("profile", "start", "words"),
    [("1g.5gb", 0, "legal profiles"), ("3g.40gb", 1, "legal starts: 0, 4")],
)
def test_what_the_board_does_not_have_is_invalid(inventory, profile, start, words):
    with pytest.raises(InvalidRequest, match=words):
        inventory.create_instance(H100.uuid, profile, start)


def test_an_unknown_gpu_is_not_found(inventory):
    with pytest.raises(NotFound):
        inventory.create_instance(new_gpu_uuid(), "1g.10gb", 0)


def test_a_gpu_with_instances_cannot_leave_or_change(inventory):
    made = inventory.create_instance(H100.uuid, "1g.10gb", 0)
    for wanted in ([A30], [A30, Gpu(H100.uuid, 2, "h100-80gb")], [A30, Gpu(H100.uuid, 0, "h200")]):
        with pytest.raises(InUse):
            inventory.configure(wanted, 0)
    inventory.destroy_instance(made.uuid, lambda _: False)
    inventory.configure([A30], 0)
    assert inventory.gpus == (A30,)


def test_an_instance_in_use_stays(inventory):
    made = inventory.create_instance(H100.uuid, "1g.10gb", 0)
    with pytest.raises(InUse):
        inventory.destroy_instance(made.uuid, lambda _: True)
    assert inventory.instance(made.uuid) == made
    with pytest.raises(NotFound):
        inventory.destroy_instance(new_instance_uuid(), lambda _: True)


def test_slots_are_unique_and_reused(inventory):
    made = [inventory.create_instance(H100.uuid, "1g.10gb", start) for start in range(3)]
    made.append(inventory.create_instance(A30.uuid, "1g.6gb", 0))
    assert [one.slot for one in made] == [0, 1, 2, 3]
    inventory.destroy_instance(made[1].uuid, lambda _: False)
    assert inventory.create_instance(H100.uuid, "1g.10gb", 5).slot == 1


@pytest.mark.parametrize(
    "gpus",
    [
        [Gpu(H100.uuid, 8, "h100-80gb")],
        [Gpu(H100.uuid, 0, "gtx-480")],
        [H100, Gpu(new_gpu_uuid(), 0, "a30")],
        [H100, Gpu(H100.uuid, 1, "h100-80gb")],
    ],
)
def test_impossible_gpus_are_invalid(inventory, gpus):
    with pytest.raises(InvalidRequest):
        inventory.configure(gpus, 0)
    assert inventory.gpus == (H100, A30)
