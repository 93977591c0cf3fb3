"""Changes to GPUs and instances are validated by geometry and durable before they take effect."""

import pytest

from facts.document import GpuFacts
from vgpu_sim.gpud.devices.inventory import Inventory
from vgpu_sim.gpud.model import Gpu, new_gpu_uuid, new_instance_uuid
from vgpu_sim.system.admin_socket.errors import Conflict, InUse, InvalidRequest, NotFound

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


def test_a_whole_gpu_is_an_instance_with_the_gpus_own_uuid(inventory, tmp_path):
    made = inventory.create_instance(H100.uuid, "whole", 0)
    assert (made.uuid, made.profile.sm_count) == (H100.uuid, 132)
    assert made.profile.memory_bytes == H100.board.memory_bytes
    assert Inventory(tmp_path).instances == (made,)
    inventory.destroy_instance(made.uuid, lambda _: False)
    assert inventory.create_instance(H100.uuid, "1g.10gb", 0).uuid.startswith("MIG-")


def test_a_whole_gpu_and_slices_of_it_exclude_each_other(inventory):
    inventory.create_instance(H100.uuid, "whole", 0)
    with pytest.raises(Conflict, match=r"whole@0 overlaps 1g\.10gb@6"):
        inventory.create_instance(H100.uuid, "1g.10gb", 6)
    with pytest.raises(Conflict):
        inventory.create_instance(H100.uuid, "whole", 0)
    slice_of_a30 = inventory.create_instance(A30.uuid, "1g.6gb", 3)
    with pytest.raises(Conflict, match=r"1g\.6gb@3 overlaps whole@0"):
        inventory.create_instance(A30.uuid, "whole", 0)
    inventory.destroy_instance(slice_of_a30.uuid, lambda _: False)
    inventory.create_instance(A30.uuid, "whole", 0)


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


def test_a_gpu_without_a_place_in_its_topology_is_refused(inventory):
    for index, topology, why in ((4, "hgx-4", "room for 4 GPUs"), (0, "ring", "no topology")):
        with pytest.raises(InvalidRequest, match=why):
            inventory.configure([Gpu(H100.uuid, index, "h100-80gb", GpuFacts(topology))], 0)


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


def test_instances_that_exist_together_have_numbers_of_their_own(inventory):
    """The numbers derive from the tree of placements; `nvidia-smi mig -lgi` shows them."""
    made = [
        inventory.create_instance(H100.uuid, name, start)
        for name, start in (("3g.40gb", 0), ("2g.20gb", 4), ("1g.10gb", 6))
    ]
    assert [one.gi_id for one in made] == [1, 5, 13]


def test_a_compute_instance_is_given_once_and_not_taken_while_in_use(inventory):
    bare = inventory.create_instance(H100.uuid, "1g.10gb", 0, compute=False)
    inventory.create_compute(bare.uuid, None)
    with pytest.raises(Conflict, match="overlaps"):
        inventory.create_compute(bare.uuid, None)
    with pytest.raises(InUse):
        inventory.destroy_compute(bare.uuid, lambda _: True)
    inventory.destroy_compute(bare.uuid, lambda _: False)
    assert inventory.instance(bare.uuid) == bare


def test_what_was_made_for_a_claim_goes_with_that_claim_alone(inventory):
    """A layout's steps, another claim and an administrator's nvidia-smi all give another owner."""
    claim, other = (f"claim:{digit * 8}-3333-4333-8333-333333333333" for digit in "12")
    made = inventory.create_instance(H100.uuid, "whole", 0, owner=claim, owner_name="team/job")
    assert (made.owner, made.owner_name) == (claim, "team/job")
    for owner in ("", other):
        with pytest.raises(Conflict, match="made for claim team/job"):
            inventory.destroy_instance(made.uuid, lambda _: False, owner)
    with pytest.raises(Conflict, match="made for claim team/job"):
        inventory.destroy_compute(made.uuid, lambda _: False)
    inventory.destroy_instance(made.uuid, lambda _: False, claim)
    plain = inventory.create_instance(H100.uuid, "whole", 0)
    with pytest.raises(Conflict, match="made for a layout"):
        inventory.destroy_instance(plain.uuid, lambda _: False, claim)


CLAIMS = [f"claim:{digit * 8}-3333-4333-8333-333333333333" for digit in "abc"]
GIB = 1 << 30


def a_share(inventory, number: int, memory_bytes: int = 4 * GIB, start: int = 0):
    made_for = {"owner": CLAIMS[number], "owner_name": f"team/{'abc'[number]}"}
    return inventory.create_instance(
        H100.uuid, "1g.10gb", start, **made_for, memory_bytes=memory_bytes
    )


def test_claims_share_an_instance_until_its_memory_is_given_away(inventory, tmp_path):
    first = a_share(inventory, 0)
    second = a_share(inventory, 1)
    assert (second.uuid, second.slot, second.owner) == (first.uuid, first.slot, "")
    assert [one.owner for one in second.shares] == CLAIMS[:2]
    with pytest.raises(Conflict, match=r"1g\.10gb@0 has no room for .* claim team/a, claim team/b"):
        a_share(inventory, 2)
    left = first.profile.memory_bytes - 8 * GIB
    with pytest.raises(Conflict, match="has no room"):
        a_share(inventory, 2, left + 1)
    a_share(inventory, 2, left)
    assert Inventory(tmp_path).instances == inventory.instances
    with pytest.raises(Conflict, match="team/b has another share"):
        a_share(inventory, 1, 1)


@pytest.mark.parametrize(
    ("made_for", "words"),
    [
        ({}, "belongs to a layout"),
        ({"owner": CLAIMS[2], "owner_name": "team/c"}, "claim team/c alone"),
    ],
)
def test_what_one_has_alone_is_not_joined(inventory, made_for, words):
    inventory.create_instance(H100.uuid, "1g.10gb", 0, **made_for)
    with pytest.raises(Conflict, match=words):
        a_share(inventory, 0)
    (one,) = inventory.instances
    assert not one.shares


def test_a_share_excludes_what_does_not_fit_beside_its_instance(inventory):
    a_share(inventory, 0, start=2)
    with pytest.raises(Conflict, match="overlaps"):
        inventory.create_instance(H100.uuid, "3g.40gb", 0)


@pytest.mark.parametrize("memory_bytes", [0, -1, 1 << 40])
def test_a_share_that_cannot_be_is_invalid(inventory, memory_bytes):
    with pytest.raises(InvalidRequest, match="memory_bytes"):
        a_share(inventory, 0, memory_bytes)
    with pytest.raises(InvalidRequest, match="must have an owner"):
        inventory.create_instance(H100.uuid, "1g.10gb", 0, memory_bytes=GIB)
    with pytest.raises(InvalidRequest, match="part of a GPU instance"):
        inventory.create_instance(
            *(H100.uuid, "1c.3g.40gb", 0),
            owner=CLAIMS[0],
            owner_name="team/a",
            compute_start=0,
            memory_bytes=GIB,
        )
    assert inventory.instances == ()


def test_a_share_goes_with_its_claim_and_the_instance_with_the_last(inventory, tmp_path):
    made = a_share(inventory, 0)
    a_share(inventory, 1)
    idle = lambda _: False  # noqa: E731
    for stranger in (CLAIMS[2], ""):
        with pytest.raises(Conflict, match="shared by claim team/a, claim team/b"):
            inventory.destroy_instance(made.uuid, idle, stranger)
    with pytest.raises(Conflict, match="shared by"):
        inventory.destroy_compute(made.uuid, idle)
    inventory.close_admission(made.uuid, CLAIMS[0])
    closed = inventory.instance(made.uuid)
    assert [one.admit for one in closed.shares] == [False, True]
    assert closed.admit
    with pytest.raises(InUse):
        inventory.destroy_instance(made.uuid, lambda _: True, CLAIMS[0])
    assert inventory.destroy_instance(made.uuid, idle, CLAIMS[0]) is False
    assert [one.owner for one in Inventory(tmp_path).instance(made.uuid).shares] == [CLAIMS[1]]
    assert inventory.destroy_instance(made.uuid, idle, CLAIMS[1]) is True
    assert inventory.instances == ()
