"""The next gpud answers a worker's memory request that the previous gpud's end interrupted."""

import signal
import threading

import pytest

from support.processes.gpud_process import gpud, raw_client

MIB = 1 << 20
TOKEN = bytes(range(32))


@pytest.mark.parametrize("requests", [1, 2])
def test_an_allocation_while_gpud_is_replaced_waits_for_the_next_one(requests):
    with gpud(token=TOKEN) as node:
        made = node.make_slice()
        with raw_client(made["socket_dir"], TOKEN) as client:
            assert client.open().status == 0
            node.end(signal.SIGKILL)
            answers = []

            def allocate():
                answers.extend(client.allocate(4 * MIB, number) for number in range(requests))

            thread = threading.Thread(target=allocate)
            thread.start()
            node.start()
            thread.join(60)
            assert answers == [0] * requests
            assert node.call("inventory")["budget"]["used_bytes"] == 4 * MIB * requests
