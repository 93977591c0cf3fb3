"""A pod's wire exists while its programs do, and is never used for another pod."""

import asyncio
import ctypes
import errno
import ipaddress
import json
import os
import secrets
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hca.binding.engine import Engine
from hca.binding.wire import NoWire, WireAddress, WireInterface
from hca.binding.wire_sockets import open_group, open_sockets
from hca.contract import hca, hca_objects
from hca.contract.hca import HcaMessage
from hca.contract.hca_engine import HcaWireCounts
from hca.contract.verbs import VerbsQpType
from hca.daemon.common.functions import Binding
from hca.daemon.common.handover_state import HandoverState
from hca.daemon.netd.broker import OpenedSockets
from hca.daemon.serving import pods
from hca.daemon.serving.policy_admin import operations
from hca.daemon.serving.traffic import read_traffic
from hca.daemon.wires import pod_wires
from hca.daemon.wires.pod_wires import Netd
from support.rigs import hca_rig
from support.rigs.pod_node import OTHER, A, Node, device, receive, say_hello, status
from vgpu_sim.hal import messages
from vgpu_sim.hal.messages import Header

IP = ipaddress.ip_address("127.46.0.1")
GROUP = ipaddress.IPv4Address(bytes((239, 46)) + secrets.token_bytes(2))
GROUP_GID = bytes(10) + b"\xff\xff" + GROUP.packed


@pytest.fixture
def netd(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Open real sockets of the requested loopback address instead; return the list of requests."""
    requests: list[str] = []

    def answer(broker: Path, descriptor: int, wanted: str, segments: bool) -> OpenedSockets:
        os.fstat(descriptor)
        os.close(descriptor)
        requests.append(wanted)
        address = WireAddress(ipaddress.ip_address(wanted))
        interface = WireInterface("eth0", 1500, address)
        return OpenedSockets(interface, (open_sockets(address, segments=segments),))

    monkeypatch.setattr(pod_wires, "_open_sockets", answer)
    return requests


def node_of(directory: Path, engine: Engine, netd: Netd) -> Node:
    node = Node(directory, engine, IP, netd)
    node.server.add(A)
    return node


def wires_of(node: Node) -> list[dict[str, Any]]:
    return list(node.server.wires.status()["wires"])


async def until(check: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not check():  # noqa: ASYNC110 # no event reports it
            await asyncio.sleep(0.001)


def test_programs_of_a_pod_share_a_wire_which_ends_with_the_last(
    tmp_path: Path, engine: Engine, netd: list[str]
) -> None:
    async def play() -> None:
        node = node_of(tmp_path, engine, Netd(tmp_path))
        await node.server.bind(A, Binding(node.pod, "ns/one", (IP,)))
        said = operations(node.server.enforcer, node.server.wires)
        assert (await said["policy-generation"]({}))["path_mtu"] is None
        assert netd == [], "who opens nothing has no sockets in its network"
        (first, reply), (second, _) = await asyncio.gather(node.open(A), node.open(A))
        assert device(reply).mtu == 3, "1024 bytes of 1500"
        assert netd == [str(IP)]
        (wire,) = (await said["policy-status"]({}))["wire"]["wires"]
        assert (wire["interface"], wire["interface_mtu"]) == ("eth0", 1500)
        assert (wire["programs"], wire["path_mtu"]) == (2, 1024)
        assert wire["packets"]["received"] == 0
        assert wire["datagram_sources"] == 0, "every sender is evaluated"
        assert (await said["policy-generation"]({}))["path_mtu"] == 1024
        first.close()
        await until(lambda: wires_of(node)[0]["programs"] == 1)
        second.close()
        await until(lambda: not wires_of(node))
        open_sockets(WireAddress(IP)).close()  # the port is free again
        third, reply = await node.open(A)
        assert status(reply) == 0
        await node.server.release(A)
        assert wires_of(node) == []
        third.close()
        await node.server.close()

    asyncio.run(play())


def test_the_counts_of_a_closed_wire_remain_until_the_pod_loses_its_function(
    tmp_path: Path, engine: Engine, netd: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = HcaWireCounts(received=5, received_bytes=50, sent=7, sent_bytes=70)
    monkeypatch.setattr(engine, "wire_counts", lambda _wire: counts)

    def figures(node: Node) -> list[int]:
        (one,) = read_traffic(node.server)["functions"]
        assert (one["function"], one["pod"]) == (A, "ns/one")
        names = ("received_packets", "received_bytes", "sent_packets", "sent_bytes")
        return [one[name] for name in names]

    async def play() -> None:
        node = node_of(tmp_path, engine, Netd(tmp_path))
        assert read_traffic(node.server)["functions"] == []
        await node.server.bind(A, Binding(node.pod, "ns/one", (IP,)))
        assert figures(node) == [0, 0, 0, 0]
        for wires in (1, 2):
            client, _ = await node.open(A)
            assert figures(node) == [wires * one for one in (5, 50, 7, 70)]
            client.close()
            await until(lambda: not wires_of(node))
            assert figures(node) == [wires * one for one in (5, 50, 7, 70)]
        await node.server.release(A)
        assert read_traffic(node.server)["functions"] == []
        await node.server.close()

    asyncio.run(play())


async def handed_over(
    directory: Path, node: Node, engine: Engine, successor: Engine
) -> tuple[Node, Callable[[], None]]:
    """Return the successor's node, held, and a function that starts to serve; the old node ends."""
    assert await node.server.pause() == ""
    engine.suspend()
    handover_state = HandoverState()
    saved = json.loads(json.dumps(node.server.save(handover_state)))
    arrived = HandoverState([os.dup(descriptor) for descriptor in handover_state.descriptors])
    successor.suspend()
    next_one = Node(directory, successor, IP, Netd(directory))
    serve = next_one.server.load(saved, arrived)
    assert arrived.list_unclaimed() == []
    engine.resume()
    await node.server.close()
    return next_one, serve


def test_a_wire_is_handed_over_with_its_program_and_ends_with_it(
    tmp_path: Path, engine: Engine, netd: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The successor does not call netd, the MTU stays, and the port is never free.

    A connection that has not identified itself can do so to the successor.
    """
    monkeypatch.setattr(pods, "HELLO_TIMEOUT_SECONDS", 3600.0)

    async def play(successor: Engine) -> None:
        node = node_of(tmp_path, engine, Netd(tmp_path))
        await node.server.bind(A, Binding(node.pod, "ns/one", (IP,)))
        client, reply = await node.open(A)
        assert device(reply).mtu == 3
        late = node.connect(A)
        await until(lambda: node.server._silent)
        next_one, serve = await handed_over(tmp_path, node, engine, successor)
        with pytest.raises(NoWire):
            open_sockets(WireAddress(IP))
        serve()
        successor.resume()
        await until(lambda: wires_of(next_one)[0]["programs"] == 1)
        assert wires_of(next_one)[0]["path_mtu"] == 1024
        assert next_one.server.wires.path_mtu == 1024
        assert netd == [str(IP)], "netd opened one wire"
        assert next_one.server.status()[0]["programs"] == 1
        say_hello(late)
        assert device(await receive(late)).mtu == 3
        assert netd == [str(IP)]
        late.close()
        client.close()
        await until(lambda: not wires_of(next_one))
        open_sockets(WireAddress(IP)).close()
        await next_one.server.close()

    with hca_rig.running_engine() as successor:
        asyncio.run(play(successor))


@pytest.mark.parametrize("directory", [None, Path("/nonexistent")])
def test_without_netd_a_function_opens_and_reaches_its_node(
    tmp_path: Path, engine: Engine, directory: Path | None
) -> None:
    async def play() -> None:
        node = node_of(tmp_path, engine, Netd(directory))
        await node.server.bind(A, Binding(node.pod, "ns/one", (IP,)))
        client, reply = await node.open(A)
        assert device(reply).mtu == hca.HCA_MAX_MTU
        (wire,) = wires_of(node)
        said = "rdma.wire.enabled" if directory is None else "netd: .*No such file"
        with pytest.raises(AssertionError, match=said):
            raise AssertionError(wire["same_node_only"])
        assert node.server.wires.path_mtu is None
        client.close()
        await node.server.close()

    asyncio.run(play())


def test_the_next_program_makes_hcad_call_netd_again(
    tmp_path: Path, engine: Engine, netd: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = pod_wires._open_sockets

    def refuse(broker: Path, descriptor: int, wanted: str, segments: bool) -> OpenedSockets:
        os.close(descriptor)
        raise NoWire("not yet")

    async def play() -> None:
        node = node_of(tmp_path, engine, Netd(tmp_path))
        await node.server.bind(A, Binding(node.pod, "ns/one", (IP,)))
        monkeypatch.setattr(pod_wires, "_open_sockets", refuse)
        first, _ = await node.open(A)
        assert wires_of(node)[0]["same_node_only"] == "netd: not yet"
        monkeypatch.setattr(pod_wires, "_open_sockets", answer)
        second, _ = await node.open(A)
        assert wires_of(node)[0]["interface"] == "eth0"
        first.close()
        second.close()
        await node.server.close()

    asyncio.run(play())


def test_sockets_of_another_address_are_not_taken(
    tmp_path: Path, engine: Engine, netd: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = pod_wires._open_sockets
    monkeypatch.setattr(
        pod_wires,
        "_open_sockets",
        lambda at, descriptor, _, cut: answer(at, descriptor, "127.46.0.9", cut),
    )

    async def play() -> None:
        node = node_of(tmp_path, engine, Netd(tmp_path))
        await node.server.bind(A, Binding(node.pod, "ns/one", (IP,)))
        client, _ = await node.open(A)
        assert wires_of(node)[0]["same_node_only"] == (
            "netd opened sockets of 127.46.0.9 instead of 127.46.0.1"
        )
        open_sockets(WireAddress(ipaddress.ip_address("127.46.0.9"))).close()
        client.close()
        await node.server.close()

    asyncio.run(play())


@pytest.mark.parametrize("segments", [True, False])
def test_sockets_segment_packets_unless_the_option_is_off(
    tmp_path: Path,
    engine: Engine,
    netd: list[str],
    monkeypatch: pytest.MonkeyPatch,
    segments: bool,
) -> None:
    answer, made = pod_wires._open_sockets, []

    def open_and_record(
        broker: Path, descriptor: int, wanted: str, segments: bool
    ) -> OpenedSockets:
        opened = answer(broker, descriptor, wanted, segments)
        made.append(opened.wires[0].to_hca_wire().segments)
        return opened

    monkeypatch.setattr(pod_wires, "_open_sockets", open_and_record)

    async def play() -> None:
        node = node_of(tmp_path, engine, Netd(tmp_path, segments=segments))
        await node.server.bind(A, Binding(node.pod, "ns/one", (IP,)))
        client, _ = await node.open(A)
        assert [wire["segments"] for wire in wires_of(node)] == [segments]
        assert made == [int(segments)]
        client.close()
        await node.server.close()

    asyncio.run(play())


def test_who_loses_its_function_while_netd_works_opens_nothing(
    tmp_path: Path, engine: Engine, netd: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next holder of the same address gets a new wire instead of the previous holder's."""
    answer, let_go, requested = pod_wires._open_sockets, threading.Event(), threading.Event()

    def slow(broker: Path, descriptor: int, wanted: str, segments: bool) -> OpenedSockets:
        requested.set()
        assert let_go.wait(60)
        return answer(broker, descriptor, wanted, segments)

    monkeypatch.setattr(pod_wires, "_open_sockets", slow)

    async def play() -> None:
        node = node_of(tmp_path, engine, Netd(tmp_path))
        await node.server.bind(A, Binding(node.pod, "ns/one", (IP,)))
        late = asyncio.create_task(node.open(A))
        await until(requested.is_set)
        await node.server.bind(A, Binding(OTHER, "ns/two", (IP,)))
        let_go.set()
        client, reply = await late
        assert status(reply) == errno.EAGAIN
        await until(lambda: not wires_of(node))
        node.pod = OTHER
        other, reply = await node.open(A)
        assert status(reply) == 0
        assert [wire["interface"] for wire in wires_of(node)] == ["eth0"]
        client.close()
        other.close()
        await node.server.close()

    asyncio.run(play())


async def ask(client: socket.socket, kind: int, wanted: ctypes.Structure | None = None) -> bytes:
    """Send a request as a program does; return the reply without its descriptors."""
    body = bytes(wanted) if wanted is not None else b""
    start = (messages.MAGIC, messages.PROTOCOL_VERSION, kind, 2, 0, len(body), 0)
    client.send(bytes(Header(*start)) + body)
    return await receive(client)


async def membership(client: socket.socket) -> hca_objects.HcaMcast:
    """Make a datagram queue pair; return the request to attach it to the group."""

    async def request(kind: int, wanted: ctypes.Structure | None = None) -> int:
        reply = await ask(client, kind, wanted)
        assert status(reply) == 0
        return hca.HcaHandle.from_buffer_copy(reply[len(bytes(Header())) :]).handle

    pd = await request(HcaMessage.PD_CREATE)
    cq = await request(HcaMessage.CQ_CREATE, hca.HcaCqCreate(4, 0))
    wanted = hca.HcaQpCreate(pd, cq, cq, VerbsQpType.UD, 4, 4, 0, 0)
    number = await request(HcaMessage.QP_CREATE, wanted)
    return hca_objects.HcaMcast(number, 0, (ctypes.c_uint8 * 16)(*GROUP_GID))


def is_entered() -> bool:
    """Return whether the kernel lists a local member of the group."""
    return bytes(reversed(GROUP.packed)).hex().upper() in Path("/proc/net/igmp").read_text()


@pytest.fixture
def groups(netd: list[str], monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bytes]]:
    """Open real sockets in groups instead of netd; return the list of requests."""
    requests: list[tuple[str, bytes]] = []

    def answer(broker: Path, descriptor: int, wanted: str, group: bytes) -> socket.socket:
        with socket.socket(fileno=descriptor) as own:
            assert own.getsockname() == (wanted, 4791)
        requests.append((wanted, group))
        return open_group(WireAddress(ipaddress.ip_address(wanted)), group)

    monkeypatch.setattr(pod_wires, "_open_group_socket", answer)
    return requests


def test_a_pod_is_in_a_group_while_a_program_of_its_own_is(
    tmp_path: Path, engine: Engine, groups: list[tuple[str, bytes]]
) -> None:
    async def play() -> None:
        node = node_of(tmp_path, engine, Netd(tmp_path))
        await node.server.bind(A, Binding(node.pod, "ns/one", (IP,)))
        programs = [(await node.open(A))[0] for _ in range(2)]
        wanted = [await membership(program) for program in programs]
        assert groups == []
        entering = zip(programs * 2, wanted * 2, strict=True)
        for program, member in entering:
            assert status(await ask(program, HcaMessage.MCAST_ATTACH, member)) == 0
        assert groups == [(str(IP), GROUP_GID)], "netd opened one socket"
        assert wires_of(node)[0]["groups"] == [str(GROUP)]
        assert status(await ask(programs[0], HcaMessage.MCAST_DETACH, wanted[0])) == 0
        assert is_entered()
        programs[1].close()  # it ends without a message
        await until(lambda: wires_of(node)[0]["groups"] == [])
        assert not is_entered()
        programs[0].close()
        await node.server.close()

    asyncio.run(play())


@pytest.mark.parametrize("error", [NoWire("no such groups"), OSError(errno.ENETUNREACH, "gone")])
def test_a_group_that_netd_does_not_enter_is_an_error_of_the_verb(
    tmp_path: Path,
    engine: Engine,
    groups: list[tuple[str, bytes]],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    answer = pod_wires._open_group_socket

    def refuse(broker: Path, descriptor: int, wanted: str, group: bytes) -> socket.socket:
        os.close(descriptor)
        raise error

    async def play() -> None:
        node = node_of(tmp_path, engine, Netd(tmp_path))
        await node.server.bind(A, Binding(node.pod, "ns/one", (IP,)))
        client, _ = await node.open(A)
        member = await membership(client)
        monkeypatch.setattr(pod_wires, "_open_group_socket", refuse)
        reply = await ask(client, HcaMessage.MCAST_ATTACH, member)
        assert status(reply) == errno.ENETUNREACH
        assert status(await ask(client, HcaMessage.MCAST_DETACH, member)) == errno.EINVAL
        monkeypatch.setattr(pod_wires, "_open_group_socket", answer)
        assert status(await ask(client, HcaMessage.MCAST_ATTACH, member)) == 0
        assert groups == [(str(IP), GROUP_GID)]
        client.close()
        await node.server.close()

    asyncio.run(play())


def test_a_group_is_handed_over_with_its_members(
    tmp_path: Path, engine: Engine, groups: list[tuple[str, bytes]]
) -> None:
    async def play(successor: Engine) -> None:
        node = node_of(tmp_path, engine, Netd(tmp_path))
        await node.server.bind(A, Binding(node.pod, "ns/one", (IP,)))
        client, _ = await node.open(A)
        member = await membership(client)
        assert status(await ask(client, HcaMessage.MCAST_ATTACH, member)) == 0
        next_one, serve = await handed_over(tmp_path, node, engine, successor)
        assert is_entered()
        serve()
        successor.resume()
        await until(lambda: wires_of(next_one)[0]["programs"] == 1)
        assert wires_of(next_one)[0]["groups"] == [str(GROUP)]
        assert groups == [(str(IP), GROUP_GID)], "netd opened no further socket"
        assert status(await ask(client, HcaMessage.MCAST_DETACH, member)) == 0
        assert not is_entered()
        client.close()
        await until(lambda: not wires_of(next_one))
        await next_one.server.close()

    with hca_rig.running_engine() as successor:
        asyncio.run(play(successor))
