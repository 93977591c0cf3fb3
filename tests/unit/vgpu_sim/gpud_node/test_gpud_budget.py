"""Reservations: limited by slice and node, and released in every case."""

import random

import pytest

from mig.geometry import board
from vgpu_sim.gpud.limits.budget import CONTEXT_SHARED_BYTES, Budget
from vgpu_sim.gpud.model import Gpu, MigInstance, new_gpu_uuid, new_instance_uuid

GIB = 1 << 30
GPU = Gpu(new_gpu_uuid(), 0, "h100-80gb")
PROFILE = board("h100-80gb").profile("1g.10gb")


def an_instance(start: int = 0) -> MigInstance:
    return MigInstance(new_instance_uuid(), GPU, PROFILE, start, start)


def test_the_slice_limits_its_contexts_together():
    budget, instance = Budget(1 << 50), an_instance()
    one, two = budget.open(instance), budget.open(instance)
    assert budget.reserve(one, PROFILE.memory_bytes - GIB).granted
    refused = budget.reserve(two, GIB + 1)
    assert (refused.granted, refused.free_bytes) == (False, GIB)
    assert refused.total_bytes == PROFILE.memory_bytes
    last = budget.reserve(two, GIB)
    assert (last.granted, last.free_bytes) == (True, 0)


def test_the_node_limits_all_slices_together():
    budget = Budget(3 * GIB)
    one, two = budget.open(an_instance(0)), budget.open(an_instance(1))
    assert budget.reserve(one, 2 * GIB).granted
    assert not budget.reserve(two, 2 * GIB).granted
    assert budget.possible_grant(two).free_bytes == GIB
    budget.close(one)
    assert budget.reserve(two, 2 * GIB).granted


def test_closing_gives_everything_back_once():
    budget, instance = Budget(10 * GIB), an_instance()
    account = budget.open(instance)
    budget.reserve(account, GIB)
    budget.close(account)
    budget.close(account)
    assert (budget.used_bytes, budget.slice_used_bytes(instance.uuid)) == (0, 0)
    with pytest.raises(KeyError):
        budget.reserve(account, 1)


@pytest.mark.parametrize("amount", [0, -1, 5])
def test_releasing_more_than_is_held_is_refused(amount):
    budget, instance = Budget(10 * GIB), an_instance()
    account, other = budget.open(instance), budget.open(instance)
    budget.reserve(account, 4)
    budget.reserve(other, 100)
    with pytest.raises(ValueError, match="4 are held"):
        budget.release(account, amount)
    assert budget.used_bytes == 104


def test_a_found_worker_counts_even_beyond_the_budget():
    budget, instance = Budget(GIB), an_instance()
    account = budget.open(instance, already_bytes=2 * GIB)
    assert budget.free_bytes(instance) == 0
    assert not budget.reserve(account, 1).granted
    budget.close(account)
    assert budget.free_bytes(instance) == GIB


def test_the_sums_agree_after_any_sequence():
    generator = random.Random(7)
    budget = Budget(20 * GIB)
    instances = [an_instance(start) for start in range(3)]
    held: dict = {}
    for _ in range(3000):
        action = generator.randrange(4)
        if action == 0:
            instance = generator.choice(instances)
            held[budget.open(instance)] = [instance, 0]
        elif held:
            account = generator.choice(list(held))
            amount = generator.randrange(1, 4 * GIB)
            if action == 1 and budget.reserve(account, amount).granted:
                held[account][1] += amount
            elif action == 2 and amount <= held[account][1]:
                budget.release(account, amount)
                held[account][1] -= amount
            elif action == 3:
                budget.close(account)
                del held[account]
        for instance in instances:
            expected = sum(size for one, size in held.values() if one is instance)
            assert budget.slice_used_bytes(instance.uuid) == expected <= PROFILE.memory_bytes
        assert budget.used_bytes == sum(size for _, size in held.values()) <= 20 * GIB


def test_a_grant_is_limited_by_what_the_host_can_back():
    budget, instance = Budget(12 * GIB), an_instance()
    account = budget.open(instance)
    backed = 5 * GIB
    budget.host_free_bytes = lambda used: backed - used
    assert budget.possible_grant(account).free_bytes == 5 * GIB
    assert not budget.reserve(account, 5 * GIB + 1).granted
    assert budget.reserve(account, 4 * GIB).granted
    backed = 3 * GIB
    refused = budget.reserve(account, 1)
    assert (refused.granted, refused.free_bytes) == (False, 0)
    budget.release(account, 2 * GIB)
    assert budget.reserve(account, GIB).granted


def test_what_ended_contexts_retain_counts_until_it_is_gone():
    held = [CONTEXT_SHARED_BYTES + 5]
    budget, instance = Budget(10 * GIB, lambda _: held[0]), an_instance()
    budget.close(budget.open(instance))
    assert (budget.used_bytes, budget.slice_used_bytes(instance.uuid)) == (5, 5)
    held[0] = CONTEXT_SHARED_BYTES
    budget.measure_retained()
    assert budget.used_bytes == 0
    held[0] = CONTEXT_SHARED_BYTES + 7  # of a live context, whose account contains it
    budget.measure_retained()
    assert budget.used_bytes == 0
