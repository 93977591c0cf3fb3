"""Memory that contexts of one slice share: holders and charges."""

import contextlib
import json
import os
import socket

import pytest

from vgpu_sim.gpud.contexts.shares import (
    LEAST_ENTRIES,
    MOST_ENTRIES,
    MOST_HOLDS,
    MOST_KEYS,
    MOST_NAMES,
    Shares,
)
from vgpu_sim.gpud.limits.budget import Budget
from vgpu_sim.system import seqpacket

KEY, OTHER_KEY = "a" * 64, "b" * 64
MIB = 1 << 20


class Setup:
    def __init__(self, instances) -> None:
        self.budget = Budget(1 << 40)
        self.shares = Shares(self.budget)
        self.instances = instances
        self.ends: dict[int, socket.socket] = {}
        self.kept: list[socket.socket] = []

    def context(self, instance: int = 0, client: str = "pod"):
        account = self.budget.open(self.instances[instance], client=client)
        ours, theirs = seqpacket.pair()
        self.ends[account] = theirs
        self.kept.append(ours)
        self.shares.enter(account, ours)
        return account

    def leave(self, account, number: int = 0):
        """Leave a share, or all (0); return the result."""
        if number:
            steps = self.shares.leave_in_steps(account, number)
        else:
            steps = self.shares.leave_all_in_steps(account)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return end.value

    def message(self, account) -> dict:
        data, passed, _, _ = socket.recv_fds(self.ends[account], 4096, 1)
        for one in passed:
            os.close(one)
        return json.loads(data)


@pytest.fixture
def setup():
    from tests.unit.vgpu_sim.gpud_node.test_gpud_attributes import instances

    made = Setup(list(instances())[:2])
    yield made
    for end in (*made.ends.values(), *made.kept):
        end.close()


def offer_chunk(setup: Setup, account, size: int = 2 * MIB) -> int:
    assert setup.budget.reserve(account, size).granted
    number = setup.shares.offer(account, KEY, 0, size)
    assert number
    return number


def test_the_charge_moves_to_the_holder_that_remains(setup):
    first, second = setup.context(), setup.context()
    number = offer_chunk(setup, first)
    share, end = setup.shares.open(second, KEY)
    end.close()
    assert share.number == number
    assert setup.message(first)["key"] == KEY
    assert setup.leave(first, number) == (True, False, 2 * MIB)
    assert setup.message(second) == {"type": "charged", "bytes": 2 * MIB}
    assert [setup.budget.account_bytes(one) for one in (first, second)] == [0, 2 * MIB]
    assert setup.shares.open(setup.context(), KEY) is None, "its key has ended"
    assert setup.leave(second, number) == (True, True, 2 * MIB)
    assert setup.budget.used_bytes == 0
    assert setup.leave(second, number) == (False, False, 0)


def test_a_context_that_ends_leaves_everything(setup):
    first, second = setup.context(), setup.context()
    number = offer_chunk(setup, first)
    setup.shares.open(second, KEY)[1].close()
    setup.shares.open(second, KEY)[1].close()
    setup.shares.drop(first)
    assert setup.budget.account_bytes(second) == 2 * MIB
    assert setup.leave(second, number) == (True, False, 0), "it was opened twice"
    setup.shares.drop(second)
    assert setup.budget.used_bytes == 0


def test_other_slices_clients_and_the_exporter_open_nothing(setup):
    first = setup.context()
    offer_chunk(setup, first)
    for other in (first, setup.context(instance=1), setup.context(client="another")):
        assert setup.shares.open(other, KEY) is None
    assert setup.shares.open(setup.context(), OTHER_KEY) is None
    setup.shares.withdraw(setup.context(), KEY)
    setup.shares.open(setup.context(), KEY)[1].close()  # only the exporter withdraws it
    setup.shares.withdraw(first, KEY)
    assert setup.shares.open(setup.context(), KEY) is None


def test_contexts_of_one_process_on_two_whole_gpus_open_each_others_memory(setup):
    owner, peer, stranger = setup.context(), setup.context(instance=1), setup.context(instance=1)
    number = offer_chunk(setup, owner)
    setup.shares.allow_peers(peer, 7)
    assert setup.shares.open(peer, KEY) is None, "the owner is not on a whole GPU"
    setup.shares.allow_peers(owner, 7)
    setup.shares.allow_peers(stranger, 8)
    assert setup.shares.open(stranger, KEY) is None, "of another process"
    unknown = [setup.context(instance=n) for n in (0, 1)]
    for one in unknown:
        setup.shares.allow_peers(one, 0)  # gpud does not see the process
    assert setup.shares.open(unknown[1], KEY) is None
    setup.shares.open(peer, KEY)[1].close()
    used = [setup.budget.slice_used_bytes(one.uuid) for one in setup.instances]
    assert used == [2 * MIB, 0], "the owner is charged"
    setup.shares.drop(owner)
    used = [setup.budget.slice_used_bytes(one.uuid) for one in setup.instances]
    assert used == [0, 2 * MIB], "the memory that remains is charged to the peer's GPU"
    assert setup.leave(peer, number) == (True, True, 2 * MIB)
    assert setup.budget.used_bytes == 0


def test_the_charge_stays_on_the_owners_gpu_while_a_context_there_holds_the_memory(setup):
    owner, peer, neighbour = setup.context(), setup.context(instance=1), setup.context()
    offer_chunk(setup, owner)
    for one in (owner, peer):
        setup.shares.allow_peers(one, 7)
    for one in (peer, neighbour):
        setup.shares.open(one, KEY)[1].close()
    setup.shares.drop(owner)
    assert setup.budget.account_bytes(neighbour) == 2 * MIB


def test_offers_are_checked(setup):
    first, second = setup.context(), setup.context()
    number = offer_chunk(setup, first)
    assert setup.shares.offer(first, KEY, number, 2 * MIB) == 0, "the key is known"
    assert setup.shares.offer(second, OTHER_KEY, number, 2 * MIB) == 0, "of another context"
    assert setup.shares.offer(first, OTHER_KEY, number, 4 * MIB) == 0, "of another size"
    assert setup.shares.offer(second, OTHER_KEY, 0, 2 * MIB) == 0, "more than it holds"
    assert setup.shares.offer(second, "short", 0, 0) == 0
    for n in range(MOST_KEYS - 1):
        assert setup.shares.offer(first, f"{n:064x}", number, 2 * MIB) == number
    assert setup.shares.offer(first, "c" * 64, number, 2 * MIB) == 0


def test_only_the_exporter_offers_a_chunk_again(setup):
    first, second = setup.context(), setup.context()
    number = offer_chunk(setup, first)
    setup.shares.open(second, KEY)[1].close()
    assert setup.shares.offer(second, OTHER_KEY, number, 2 * MIB) == 0
    setup.shares.drop(first)
    assert setup.shares.offer(second, OTHER_KEY, number, 2 * MIB) == 0
    assert setup.shares.open(setup.context(), KEY) is None


def test_a_name_without_memory_ends_with_its_key(setup):
    first, second = setup.context(), setup.context()
    for _ in range(2 * MOST_KEYS):
        assert setup.shares.offer(first, KEY, 0, 0)
        setup.shares.withdraw(first, KEY)
    number = setup.shares.offer(first, KEY, 0, 0)
    share, end = setup.shares.open(second, KEY)
    end.close()
    setup.shares.withdraw(first, KEY)
    assert setup.leave(second, number) == (True, True, 0)
    assert share.holders == {}


def test_the_holds_of_a_context_are_limited(setup):
    first, second = setup.context(), setup.context()
    offer_chunk(setup, first)
    for _ in range(MOST_HOLDS):
        setup.shares.open(second, KEY)[1].close()
        setup.message(first)
    assert setup.shares.open(second, KEY) is None
    assert setup.shares.offer(second, OTHER_KEY, 0, 0) == 0
    setup.leave(second)
    assert setup.shares.offer(second, OTHER_KEY, 0, 0)


def new_key() -> str:
    return os.urandom(32).hex()


def test_names_are_limited_and_are_keys_of_one_share(setup):
    first, second = setup.context(), setup.context()
    keys = [new_key() for _ in range(MOST_NAMES)]
    numbers = {setup.shares.offer(first, key, 0, 0) for key in keys}
    assert len(numbers) == 1
    assert setup.shares.offer(first, new_key(), 0, 0) == 0
    setup.shares.withdraw(first, keys[0])
    number = setup.shares.offer(first, new_key(), 0, 0)
    assert numbers == {number}
    for key in keys[1:3]:
        setup.shares.open(second, key)[1].close()
        assert setup.leave(second, number) == (True, False, 0)
    assert setup.leave(first, number) == (True, True, 0)
    assert setup.shares.open(second, keys[1]) is None
    assert setup.shares.offer(first, new_key(), 0, 0) not in (0, number)


def test_however_much_a_slice_shares_each_context_has_its_least_part(setup):
    greedy = [setup.context() for _ in range(3)]
    for one in greedy:
        assert setup.budget.reserve(one, 4096).granted
        while setup.shares.offer(one, new_key(), 0, 4096):
            pass
    entries = setup.shares._entries[setup.instances[0].uuid]
    assert MOST_ENTRIES <= entries <= MOST_ENTRIES + LEAST_ENTRIES
    late = setup.context()
    offered = 0
    while setup.shares.offer(late, new_key(), 0, 0):
        offered += 1
    assert offered == LEAST_ENTRIES - 1, "a key each, and the hold of their share"
    other = setup.context(instance=1)
    assert all(setup.shares.offer(other, new_key(), 0, 0) for _ in range(MOST_NAMES))
    for one in (*greedy, late):
        setup.shares.drop(one)
    assert set(setup.shares._entries) == {setup.instances[1].uuid}


def test_a_step_of_an_end_removes_one_key_or_hold(setup):
    first = setup.context()
    number = offer_chunk(setup, first)
    for _ in range(9):
        assert setup.shares.offer(first, new_key(), number, 2 * MIB)
    assert sum(1 for _ in setup.shares.drop_in_steps(first)) == 11


def test_numbers_of_an_earlier_gpud_name_nothing(setup):
    earlier, first = offer_chunk(setup, setup.context()), setup.context()
    setup.shares = Shares(setup.budget)
    assert setup.leave(first, earlier) == (False, False, 0)
    assert abs(setup.shares.offer(first, OTHER_KEY, 0, 0) - earlier) > 1 << 20


def test_a_holder_that_does_not_read_its_charge_loses_its_channel(setup):
    first, second = setup.context(), setup.context()
    number = offer_chunk(setup, first)
    setup.shares.open(second, KEY)[1].close()
    queue = setup.kept[1]
    with contextlib.suppress(BlockingIOError):
        while queue.send(b"x", socket.MSG_DONTWAIT):
            pass
    setup.leave(first, number)
    while setup.ends[second].recv(1):
        pass  # until the end of the connection
