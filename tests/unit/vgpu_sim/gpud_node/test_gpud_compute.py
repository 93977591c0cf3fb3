"""Compute instances in gpud's inventory: accepted changes, and the state after a restart or a
crash.
"""

import os
import random
from dataclasses import replace
from pathlib import Path

import pytest

from mig.errors import MigError
from mig.geometry import BOARDS, ComputePlace, board
from mig.planner import rules
from vgpu_sim.gpud.devices import journal
from vgpu_sim.gpud.devices.attributes import Attribute, attributes_of
from vgpu_sim.gpud.devices.device_info import device_info
from vgpu_sim.gpud.devices.inventory import Inventory
from vgpu_sim.gpud.devices.journal import NodeState
from vgpu_sim.gpud.limits.budget import Budget
from vgpu_sim.gpud.limits.cgroups.base import Share
from vgpu_sim.gpud.limits.sharing import SharingTable
from vgpu_sim.gpud.model import Gpu, InstanceUuid, MigInstance, new_gpu_uuid
from vgpu_sim.hal.messages import CI_ATTRIBUTE, GI_ATTRIBUTE
from vgpu_sim.system.admin_socket.errors import Conflict, InUse, InvalidRequest

H100 = Gpu(new_gpu_uuid(), 0, "h100-80gb")
THREE = board("h100-80gb").profile("3g.40gb")
CLAIM = {"owner": "claim:11111111-3333-4333-8333-333333333333", "owner_name": "team/job"}
GIB = 1 << 30


def idle(_: MigInstance) -> bool:
    return False


@pytest.fixture
def inventory(tmp_path: Path) -> Inventory:
    made = Inventory(tmp_path)
    made.configure([H100], 0)
    return made


def narrow(inventory: Inventory, compute_start: int, start: int = 4) -> MigInstance:
    return inventory.create_instance(H100.uuid, "1c.3g.40gb", start, compute_start=compute_start)


def test_those_in_one_gpu_instance_have_its_number_and_numbers_of_their_own(
    inventory: Inventory,
) -> None:
    made = [narrow(inventory, start) for start in (2, 0, 1)]
    full = inventory.create_instance(H100.uuid, "4g.40gb", 0)
    assert [one.uuid for one in inventory.instances_of(H100)] == [
        full.uuid,
        *(one.uuid for one in (made[1], made[2], made[0])),
    ]
    assert {one.gi_id for one in made} == {2} != {full.gi_id}
    assert [one.ci_id for one in made] == [2, 0, 1]
    assert {len(inventory.in_gpu_instance_of(one)) for one in made} == {3}
    assert inventory.in_gpu_instance_of(full) == (full,)
    assert len({one.slot for one in inventory.instances}) == 4
    with pytest.raises(Conflict, match=r"1c\.3g\.40gb@4\.0 overlaps 2c\.3g\.40gb@4\.0"):
        inventory.create_instance(H100.uuid, "2c.3g.40gb", 4, compute_start=0)


def test_a_gpu_instance_goes_with_the_last_in_it_and_claims_own_what_is_theirs(
    inventory: Inventory,
) -> None:
    mine = narrow(inventory, 0)
    claimed = inventory.create_instance(H100.uuid, "1c.3g.40gb", 4, **CLAIM, compute_start=1)  # type: ignore[arg-type]
    with pytest.raises(Conflict, match="made for claim team/job"):
        inventory.destroy_instance(claimed.uuid, idle)
    with pytest.raises(InUse):
        inventory.destroy_instance(mine.uuid, lambda one: one.uuid == mine.uuid)
    inventory.destroy_instance(mine.uuid, idle)
    with pytest.raises(Conflict, match="overlaps"):
        inventory.create_instance(H100.uuid, "1g.10gb", 5)
    inventory.destroy_instance(claimed.uuid, idle, CLAIM["owner"])
    inventory.create_instance(H100.uuid, "1g.10gb", 5)


def test_an_empty_gpu_instance_is_divided_and_is_empty_again(inventory: Inventory) -> None:
    """With the steps of nvidia-smi: -cgi, -cci twice, -dci twice."""
    empty = inventory.create_instance(H100.uuid, "3g.40gb", 4, compute=False)
    one, two, *_ = THREE.ci_profiles
    first = inventory.create_compute(empty.uuid, ComputePlace(one, 2))
    assert (first.uuid, first.ci_id, first.device_profile) == (empty.uuid, 2, "1c.3g.40gb")
    second = inventory.create_compute(empty.uuid, ComputePlace(two, 0))
    assert second.uuid != first.uuid
    with pytest.raises(Conflict, match="overlaps"):
        inventory.create_compute(second.uuid, None)
    with pytest.raises(InvalidRequest, match="legal starts: 0, 1, 2"):
        inventory.create_compute(second.uuid, ComputePlace(one, 3))
    assert not inventory.destroy_compute(first.uuid, idle)
    with pytest.raises(InUse):
        inventory.destroy_compute(second.uuid, lambda _: True)
    assert inventory.destroy_compute(second.uuid, idle)
    (left,) = inventory.instances
    assert (left.uuid, left.ci_id, left.within, left.gi_id) == (second.uuid, -1, None, first.gi_id)


def test_an_older_gpud_reads_a_journal_without_narrower_ones(inventory: Inventory) -> None:
    inventory.create_instance(H100.uuid, "3g.40gb", 0)
    narrow(inventory, 1)
    document = journal.encode(NodeState(inventory.gpus, inventory.instances))
    plain, divided = document["instances"]
    assert "compute_start" not in plain
    assert (divided["profile"], divided["start"], divided["compute_start"]) == ("1c.3g.40gb", 4, 1)


@pytest.mark.parametrize(
    "change",
    [
        {"compute_start": 3},
        {"compute_start": True},
        {"compute_start": None},
        {"compute": False, "compute_start": 1},
        {"profile": "3g.40gb"},
        {"profile": "3c.3g.40gb"},
        {"profile": "2c.3g.40gb"},
    ],
)
def test_a_journal_that_says_what_cannot_be_is_refused(
    inventory: Inventory, change: dict[str, object]
) -> None:
    narrow(inventory, 1)
    document = journal.encode(NodeState(inventory.gpus, inventory.instances))
    assert journal.decode(document).instances == inventory.instances
    document["instances"][0] |= change
    with pytest.raises((ValueError, MigError), match=r"compute_start|start|profile|place"):
        journal.decode(document)


class PowerCut(OSError):
    """A crash, simulated as an error of the write."""


@pytest.mark.parametrize("key", list(BOARDS))
def test_any_sequence_leaves_what_is_legal_and_every_restart_finds_it(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random steps, each of which succeeds, is interrupted during its write, or is refused."""
    generator, gpu = random.Random(key), Gpu(new_gpu_uuid(), 0, key)
    places = [place for device in gpu.board.device_profiles for place in device.places]
    cut = False

    def save(_: Path, state: NodeState) -> None:
        nonlocal document
        if cut:
            raise PowerCut
        document = journal.encode(state)

    document = journal.encode(NodeState((gpu,)))
    monkeypatch.setattr(journal, "load", lambda _: journal.decode(document))
    monkeypatch.setattr(journal, "save", save)
    inventory, done = Inventory(tmp_path), 0
    for _ in range(120):
        before, cut = inventory.instances, generator.random() < 0.15
        place = generator.choice(places)
        known = [one.uuid for one in before] or [InstanceUuid("MIG-none")]
        try:
            match generator.randrange(4) if before else 0:
                case 0:
                    names = (gpu.uuid, place.device.name, place.start)
                    whole = place.compute is None
                    made = inventory.create_instance(
                        *names,
                        compute=not whole or generator.random() < 0.5,
                        compute_start=place.compute_start,
                    )
                    assert made.placed == place
                case 1:
                    inventory.create_compute(generator.choice(known), place.compute)
                case 2:
                    inventory.destroy_compute(generator.choice(known), idle)
                case _:
                    inventory.destroy_instance(generator.choice(known), idle)
            done += 1
        except (PowerCut, Conflict, InvalidRequest):
            assert inventory.instances == before
        placed = [one.placed for one in inventory.instances]
        assert not rules.violations(gpu.board, placed)
        empty = [one for one in inventory.instances if not one.compute]
        assert all(inventory.in_gpu_instance_of(one) == (one,) for one in empty)
        numbers = [(one.gi_id, one.ci_id) for one in inventory.instances]
        assert len(set(numbers)) == len(numbers)
        assert Inventory(tmp_path).instances == inventory.instances
        if cut:  # the next gpud continues with the previous one's state
            inventory = Inventory(tmp_path)
    assert done > 20
    assert os.listdir(tmp_path) == []


def test_memory_and_retained_pages_belong_to_the_whole_gpu_instance(
    inventory: Inventory,
) -> None:
    mine, other, apart = narrow(inventory, 0), narrow(inventory, 1), narrow(inventory, 0, 0)
    held = {mine.uuid: 0}
    budget = Budget(1 << 50, lambda uuid: held.get(uuid, 0))
    one, two, three = budget.open(mine), budget.open(other), budget.open(apart)
    assert budget.reserve(one, THREE.memory_bytes - GIB).granted
    refused = budget.reserve(two, GIB + 1)
    assert (refused.granted, refused.free_bytes) == (False, GIB)
    assert refused.total_bytes == THREE.memory_bytes
    assert budget.reserve(three, THREE.memory_bytes).granted
    assert budget.reserve(two, GIB).granted
    assert budget.shared_used_bytes(other) == THREE.memory_bytes == budget.shared_used_bytes(mine)
    assert (budget.slice_used_bytes(other.uuid), budget.free_bytes(mine)) == (GIB, 0)
    held[mine.uuid] = 2 * GIB  # its worker has ended, its client keeps a chunk
    budget.close(one)
    left = THREE.memory_bytes - budget.shared_used_bytes(other)
    assert THREE.memory_bytes - 3 * GIB <= left < THREE.memory_bytes - 2 * GIB
    held[mine.uuid] = 0
    budget.measure_retained()
    assert budget.shared_used_bytes(mine) == GIB
    budget.close(two)
    assert budget.shared_used_bytes(mine) == 0


def test_programs_see_sms_of_their_own_and_what_the_gpu_instance_has(inventory: Inventory) -> None:
    one = narrow(inventory, 1)
    full = replace(one, within=None)
    capability = board("h100-80gb").compute_capability
    info = device_info(one, capability, 5, 0, True, SharingTable().multiprocessors(one))
    assert (info.name, info.profile) == (b"NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb", b"1c.3g.40gb")
    assert (info.multiprocessors, info.memory_bytes) == (16, THREE.memory_bytes)
    assert (info.attributes[GI_ATTRIBUTE], info.attributes[CI_ATTRIBUTE]) == (2, 1)
    narrower, wider = attributes_of(one, capability), attributes_of(full, capability)
    assert (narrower[Attribute.MULTIPROCESSOR_COUNT], wider[Attribute.MULTIPROCESSOR_COUNT]) == (
        16,
        60,
    )
    del narrower[Attribute.MULTIPROCESSOR_COUNT], wider[Attribute.MULTIPROCESSOR_COUNT]
    assert narrower == wider  # the GPU instance's: L2, bus and copy engines
    assert Share.of(one, 1 << 50, 8, strict=True).sm_count == 16
    assert SharingTable().multiprocessors(one) == 16
    assert SharingTable().client_bytes(one) == THREE.memory_bytes
