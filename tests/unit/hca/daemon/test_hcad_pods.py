"""A node's hcad with a real engine: programs of pods open their function and lose it."""

import asyncio
import errno
import ipaddress
import os
from pathlib import Path

import pytest

from hca.binding.engine import Engine
from hca.binding.links import LINKS
from hca.contract.hca import HcaHello
from hca.contract.hca_engine import HcaWireCounts
from hca.daemon.common.functions import Binding
from hca.daemon.serving.pods import MAX_CONNECTIONS_OF_FUNCTION
from hca.daemon.sysfs import hw_counters
from hca.daemon.sysfs.hw_counters import FOLDER
from support.rigs.pod_node import IP, ONE, OTHER, A, B, Node, device, receive, status
from vgpu_sim.hal.messages import Header

C = A.replace("10", "12")


def test_a_program_of_the_pod_sees_the_pod_s_address(tmp_path: Path, engine: Engine) -> None:
    async def play() -> None:
        node = Node(tmp_path, engine)
        node.server.add(A, LINKS[200])
        early, refused = await node.open(A)
        assert status(refused) == errno.EAGAIN
        await node.server.bind(A, Binding(ONE, "ns/one", (IP,)))
        client, reply = await node.open(A)
        assert bytes(device(reply).gids[1])[12:] == IP.packed
        assert (device(reply).width, device(reply).speed) == (2, 64), "4X HDR"
        assert device(reply).sysfs == b"/sys/class/infiniband/tessera_0"
        (shown,) = node.server.status()
        assert shown["programs"] == 1
        wrong, reply = await node.open(A, version=99)
        assert status(reply) == errno.EPROTO
        node.pod = OTHER
        thief, reply = await node.open(A)
        assert status(reply) == errno.EAGAIN
        for one in (early, client, wrong, thief):
            one.close()
        await node.server.close()

    asyncio.run(play())


def test_a_program_that_opens_too_early_occupies_nothing(tmp_path: Path, engine: Engine) -> None:
    """More of them than a pod may have connections get EAGAIN, and no handover waits for them."""

    async def play() -> None:
        node = Node(tmp_path, engine)
        node.server.add(A)
        for _ in range(2):  # more at once would be closed without a reply
            early = [node.open(A) for _ in range(MAX_CONNECTIONS_OF_FUNCTION)]
            opened = await asyncio.gather(*early)
            assert {status(reply) for _, reply in opened} == {errno.EAGAIN}
            for client, _ in opened:
                assert await receive(client) == b"", "hcad has closed the connection"
                client.close()
        assert node.server._connected[A] == node.server._opening == 0
        await node.server.bind(A, Binding(ONE, "ns/one", (IP,)))
        last, reply = await node.open(A)
        assert status(reply) == 0
        last.close()
        await node.server.close()

    asyncio.run(play())


def test_an_address_that_is_bound_again_ends_what_was_opened_by_it(
    tmp_path: Path, engine: Engine
) -> None:
    """The kubelet may be late: the new holder of an address takes it from the previous one."""

    async def play() -> None:
        node = Node(tmp_path, engine)
        node.server.add(A, LINKS[200])
        node.server.add(B)
        await node.server.bind(A, Binding(ONE, "ns/one", (IP,)))
        client, reply = await node.open(A)
        assert status(reply) == 0
        await node.server.bind(B, Binding(OTHER, "ns/two", (IP,)))
        first, second = node.server.status()
        assert (first["pod_uid"], first["programs"]) == ("", 0)
        assert second["pod_uid"] == OTHER
        assert await receive(client) == b"", "it is hung up on"
        again, reply = await node.open(A)
        assert status(reply) == errno.EAGAIN
        client.close()
        again.close()
        await node.server.close()

    asyncio.run(play())


def test_a_function_that_is_taken_back_hangs_up(tmp_path: Path, engine: Engine) -> None:
    async def play() -> None:
        node = Node(tmp_path, engine)
        node.server.add(A, LINKS[200])
        await node.server.bind(A, Binding(ONE, "ns/one", (IP,)))
        client, _ = await node.open(A)
        await node.server.bind(A, Binding(ONE, "ns/one", (IP,)))
        assert node.server.status()[0]["programs"] == 1, "what is bound already is left alone"
        await node.server.release(A)
        assert await receive(client) == b""
        client.close()
        await node.server.close()

    asyncio.run(play())


def test_a_pod_s_connections_are_counted(tmp_path: Path, engine: Engine) -> None:
    """Unidentified connections count, too; another pod's function is not affected."""

    async def play() -> None:
        node = Node(tmp_path, engine)
        for name, ip in ((A, IP), (B, IP)):
            node.server.add(name)
            await node.server.bind(name, Binding(ONE, "ns/one", (ip,)))
        silent = [node.connect(A) for _ in range(MAX_CONNECTIONS_OF_FUNCTION)]
        until = asyncio.get_running_loop().time() + 5
        while node.server._connected[A] < len(silent):
            assert asyncio.get_running_loop().time() < until
            await asyncio.sleep(0.001)
        one_more = node.connect(A)
        assert await receive(one_more) == b""
        other, reply = await node.open(B)
        assert status(reply) == 0
        for one in (*silent, one_more, other):
            one.close()
        await node.server.close()

    asyncio.run(play())


def test_garbage_is_hung_up_on(tmp_path: Path, engine: Engine) -> None:
    async def play() -> None:
        node = Node(tmp_path, engine)
        node.server.add(A, LINKS[200])
        await node.server.bind(A, Binding(ONE, "ns/one", (IP,)))
        for data in (b"x", os.urandom(500), bytes(Header()) + bytes(HcaHello(1))):
            client = node.connect(A)
            client.send(data)
            assert await receive(client) == b""
            client.close()
        client, reply = await node.open(A)
        assert status(reply) == 0
        client.close()
        await node.server.close()

    asyncio.run(play())


def test_a_device_shows_the_counts_of_its_pod_s_wires_alone(
    tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three functions, one has a pod with two wires, one a pod without a wire, and one has no
    pod.
    """
    monkeypatch.setattr(hw_counters, "REFRESH_SECONDS", 0.001)
    counts = {71: HcaWireCounts(np_cnp_sent=3), 72: HcaWireCounts(np_cnp_sent=4)}
    monkeypatch.setattr(engine, "wire_counts", counts.__getitem__)

    def read_counter(function: str) -> str:
        device = tmp_path / "classes" / function / "infiniband" / "tessera_0"
        return (device / FOLDER / "np_cnp_sent").read_text()

    async def play() -> None:
        node = Node(tmp_path, engine)
        for name in (A, B, C):
            node.server.add(name)
        other = ipaddress.ip_address("10.244.1.6")
        made = {(ONE, (IP,)): (71, 72)}
        monkeypatch.setattr(node.server.wires, "engine_wires", lambda *of: made.get(of, ()))
        await node.server.bind(A, Binding(ONE, "ns/one", (IP,)))
        await node.server.bind(B, Binding(OTHER, "ns/other", (other,)))
        showing = asyncio.get_running_loop().create_task(node.server._show())
        until = asyncio.get_running_loop().time() + 30
        while read_counter(A) == "0\n":
            assert asyncio.get_running_loop().time() < until
            await asyncio.sleep(0.001)
        assert [read_counter(name) for name in (A, B, C)] == ["7\n", "0\n", "0\n"]
        assert [path.parts[-3] for path in node.server._shown] == [A]
        made.clear()  # its pod has ended
        while node.server._shown:
            assert asyncio.get_running_loop().time() < until
            await asyncio.sleep(0.001)
        showing.cancel()
        await node.server.close()

    asyncio.run(play())
