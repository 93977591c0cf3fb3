"""However much one slice's program allocates, another slice gets its part of the node's budget."""

import signal
from contextlib import ExitStack

from support.processes.gpud_process import Gpud, RawClient, gpud, raw_client, wait_until

MIB = 1 << 20
TOKEN = bytes(range(32))
BUDGET_MIB = 256


def take_all(client: RawClient) -> int:
    """Allocate until there is no memory left; return the MiB that were allocated."""
    allocated_mib = number = 0
    for size_mib in (64, 32, 16, 8, 4, 2):
        while client.allocate(size_mib * MIB, number) == 0:
            allocated_mib, number = allocated_mib + size_mib, number + 1
    return allocated_mib


def open_clients(stack: ExitStack, slices: list[dict[str, object]]) -> list[RawClient]:
    clients = [stack.enter_context(raw_client(str(one["socket_dir"]), TOKEN)) for one in slices]
    assert [client.open().status for client in clients] == [0] * len(clients)
    return clients


def make_slices(node: Gpud, count: int) -> list[dict[str, object]]:
    return [node.make_slice(start=start) for start in range(count)]


def test_a_greedy_slice_leaves_the_others_their_parts_also_after_a_restart():
    with gpud("--budget", str(BUDGET_MIB * MIB), token=TOKEN) as node, ExitStack() as stack:
        slices = make_slices(node, 2)
        greedy, other = open_clients(stack, slices)
        assert take_all(greedy) == BUDGET_MIB * 7 // 8
        node.end(signal.SIGKILL)
        node.start()
        wait_until(lambda: node.log.count("worker_started") >= 4)
        assert greedy.allocate(2 * MIB, 25) == 2
        assert take_all(other) >= BUDGET_MIB // 8 - 16, "a restart counts the contexts' rings too"


def test_parts_follow_the_layout():
    with gpud("--budget", str(BUDGET_MIB * MIB), token=TOKEN) as node, ExitStack() as stack:
        slices = make_slices(node, 4)
        for one in slices[2:]:
            node.call("destroy_instance", uuid=one["uuid"])
        greedy, other = open_clients(stack, slices[:2])
        assert take_all(greedy) == BUDGET_MIB * 7 // 8
        assert take_all(other) == BUDGET_MIB // 8
        greedy.close()
        wait_until(lambda: not node.instance(str(slices[0]["uuid"]))["contexts"])
        added = node.make_slice(start=5)
        (late,) = open_clients(stack, [added])
        part = BUDGET_MIB // 4 // 3
        assert take_all(late) == (BUDGET_MIB - part - BUDGET_MIB // 8) // 2 * 2
