"""Which pods hold functions, and which programs may open them: none until the pod is known."""

import asyncio
import errno
import ipaddress
import os
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hca.binding.addresses import address_of_pod, guid_of
from hca.binding.links import DEFAULT_LINK, LINKS
from hca.daemon.common.functions import (
    MAX_FUNCTIONS,
    Binding,
    Doorkeeper,
    Function,
    Functions,
    NotPermitted,
    addresses_of_process,
)
from hca.daemon.serving.administration import operations
from hca.daemon.serving.pods import PodServer
from vgpu_sim.system.admin_socket.errors import Conflict, InvalidRequest, NotFound
from vgpu_sim.system.peers import Peer, PodUid

ONE, OTHER = PodUid("11111111-1111-1111-1111-111111111111"), PodUid("2" * 32)
IP, OTHER_IP = ipaddress.ip_address("10.244.1.5"), ipaddress.ip_address("10.244.1.6")
BOUND = Binding(ONE, "ns/one", (IP,))
FIB_TRIE = """Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     |-- 10.244.1.0
        /24 link UNICAST
     |-- 10.244.1.5
        /32 host LOCAL
     |-- 10.244.1.255
        /32 link BROADCAST
"""
IF_INET6 = "fd000000000000000000000000000007 02 40 00 80     eth0\n"


def function(binding: Binding | None = BOUND) -> Function:
    return Function("HCA-1", DEFAULT_LINK, guid_of("HCA-1"), binding)


def admit(
    held: Function,
    pods: dict[int, PodUid | None],
    addresses: frozenset[Any] = frozenset({IP}),
    pid: int | None = None,
    sender: int | None = None,
) -> Binding:
    """Let a process at the other end of a socket open a function; ``pods`` by pid, this process's
    first.
    """
    keeper = Doorkeeper(pods.get, lambda _pid: addresses)
    here, there = socket.socketpair()
    with here, there:
        peer = Peer(os.getpid() if pid is None else pid, 0)
        said = Peer(peer.pid if sender is None else sender, 0)
        return asyncio.run(keeper.admit(held, here, peer, said))


def refusal_of(*arguments: Any, **named: Any) -> tuple[int, str]:
    with pytest.raises(NotPermitted) as caught:
        admit(*arguments, **named)
    return caught.value.status, str(caught.value)


def test_the_pod_that_holds_it_opens_it() -> None:
    assert admit(function(), {os.getpid(): ONE}) == BOUND


@pytest.mark.parametrize("held", [function(None), function(Binding(OTHER, "ns/two", (IP,)))])
def test_no_program_opens_a_function_before_its_pod_is_known(held: Function) -> None:
    status, why = refusal_of(held, {os.getpid(): ONE})
    assert status == errno.EAGAIN
    assert ONE in why


def test_what_is_in_no_pod_or_another_namespace_opens_nothing() -> None:
    me = os.getpid()
    assert refusal_of(function(), {me: None})[0] == errno.EACCES
    status, why = refusal_of(function(), {0: None}, pid=0)
    assert (status, "hostPID" in why) == (errno.EACCES, True)
    status, why = refusal_of(function(), {me: ONE}, frozenset({OTHER_IP}))
    assert (status, "network namespace" in why) == (errno.EACCES, True)


def test_a_socket_that_was_passed_on_opens_nothing() -> None:
    status, why = refusal_of(function(), {os.getpid(): ONE, 1: OTHER}, sender=1)
    assert (status, "not sent by pod" in why) == (errno.EACCES, True)


def test_a_refused_pod_gets_its_reply_at_once() -> None:
    held = function(Binding(ONE, "ns/one", (), "hostNetwork"))
    assert refusal_of(held, {os.getpid(): ONE}) == (errno.EACCES, "hostNetwork")


def test_both_addresses_of_a_pod_must_be_there() -> None:
    second = ipaddress.ip_address("fd00::7")
    held = function(Binding(ONE, "ns/one", (IP, second)))
    assert refusal_of(held, {os.getpid(): ONE}, frozenset({IP}))[0] == errno.EACCES
    assert admit(held, {os.getpid(): ONE}, frozenset({IP, second})).addresses == (IP, second)


@pytest.mark.parametrize(
    ("later", "status"),
    [
        pytest.param(Binding(OTHER, "ns/two", (OTHER_IP,)), errno.EAGAIN, id="another pod"),
        pytest.param(Binding(ONE, "ns/one", (OTHER_IP,)), errno.EAGAIN, id="another address"),
        pytest.param(Binding(ONE, "ns/one", (IP,), "hostNetwork"), errno.EAGAIN, id="refused"),
        pytest.param(None, errno.EAGAIN, id="no pod"),
        pytest.param(Binding(ONE, "ns/one", (IP,)), 0, id="the same"),
    ],
)
def test_a_function_that_changes_hands_while_addresses_are_looked_up_is_not_opened(
    later: Binding | None, status: int
) -> None:
    """Afterwards a program of the new holder can open the function."""
    held = function()
    changes = [later]

    def looked_up(_pid: int) -> frozenset[Any]:
        if changes:
            held.binding = changes.pop()
        return frozenset({IP, OTHER_IP})

    def open_by(by: PodUid) -> Binding:
        keeper = Doorkeeper(lambda _pid: by, looked_up)
        here, there = socket.socketpair()
        with here, there:
            peer = Peer(os.getpid(), 0)
            return asyncio.run(keeper.admit(held, here, peer, peer))

    if status:
        with pytest.raises(NotPermitted, match="assigned to another pod") as caught:
            open_by(ONE)
        assert caught.value.status == status
    else:
        assert open_by(ONE) == BOUND
    if later is not None and not later.refused:
        assert open_by(later.pod_uid) == later


def test_addresses_are_those_of_the_process_s_namespace(tmp_path: Path) -> None:
    net = tmp_path / "7" / "net"
    net.mkdir(parents=True)
    (net / "fib_trie").write_text(FIB_TRIE)
    (net / "if_inet6").write_text(IF_INET6)
    assert addresses_of_process(7, tmp_path) == {IP, ipaddress.ip_address("fd00::7")}
    assert addresses_of_process(8, tmp_path) == frozenset()
    assert ipaddress.ip_address("127.0.0.1") in addresses_of_process(os.getpid())


def test_an_address_has_one_pod_and_a_function_one_holder() -> None:
    table = Functions()
    first, second = table.add("HCA-1", DEFAULT_LINK), table.add("HCA-2", DEFAULT_LINK)
    table.bind("HCA-1", BOUND)
    assert table.find_displaced("HCA-1", BOUND) == ()
    assert table.find_displaced("HCA-2", BOUND) == (), "a pod may have two"
    reused = Binding(OTHER, "ns/two", (IP,))
    assert table.find_displaced("HCA-2", reused) == (first,)
    with pytest.raises(Conflict):
        table.bind("HCA-2", reused)
    assert table.find_displaced("HCA-1", Binding(OTHER, "ns/two", (OTHER_IP,))) == (first,)
    assert table.release("HCA-1")
    assert not table.release("HCA-1")
    table.bind("HCA-2", reused)
    assert second.binding == reused
    with pytest.raises(NotFound):
        table.release("HCA-3")
    with pytest.raises(Conflict):
        table.add("HCA-1", DEFAULT_LINK)


def test_functions_are_not_without_number() -> None:
    table = Functions()
    for index in range(MAX_FUNCTIONS):
        table.add(str(index), DEFAULT_LINK)
    with pytest.raises(InvalidRequest):
        table.add("more", DEFAULT_LINK)


def test_a_function_s_address_is_its_pod_s() -> None:
    held = function()
    assert held.address.gids[1] == bytes(10) + b"\xff\xff" + IP.packed
    assert held.address.gids[0][8:] == held.guid
    assert function(None).address.gids[1] == bytes(16)
    six = ipaddress.ip_address("fd00::7")
    assert address_of_pod(held.guid, six).gids[1] == six.packed
    assert guid_of("a") != guid_of("b")
    assert held.guid[0] & 2 == 0, "locally administered, by EUI-64's inverted bit"


NAME = "HCA-6b2f1e0c-6c0e-5f0e-9a2b-3d1c5a7e4f10"
GOOD = {
    "function": NAME,
    "pod_uid": ONE,
    "pod": "ns/one",
    "addresses": ["10.244.1.5"],
    "refused": "",
}


@pytest.mark.parametrize(
    "wrong",
    [
        {"function": "../../etc"},
        {"function": NAME + "\n"},
        {"pod_uid": "me"},
        {"pod": "a/b/c"},
        {"pod": "a/b\n"},
        {"addresses": []},
        {"addresses": ["10.0.0.1"] * 3},
        {"addresses": [1]},
        {"addresses": ["fe80::1%eth0/64"]},
        {"refused": "x" * 513},
        {"more": 1},
    ],
)
def test_the_agent_s_requests_are_checked(wrong: dict[str, Any]) -> None:
    untouched: Any = SimpleNamespace(bind=pytest.fail)
    bind = operations(untouched)["function-bind"]
    with pytest.raises(InvalidRequest):
        asyncio.run(bind(GOOD | wrong))


def test_a_function_is_added_bound_shown_and_released(tmp_path: Path) -> None:
    engine: Any = None  # no function is open
    classes = tmp_path / "class"
    (classes / "net").mkdir(parents=True)
    (classes / "tty").mkdir()
    (classes / "tty" / "tty0").symlink_to("../../devices/virtual/tty/tty0")
    (classes / "infiniband").mkdir()

    async def play() -> None:
        server = PodServer(tmp_path, engine, 1 << 20, system_classes=classes)
        ask = operations(server)
        for rate in (0, 75):
            with pytest.raises(InvalidRequest):
                await ask["function-add"]({"function": NAME, "rate_gbps": rate})
        await ask["function-add"]({"function": NAME, "rate_gbps": 200})
        shown = tmp_path / "classes" / NAME
        device = shown / "infiniband" / "tessera_0"
        assert (device / "ports/1/rate").read_text() == "200 Gb/sec (4X HDR)\n"
        assert (device / "ports/1/gids/1").read_text() == "0000:" * 7 + "0000\n"
        assert os.readlink(shown / "net") == "../devices/virtual/net"
        assert os.readlink(shown / "tty" / "tty0") == "../../devices/virtual/tty/tty0"
        inode = device.stat().st_ino
        await ask["function-bind"](dict(GOOD))
        assert (device / "ports/1/gids/1").read_text().endswith("ffff:0af4:0105\n")
        assert device.stat().st_ino == inode, "containers have this folder mounted"
        (one,) = (await ask["status"]({}))["functions"]
        assert (one["pod_uid"], one["pod"], one["addresses"]) == (ONE, "ns/one", ["10.244.1.5"])
        await ask["function-release"]({"function": NAME})
        (one,) = (await ask["status"]({}))["functions"]
        assert (one["pod_uid"], one["addresses"], one["programs"]) == ("", [], 0)
        await server.close()

    asyncio.run(play())
    home = tmp_path / "functions" / NAME
    assert home.stat().st_mode & 0o777 == 0o755
    assert (home / "hca.sock").stat().st_mode & 0o777 == 0o666


def test_a_new_daemon_finds_the_folders_of_the_old_one(tmp_path: Path) -> None:
    engine: Any = None

    async def once() -> int:
        server = PodServer(tmp_path, engine, 1 << 20)
        server.add(NAME, DEFAULT_LINK)
        await server.close()
        return (tmp_path / "functions" / NAME).stat().st_ino

    assert asyncio.run(once()) == asyncio.run(once())


def test_each_link_speed_is_what_its_lanes_carry() -> None:
    lane = {32: 25, 64: 50, 128: 100}
    for gbps, link in LINKS.items():
        assert link.gbps == gbps == link.lanes * lane[link.speed]
    assert LINKS[25].text == "25 Gb/sec (1X EDR)"
    assert (LINKS[400].width, LINKS[400].text) == (2, "400 Gb/sec (4X NDR)")
