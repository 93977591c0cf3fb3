"""Guaranteed parts of the node's budget: however greedy the others are, a slice gets its part."""

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from mig.geometry import board
from vgpu_sim.gpud.limits.budget import Account, Budget
from vgpu_sim.gpud.limits.parts import Offer, offer_of
from vgpu_sim.gpud.model import Gpu, MigInstance, new_gpu_uuid, new_instance_uuid

MIB, GIB = 1 << 20, 1 << 30
H100 = board("h100-80gb")
GPU = Gpu(new_gpu_uuid(), 0, "h100-80gb")
SECOND_GPU = Gpu(new_gpu_uuid(), 1, "h100-80gb")


def an_instance(start: int = 0, profile: str = "1g.10gb", gpu: Gpu = GPU) -> MigInstance:
    found = H100.whole if profile == "whole" else H100.profile(profile)
    return MigInstance(new_instance_uuid(), gpu, found, start, start)


def a_budget(total_bytes: int, *instances: MigInstance, fixed: bool = True) -> Budget:
    budget = Budget(total_bytes)
    set_offer(budget, instances, fixed=fixed)
    return budget


def set_offer(budget: Budget, instances: Any, *, fixed: bool) -> None:
    gpus = {one.gpu.uuid: one.gpu for one in instances} or {GPU.uuid: GPU}
    budget.set_limits(budget.total_bytes, offer_of(gpus.values(), instances, fixed))


def take_all(budget: Budget, account: Account) -> int:
    """Reserve everything that is free for an account; return how much that was."""
    free = budget.possible_grant(account).free_bytes
    if free:
        assert not budget.reserve(account, free + 1).granted
        assert budget.reserve(account, free).granted
    assert not budget.reserve(account, 1).granted
    return free


def test_a_greedy_slice_leaves_another_one_its_part():
    one, other = an_instance(0), an_instance(1)
    budget = a_budget(256 * MIB, one, other)
    assert take_all(budget, budget.open(one)) == 224 * MIB
    assert take_all(budget, budget.open(other)) == 32 * MIB
    assert budget.used_bytes == 256 * MIB


def test_a_single_slice_of_a_run_has_the_whole_budget():
    one = an_instance()
    budget = a_budget(4 * GIB, one)
    assert take_all(budget, budget.open(one)) == 4 * GIB


@pytest.mark.parametrize(("existing", "fixed"), [(1, True), (7, True), (1, False), (7, False)])
def test_one_slice_that_computes_alone_gets_three_of_four_gib(existing: int, fixed: bool):
    instances = [an_instance(start) for start in range(existing)]
    budget = a_budget(4 * GIB, *instances, fixed=fixed)
    assert take_all(budget, budget.open(instances[0])) >= 3 * GIB


def test_a_part_is_not_larger_than_the_slices_memory():
    one, other = an_instance(0), an_instance(1)
    budget = a_budget(1 << 45, one, other)
    account = budget.open(one)
    assert budget.room(account).guaranteed_bytes == one.profile.memory_bytes
    assert take_all(budget, account) == one.profile.memory_bytes


def test_compute_instances_of_a_gpu_instance_have_one_part_together():
    shared = [MigInstance(new_instance_uuid(), GPU, H100.profile("3g.40gb"), 0, n) for n in (0, 1)]
    other = an_instance(4)
    budget = a_budget(80 * MIB, *shared, other)
    assert take_all(budget, budget.open(shared[0])) == 70 * MIB
    assert take_all(budget, budget.open(shared[1])) == 0
    assert take_all(budget, budget.open(other)) == 10 * MIB


@pytest.mark.parametrize(
    ("instances", "fixed", "slices"),
    [
        ([], False, 7),
        ([an_instance(0)], False, 7),
        ([an_instance(0)], True, 1),
        ([an_instance(start) for start in range(7)], False, 7),
        ([an_instance(0, "4g.40gb"), an_instance(4, "3g.40gb")], False, 2),
        ([an_instance(0, "whole")], False, 1),
        ([an_instance(0, "whole"), an_instance(0, gpu=SECOND_GPU)], False, 8),
    ],
)
def test_slices_that_can_still_be_created_count_in_a_cluster(instances, fixed, slices):
    gpus = (GPU, SECOND_GPU) if any(one.gpu is SECOND_GPU for one in instances) else (GPU,)
    offer = offer_of(gpus, instances, fixed)
    assert offer.part_bytes(4 * slices * MIB) == MIB
    assert len(offer.memory_bytes) == len(instances)
    assert Offer().part_bytes(GIB) == 0


def test_a_claims_slice_has_its_part_however_greedy_the_slices_made_before_it():
    instances: list[MigInstance] = []
    budget = a_budget(4 * GIB, fixed=False)
    for start in range(7):
        instances.append(an_instance(start))
        set_offer(budget, instances, fixed=False)
        part = budget.room(budget.open(instances[-1])).guaranteed_bytes
        assert part == GIB // 7
        assert take_all(budget, budget.open(instances[-1])) >= part


def test_memory_of_an_earlier_gpud_keeps_the_parts_of_the_other_slices():
    one, other = an_instance(0), an_instance(1)
    budget = a_budget(256 * MIB, one, other)
    budget.open(one, already_bytes=224 * MIB)
    assert take_all(budget, budget.open(one)) == 0
    assert take_all(budget, budget.open(other)) == 32 * MIB


def test_memory_that_moves_to_another_gpu_takes_no_third_part():
    """The charge of shared memory moves to the peer that still has it open (ADR 158)."""
    first, second = an_instance(0, "whole"), an_instance(0, "whole", SECOND_GPU)
    third = an_instance(0, "whole", Gpu(new_gpu_uuid(), 2, "h100-80gb"))
    budget = a_budget(240 * MIB, first, second, third)
    owner, peer, victim = (budget.open(one) for one in (first, second, third))
    assert take_all(budget, owner) == 200 * MIB
    assert take_all(budget, peer) == 20 * MIB
    budget.transfer(owner, peer, 200 * MIB)
    check_sums(budget)
    assert take_all(budget, owner) == 0
    budget.release(peer, 20 * MIB)
    check_sums(budget)
    assert take_all(budget, owner) == 20 * MIB, "its part is its own again"
    assert take_all(budget, victim) == 20 * MIB


def test_the_smaller_part_after_a_change_of_the_layout_comes_first():
    large, small = an_instance(0, "4g.40gb"), an_instance(4)
    budget = a_budget(240 * MIB, large, fixed=True)
    account = budget.open(large)
    assert take_all(budget, account) == 240 * MIB
    set_offer(budget, (large, small), fixed=True)
    other = budget.open(small)
    assert take_all(budget, other) == 0, "nothing is free"
    budget.release(account, 10 * MIB)
    assert take_all(budget, account) == 0
    assert take_all(budget, other) == 10 * MIB
    budget.release(account, 40 * MIB)
    assert take_all(budget, account) == 20 * MIB
    assert take_all(budget, other) == 20 * MIB


def check_sums(budget: Budget) -> None:
    """Assert that the sums that are kept are those of the slices."""
    offer, total_bytes = budget._offer, budget.total_bytes
    parts = {key: n - budget._liens[key] for key, n in offer.parts(total_bytes).items()}
    assert budget._parts == parts
    further = offer.further * offer.part_bytes(total_bytes)
    assert budget._reserved_bytes == sum(parts.values()) + further
    beyond = sum(max(0, used - parts.get(key, 0)) for key, used in budget._used.items())
    assert budget._beyond_bytes == beyond


ACTIONS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 6), st.integers(1, 5 * MIB)), max_size=60
)


@settings(max_examples=150, deadline=None)
@given(total_mib=st.integers(1, 64), fixed=st.booleans(), actions=ACTIONS)
def test_sums_never_exceed_the_budget_and_each_part_can_always_be_had(total_mib, fixed, actions):
    """Slices come and go, in a cluster; in a run they stay. All slices have equal parts."""
    total_bytes = total_mib * MIB
    instances = {start: an_instance(start) for start in (range(7) if fixed else ())}
    budget = a_budget(total_bytes, *instances.values(), fixed=fixed)
    accounts: dict[int, Account] = {}
    for action, start, amount in actions:
        account = accounts.get(start)
        if account is None:
            if start not in instances and not fixed:
                instances[start] = an_instance(start)
                set_offer(budget, list(instances.values()), fixed=False)
            if start in instances:
                accounts[start] = budget.open(instances[start])
        elif action <= 2:
            budget.reserve(account, amount)
        elif action == 3 and budget.account_bytes(account):
            budget.release(account, min(amount, budget.account_bytes(account)))
        elif action == 4:
            take_all(budget, account)
        else:
            budget.close(accounts.pop(start))
            if not fixed:
                del instances[start]
                set_offer(budget, list(instances.values()), fixed=False)
        assert budget.used_bytes <= total_bytes
        check_sums(budget)
    part = total_bytes // 4 // 7
    for account in accounts.values():
        lacking = part - budget.account_bytes(account)
        assert lacking <= 0 or budget.reserve(account, lacking).granted
    assert budget.used_bytes <= total_bytes
