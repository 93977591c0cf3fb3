"""tessera-linkd as a process, in a network namespace that represents a node's."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from device_plugin.backends.linkd import Linkd
from device_plugin.errors import LinkdUnreachable
from device_plugin.second_layer.daemon import SOCKET_NAME
from rdma import codec
from rdma.second_layer import TABLE
from rdma.tables import Endpoint, Identity, Membership, NodeTables, Pod
from support.processes.linked_pods import ip, udp, whole

TABLES = NodeTables(
    generation=1,
    node="n",
    identities=(Identity(1, partitions=(Membership(0x7FFF, full=True),)),),
    endpoints=(Endpoint("10.92.1.2", 1, "a/x"),),
    pods=(Pod("u", "a/x", 1, ("10.92.1.2",)),),
)


# Sends UDP packets from an address that is not the pod's, until its input ends.
_SPOOFER = """
import socket, sys, threading, time
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set())).start()
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as s:
    s.bind((sys.argv[1], 0))
    frame = bytes.fromhex(sys.argv[2])
    while not ended.is_set():
        s.send(frame)
        time.sleep(0.0001)
"""
# Counts the same packets before the second layer's rules do.
_PROBE = """
table netdev probe {
counter seen { packets 0 bytes 0 }
chain from { type filter hook ingress device "%s" priority -300; policy accept;
ip saddr %s counter name seen
}
}
"""
_RELOADS = 100


def until(check: Callable[[], Any], timeout_s: float = 60.0) -> Any:
    end = time.monotonic() + timeout_s
    while not (result := check()):
        assert time.monotonic() < end, "not in time"
        time.sleep(0.02)
    return result


@dataclass
class Node:
    """A network namespace with a daemon in it."""

    name: str
    directory: Path
    process: subprocess.Popen[str] | None = None
    processes: list[subprocess.Popen[str]] = field(default_factory=list)
    clients: list[Linkd] = field(default_factory=list)

    def run(self, *command: str) -> str:
        entering = ["ip", "netns", "exec", self.name, *command]
        return subprocess.run(entering, check=True, capture_output=True, text=True).stdout

    def start(self, **environment: str) -> Linkd:
        """Start a daemon, which serves or is the next one; return a client of the one that serves.

        ``process`` is the daemon that was started last.
        """
        ready = self.directory / f"ready-{len(self.processes)}"
        module = ["-m", "device_plugin.second_layer.daemon", f"--directory={self.directory}"]
        module.append(f"--ready-file={ready}")
        entering = [shutil.which("ip") or "ip", "netns", "exec", self.name, sys.executable]
        self.process = subprocess.Popen(
            [*entering, *module], env=os.environ | environment, stderr=subprocess.PIPE, text=True
        )
        self.processes.append(self.process)
        client = Linkd(self.directory / SOCKET_NAME, 20.0)
        self.clients.append(client)

        def there() -> bool:
            assert self.process is not None
            assert self.process.poll() is None
            try:
                return ready.exists() and bool(client.call("state"))
            except LinkdUnreachable:
                return False

        until(there)
        return client

    def stop(self, number: signal.Signals = signal.SIGTERM) -> str:
        """Stop the daemon; return its output."""
        assert self.process is not None
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=60)
        return said

    def pod(self, link: str, address: str) -> None:
        """Add a link for a pod as a network plugin does."""
        self.run("ip", "link", "add", link, "type", "veth", "peer", "name", f"{link}-p")
        for end in (link, f"{link}-p"):
            self.run("ip", "link", "set", end, "up")
        self.run("ip", "route", "add", f"{address}/32", "dev", link)

    @contextmanager
    def spoofing(self, link: str, address: str) -> Iterator[None]:
        """Send packets with another address from a pod all the time."""
        state = json.loads(self.run("ip", "-j", "link", "show", link))
        there = bytes.fromhex(state[0]["address"].replace(":", ""))
        frame = there + bytes(6) + b"\x08\x00" + whole(ip(address, "10.92.9.9", udp(bytes(16))))
        entering = ["ip", "netns", "exec", self.name, sys.executable, "-c", _SPOOFER]
        with subprocess.Popen([*entering, f"{link}-p", frame.hex()], stdin=subprocess.PIPE) as it:
            try:
                yield
            finally:
                it.communicate(timeout=60)

    @property
    def rules(self) -> str:
        return self.run("nft", "list", "ruleset")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    name = f"tsr-linkd-{os.getpid()}"  # another run may use this machine
    tools = all(map(shutil.which, ("ip", "nft", "tc")))
    if not tools or subprocess.run(["ip", "netns", "add", name], check=False).returncode:
        pytest.skip("NOT RUN: needs root, iproute2 and nftables")
    made = Node(name, tmp_path)
    try:
        yield made
    finally:
        for client in made.clients:
            client.close()
        for process in made.processes:
            if process.poll() is None:
                process.kill()
                process.communicate(timeout=60)
        subprocess.run(["ip", "netns", "del", name], check=True)


def test_rules_follow_tables_and_links_and_leave_with_it(node: Node) -> None:
    node.pod("first", "10.92.1.2")
    client = node.start()
    said = client.call("tables", document=codec.encode(TABLES))
    assert said == {"generation": 1, "links": 1, "able": True, "engine_only": ""}
    assert 'device "first"' in node.rules
    node.pod("second", "10.92.1.3")
    until(lambda: 'device "second"' in node.rules)
    node.run("ip", "link", "del", "first")
    until(lambda: 'device "first"' not in node.rules)
    assert client.call("drops")["totals"]["spoofed"] == 0
    assert "tessera_segments" in node.run("tc", "filter", "show", "dev", "second", "ingress")
    assert "no rule is left" in node.stop()
    assert TABLE not in node.rules
    assert "clsact" not in node.run("tc", "qdisc", "show", "dev", "second")
    assert not (node.directory / SOCKET_NAME).exists()


def test_killed_it_leaves_rules_and_the_next_one_goes_on(node: Node) -> None:
    node.pod("first", "10.92.1.2")
    node.start().call("tables", document=codec.encode(TABLES))
    node.stop(signal.SIGKILL)
    assert 'device "first"' in node.rules
    client = node.start()
    assert client.call("state")["generation"] is None  # so that it receives them again
    client.call("tables", document=codec.encode(replace(TABLES, generation=2)))
    assert client.call("state")["generation"] == 2
    node.stop()
    assert TABLE not in node.rules


def test_another_one_takes_the_rules_over(node: Node) -> None:
    """During an update both run: the old one ends when the new one's pod is ready."""
    node.pod("first", "10.92.1.2")
    node.start().call("tables", document=codec.encode(TABLES))
    old, path = node.process, node.directory / SOCKET_NAME
    client = node.start()
    assert client.call("state")["generation"] == 1, "the new one does not serve yet"
    node.process, new = old, node.process
    assert "the rules stay" in node.stop()
    assert 'device "first"' in node.rules
    node.process = new
    until(lambda: state_of(client).get("generation", 1) is None)
    client.call("tables", document=codec.encode(replace(TABLES, generation=2)))
    assert client.call("state")["generation"] == 2
    assert "no rule is left" in node.stop()
    assert TABLE not in node.rules
    assert not path.exists()
    assert not list(node.directory.glob("ready-*"))


def state_of(client: Linkd) -> dict[str, Any]:
    """Return the state of the linkd that serves; empty while none does."""
    try:
        return client.call("state")
    except LinkdUnreachable:
        return {}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda n: n.name)
def test_one_that_ends_before_its_turn_changes_nothing(node: Node, number: signal.Signals) -> None:
    """Its image may be broken, or the update is undone."""
    node.pod("first", "10.92.1.2")
    node.start().call("tables", document=codec.encode(TABLES))
    old = node.process
    client = node.start()
    node.stop(number)
    assert 'device "first"' in node.rules
    assert client.call("state")["generation"] == 1
    client.call("tables", document=codec.encode(replace(TABLES, generation=2)))
    node.pod("second", "10.92.1.3")
    until(lambda: 'device "second"' in node.rules)
    node.process = old
    assert "no rule is left" in node.stop()
    assert TABLE not in node.rules


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["old first", "new first"])
def test_after_an_uninstallation_during_an_update_no_rule_is_left(
    node: Node, order: tuple[int, int]
) -> None:
    node.pod("first", "10.92.1.2")
    node.start().call("tables", document=codec.encode(TABLES))
    node.start()
    for number in order:
        node.processes[number].terminate()
    for process in node.processes:
        process.communicate(timeout=60)
    assert TABLE not in node.rules


@pytest.mark.parametrize("returns", [True, False], ids=["its socket is removed", "it takes over"])
def test_a_linkd_of_an_earlier_version_makes_none_unreachable(node: Node, returns: bool) -> None:
    """It takes the socket when it starts, and removes socket and rules when it ends."""
    node.pod("first", "10.92.1.2")
    client, path = node.start(), node.directory / SOCKET_NAME
    client.call("tables", document=codec.encode(TABLES))
    path.unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        node.pod("second", "10.92.1.3")
        time.sleep(2)
        assert 'device "second"' not in node.rules, "both would enforce"
        if not returns:
            assert "the rules stay" in node.stop()
            assert 'device "first"' in node.rules
            return
    path.unlink()
    node.run("nft", "flush", "ruleset")
    second_client = Linkd(path, 20.0)
    node.clients.append(second_client)
    until(lambda: state_of(second_client))
    second_client.call("drops")
    assert 'device "second"' in node.rules


def test_no_dropped_packet_is_lost_from_the_counts_while_rules_are_loaded(node: Node) -> None:
    """Under load, by one linkd after another, while a link of another pod comes and goes."""
    spoofed = "10.66.6.6"
    node.pod("first", "10.92.1.2")
    probe = _PROBE % ("first", spoofed)
    entering = ["ip", "netns", "exec", node.name, "nft", "-f", "-"]
    subprocess.run(entering, input=probe, text=True, check=True)
    client = node.start()
    client.call("tables", document=codec.encode(TABLES))
    with node.spoofing("first", spoofed):
        until(lambda: client.call("drops")["totals"]["spoofed"])
        for generation in range(2, _RELOADS + 2):
            if generation == _RELOADS // 2:
                node.stop(signal.SIGKILL)
                client = node.start()
            if generation % 10 == 0:
                node.pod("second", "10.92.1.3")
            if generation % 10 == 5 and generation > 10:
                node.run("ip", "link", "del", "second")
            tables = codec.encode(replace(TABLES, generation=generation))
            assert client.call("tables", document=tables)["generation"] == generation
    (seen,) = json.loads(node.run("nft", "-j", "list", "counter", "netdev", "probe", "seen"))[
        "nftables"
    ][1:]
    counted = client.call("drops")
    assert counted["totals"]["spoofed"] == seen["counter"]["packets"] > _RELOADS
    (link,) = counted["links"]
    assert link["dropped"] == {"spoofed": counted["totals"]["spoofed"]}


def test_without_nft_it_logs_the_reason_once_and_returns_it_in_replies(node: Node) -> None:
    client = node.start(PATH="/nowhere")
    for _ in range(3):
        assert client.call("state")["engine_only"] == "nft is missing in the image"
    said = node.stop()
    assert said.count("nft is missing") == 1


def test_others_than_its_own_user_are_hung_up_on(node: Node) -> None:
    node.directory.chmod(0o711)
    node.start()
    path = node.directory / SOCKET_NAME
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o666)  # as if it had been; the peer's user is checked, too
    for above in node.directory.parents:
        if above.stat().st_uid == os.getuid() and above.is_relative_to("/tmp"):
            above.chmod(above.stat().st_mode | 0o011)
    ask = (
        "import os, socket, sys; os.setgroups([]); os.setgid(65534); os.setuid(65534);"
        "s = socket.socket(socket.AF_UNIX); s.settimeout(60); s.connect(sys.argv[1]);"
        "print(s.recv(1))"
    )
    done = subprocess.run([sys.executable, "-c", ask, str(path)], capture_output=True, text=True)
    assert done.stdout.strip() == "b''", done.stderr


def test_what_is_no_request_is_refused_and_the_next_is_served(node: Node) -> None:
    client = node.start()
    with socket.socket(socket.AF_UNIX) as other:
        other.settimeout(60)
        other.connect(str(node.directory / SOCKET_NAME))
        other.sendall(b'{"id": 1}\n' * 3)
        said = b""
        while said.count(b"\n") < 3:
            said += other.recv(4096)
        assert said.count(b'"code": "invalid"') == 3
    assert client.call("state")["able"]
