"""The second layer on links between network namespaces: raw packets of a pod that has the right to
write them, against the rules that it cannot reach."""

import json
import os
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from device_plugin.errors import SecondLayerError
from device_plugin.second_layer.kernel import Namespace
from device_plugin.second_layer.links import Links
from rdma.second_layer import TABLE, Interface, link_counter, removal, ruleset
from rdma.tables import (
    Direction,
    Endpoint,
    Identity,
    Isolation,
    Membership,
    NodeTables,
    Port,
    Rule,
)
from rdma.verbs import Verb

DEFAULT = (Membership(0x7FFF, full=True),)
TABLES = NodeTables(
    generation=1,
    node="n",
    rules=(Rule("a/p", Direction.INGRESS, 0, Verb.READ, 1 << 1),),
    identities=(
        Identity(1, partitions=DEFAULT),
        Identity(2, Isolation((0,)), None, DEFAULT),
        Identity(3, partitions=(Membership(0x11, full=True),)),
    ),
    endpoints=tuple(Endpoint(f"10.91.{n}.2", n, f"a/{n}") for n in (1, 2, 3)),
)
A, B, APART = "10.91.1.2", "10.91.2.2", "10.91.3.2"
READ_REQUEST, READ_RESPONSE, WRITE_ONLY, ACKNOWLEDGE = 0x0C, 0x10, 0x0A, 0x11

# Runs inside a namespace: sends what it reads from stdin as JSON, one packet a line.
_SENDER = """
import json, socket, sys
for line in sys.stdin:
    how = json.loads(line)
    if how["frame"]:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as s:
            s.bind(("eth0", 0))
            for data in how["data"]:
                s.send(bytes.fromhex(data))
    elif how["raw"]:
        with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as s:
            for data in how["data"]:
                s.sendto(bytes.fromhex(data), (how["to"], 0))
    else:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            if how["segment"]:
                s.setsockopt(socket.IPPROTO_UDP, 103, how["segment"])  # UDP_SEGMENT
            s.sendto(bytes.fromhex(how["data"][0]), (how["to"], how["port"]))
    print("sent", flush=True)
"""
# Prints the first 16 bytes and the length of each datagram that has come to a port when the mark
# comes to another: links keep the order.
_RECEIVER = """
import socket, sys
with (
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as looked_at,
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as marked,
):
    looked_at.bind(("", int(sys.argv[1])))
    marked.bind(("", 4792))
    print("ready", flush=True)
    marked.settimeout(60)
    assert len(marked.recv(65536)) == 4000
    looked_at.setblocking(False)
    while True:
        try:
            data, who = looked_at.recvfrom(65536)
        except BlockingIOError:
            break
        print(data[:16].hex(), len(data), who[0], flush=True)
"""


def bth(opcode: int, pkey: int = 0xFFFF, payload: bytes = bytes(16), qpn: int = 0x1234) -> bytes:
    """Return a packet from the base transport header on; nobody here checks the rest."""
    return struct.pack(">BBHII", opcode, 0, pkey, qpn, 7) + payload


def ip(source: str, destination: str, body: bytes, *, offset: int = 0, more: bool = False) -> bytes:
    """Return an IPv4 packet of UDP; the kernel fills in the checksum."""
    fragment = (0x2000 if more else 0) | offset // 8
    return (
        struct.pack(
            ">BBHHHBBH4s4s",
            *(0x45, 0, 20 + len(body), 77, fragment, 64, socket.IPPROTO_UDP, 0),
            *(socket.inet_aton(source), socket.inet_aton(destination)),
        )
        + body
    )


def udp(body: bytes, port: int = 4791) -> bytes:
    """Return a datagram without a checksum."""
    return struct.pack(">HHHH", 0xC000, port, 8 + len(body), 0) + body


@dataclass
class Net:
    """A host with three pods behind a link each."""

    name: str

    def at(self, place: str, *command: str) -> list[str]:
        return ["ip", "netns", "exec", f"{self.name}{place}", *command]

    def interfaces(self) -> list[Interface]:
        """The host's ends of the pods' links."""
        state = json.loads(
            subprocess.run(
                ["ip", "-n", f"{self.name}h", "-j", "link"], check=True, capture_output=True
            ).stdout
        )
        index = {one["ifname"]: one["ifindex"] for one in state}
        return [
            Interface(f"pod{n}", (f"10.91.{n}.2",), n, mtu=1024, index=index[f"pod{n}"])
            for n in (1, 2, 3)
        ]

    def hardware(self, place: str, link: str) -> bytes:
        """The Ethernet address of a link."""
        command = ["ip", "-n", f"{self.name}{place}", "-j", "link", "show", link]
        (found,) = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        return bytes.fromhex(found["address"].replace(":", ""))

    def load(self, text: str) -> None:
        subprocess.run(self.at("h", "nft", "-f", "-"), input=text, text=True, check=True)

    def counted(self, name: str, family: str = "netdev") -> int:
        command = self.at("h", "nft", "-j", "list", "counter", family, TABLE, name)
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return int(json.loads(done.stdout)["nftables"][1]["counter"]["packets"])

    def arrived(
        self,
        *packets: bytes,
        to: str = B,
        source: str = A,
        raw: bool = True,
        segment: int = 0,
        port: int = 4791,
        frame: bool = False,
    ) -> list[str]:
        """Send packets out of pod 1, then a mark; return what came before it."""
        place = to.split(".")[2]
        receiver = subprocess.Popen(
            self.at(place, sys.executable, "-c", _RECEIVER, str(port)),
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert receiver.stdout is not None
            assert receiver.stdout.readline() == "ready\n"
            listed = [(ip(source, to, udp(p)) if raw else p).hex() for p in packets]
            if raw and packets and packets[0][:1] == b"\x45":
                listed = [p.hex() for p in packets]
            how = {
                "frame": frame,
                "raw": raw,
                "to": to,
                "port": port,
                "segment": segment,
                "data": listed,
            }
            mark = {
                **how,
                "frame": False,
                "raw": False,
                "port": 4792,
                "segment": 0,
                "data": [bytes(4000).hex()],
            }
            lines = "".join(json.dumps(one) + "\n" for one in (how, mark))
            command = self.at("1", sys.executable, "-c", _SENDER)
            subprocess.run(command, input=lines, text=True, check=True, stdout=subprocess.DEVNULL)
            said = receiver.communicate(timeout=60)[0]
            assert receiver.returncode == 0, "the mark did not come"
        finally:
            receiver.kill()
            receiver.wait()
        return said.split("\n")[:-1]


@pytest.fixture(scope="module")
def made() -> Iterator[Net]:
    net = Net(f"tsr-{os.getpid()}-")  # another run may be on this machine
    tools = all(map(shutil.which, ("ip", "nft", "tc")))
    host = ["ip", "netns", "add", f"{net.name}h"]
    if not tools or subprocess.run(host, check=False).returncode:
        pytest.skip("NOT RUN: needs root, iproute2 and nftables")
    lines = [f"netns add {net.name}{place}" for place in "123"]
    for n in "123":
        pod, host = f"{net.name}{n}", f"{net.name}h"
        lines += [
            f"-n {host} link add pod{n} type veth peer name eth0 netns {pod}",
            f"-n {host} addr add 10.91.{n}.1/24 dev pod{n}",
            f"-n {host} link set pod{n} up",
            f"-n {pod} addr add 10.91.{n}.2/24 dev eth0",
            f"-n {pod} link set eth0 up",
            f"-n {pod} route add default via 10.91.{n}.1",
        ]
    try:
        for line in lines:
            subprocess.run(["ip", *line.split()], check=True)
        subprocess.run(net.at("h", "sysctl", "-qw", "net.ipv4.ip_forward=1"), check=True)
        yield net
    finally:
        for place in "h123":
            subprocess.run(["ip", "netns", "del", f"{net.name}{place}"], check=False)


@pytest.fixture(scope="module")
def links(made: Net) -> Iterator[Links]:
    namespace = Namespace(f"{made.name}h")
    try:
        yield Links(namespace, made.at("h"))
    finally:
        namespace.close()


@pytest.fixture
def net(made: Net, links: Links) -> Net:
    links.remove()
    links.apply(TABLES, made.interfaces())
    return made


def test_requests_that_are_allowed_pass_and_others_do_not(net: Net) -> None:
    packets = [bth(READ_REQUEST), bth(WRITE_ONLY), bth(ACKNOWLEDGE), bth(READ_RESPONSE)]
    came = [line[:2] for line in net.arrived(*packets)]
    assert came == ["0c", "11", "10"]  # what B may ask of A has its answers
    assert net.counted("operation") == 1


def test_without_the_rules_everything_passes(net: Net) -> None:
    net.load(removal())
    assert len(net.arrived(bth(WRITE_ONLY), bth(READ_REQUEST, 0x8011))) == 2


def test_another_s_address_and_another_s_partition_do_not_pass(net: Net) -> None:
    assert net.arrived(bth(READ_REQUEST), source="10.91.3.2") == []
    assert net.counted("spoofed") == 1
    assert net.arrived(bth(READ_REQUEST, 0x8011), bth(READ_REQUEST, 0x7FFF)) != []
    assert net.counted("partition") == 1
    assert net.arrived(bth(READ_REQUEST), to=APART) == []
    assert net.counted("peer") == 1


def test_fragments_do_not_pass_and_those_of_others_do(net: Net) -> None:
    whole = udp(bth(READ_REQUEST))
    first = ip(A, B, whole[:8], more=True)
    rest = ip(A, B, whole[8:], offset=8)
    assert net.arrived(first, rest) == []  # the mark is 4,000 bytes long, and comes in fragments
    assert net.counted("fragment") == 1


@pytest.mark.parametrize("payload", [16, 500])
def test_segments_that_hide_behind_the_first_do_not_pass(
    net: Net, links: Links, payload: int
) -> None:
    codes = (READ_REQUEST, *[WRITE_ONLY] * 3)
    hidden = b"".join(bth(op, payload=bytes(payload)) for op in codes)
    before = links.drops()["joined"]
    assert net.arrived(hidden, raw=False, segment=12 + payload) == []
    after = links.drops()
    (first, *_) = net.interfaces()
    assert after["joined"] == before + 1
    assert after[link_counter(first.index, True, "joined")] > 0
    assert len(net.arrived(bth(READ_REQUEST), raw=False, segment=1000)) == 1  # it is only one
    links.remove()
    assert len(net.arrived(hidden, raw=False, segment=12 + payload)) == 4


PADDED = bytes(500)


def test_segments_that_are_alike_pass(net: Net) -> None:
    """As hcad sends them: the last may be shorter."""
    alike = bth(READ_RESPONSE, payload=PADDED) * 62 + bth(READ_RESPONSE)
    assert len(net.arrived(alike, raw=False, to=APART, segment=512)) == 0, "another partition"
    assert len(net.arrived(alike, raw=False, segment=512)) == 63
    assert net.counted("segments") == 0


@pytest.mark.parametrize(
    "other",
    [
        bth(READ_REQUEST, pkey=0x8011, payload=PADDED),
        bth(READ_REQUEST, payload=PADDED, qpn=0x1235),
        bth(READ_RESPONSE, payload=PADDED),
        bth(READ_REQUEST)[:12],
    ],
    ids=["partition", "queue pair", "opcode", "cut short"],
)
@pytest.mark.parametrize("place", [1, 2, 62])
def test_segments_of_which_one_differs_do_not_pass(net: Net, other: bytes, place: int) -> None:
    first = bth(READ_REQUEST, payload=PADDED) * place
    assert net.arrived(first + other, raw=False, segment=512) == []


def test_long_datagrams_of_others_and_their_segments_pass(net: Net) -> None:
    came = net.arrived(bytes(3000), raw=False, segment=1000, port=4793)
    assert len(came) == 3


def test_a_link_that_is_not_there_is_named_and_the_rules_stay(net: Net, links: Links) -> None:
    with pytest.raises(SecondLayerError, match=r"link 9999"):
        links.apply(TABLES, [Interface("gone", (A,), 1, index=9999)])
    assert net.arrived(bth(WRITE_ONLY)) == []


def test_a_pod_cannot_flush_them(net: Net) -> None:
    subprocess.run(net.at("1", "nft", "flush", "ruleset"), check=True)
    subprocess.run(net.at("2", "nft", "flush", "ruleset"), check=True)
    assert net.arrived(bth(WRITE_ONLY)) == []


def test_new_rules_replace_the_old_ones_at_once(net: Net) -> None:
    net.load(ruleset(TABLES, [Interface("pod1", (A,), None)]))
    assert net.arrived(bth(READ_REQUEST)) == []
    net.load(ruleset(TABLES, [Interface("pod1", (A,), 1)]))
    assert len(net.arrived(bth(READ_REQUEST))) == 1


@pytest.mark.parametrize("tags", ["81000000", "8100000081000000", "88a8000081000000"])
def test_tags_of_vlans_hide_nothing(net: Net, links: Links, tags: str) -> None:
    """The kernel takes off as many of VLAN 0 as there are, some of them behind our hook."""
    head = net.hardware("h", "pod1") + net.hardware("1", "eth0") + bytes.fromhex(tags + "0800")
    packet = bytearray(ip(A, B, udp(bth(WRITE_ONLY))))
    total = sum(struct.unpack(">10H", packet[:20]))
    total = (total & 0xFFFF) + (total >> 16)
    packet[10:12] = struct.pack(">H", ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF)
    assert net.arrived(head + packet, raw=False, frame=True) == []
    links.remove()
    assert len(net.arrived(head + packet, raw=False, frame=True)) == 1


def test_only_queue_pairs_that_a_rule_names_are_reached(net: Net, links: Links) -> None:
    named = replace(TABLES.rules[0], ports=(Port(qpns=(0x11, 0x1FF)), Port(qpns=(0x300, 0x300))))
    links.apply(replace(TABLES, rules=(named,)), net.interfaces())
    numbers = (0x10, 0x11, 0x1FF, 0x200, 0x300)
    packets = [bth(READ_REQUEST)[:4] + struct.pack(">I", n) + bytes(20) for n in numbers]
    came = [int(line[8:16], 16) for line in net.arrived(*packets)]
    assert came == [0x11, 0x1FF, 0x300]
    assert len(net.arrived(bth(READ_RESPONSE))) == 1  # an answer is for whoever asked


def test_a_link_without_rules_forwards_no_roce(net: Net, links: Links) -> None:
    """It came just now; what a veth is that has no pod behind it, is told from outside."""
    first, second, _ = net.interfaces()
    for known, others, passes in (
        ((first,), [], False),
        ((second,), [], False),
        ((first,), ["pod2"], True),
        ((first, second), [], True),
    ):
        links.apply(TABLES, known, others)
        assert bool(net.arrived(bth(READ_REQUEST))) is passes
    assert net.arrived(bytes(16), raw=False, port=4793) != []
    assert net.counted("stranger", "inet") == 2


def test_counters_go_on_when_rules_are_replaced(net: Net, links: Links) -> None:
    net.arrived(bth(WRITE_ONLY))
    links.apply(replace(TABLES, generation=2), net.interfaces(), [])
    net.arrived(bth(WRITE_ONLY))
    counts = links.counts()
    (first, *_) = net.interfaces()
    assert counts["operation"] == 2
    assert counts[link_counter(first.index, True, "denied")] == 2


def test_nothing_is_left_of_an_earlier_process_either(net: Net, made: Net) -> None:
    namespace = Namespace(f"{made.name}h")
    try:
        Links(namespace, made.at("h")).remove()
        assert not namespace.classified()
    finally:
        namespace.close()
    shown = subprocess.run(net.at("h", "nft", "list", "ruleset"), capture_output=True, text=True)
    assert TABLE not in shown.stdout
    for n in "123":
        command = net.at("h", "tc", "qdisc", "show", "dev", f"pod{n}")
        assert "clsact" not in subprocess.run(command, capture_output=True, text=True).stdout


def test_what_another_has_on_a_link_stays(net: Net, links: Links) -> None:
    pass_all = ("bpf", "direct-action", "bytecode", "1,6 0 0 0")
    add = net.at("h", "tc", "filter", "add", "dev", "pod1", "egress", *pass_all)
    subprocess.run(add, check=True)
    links.remove()
    show = net.at("h", "tc", "filter", "show", "dev", "pod1", "egress")
    assert "1,6 0 0 0" in subprocess.run(show, capture_output=True, text=True).stdout
    subprocess.run(net.at("h", "tc", "qdisc", "del", "dev", "pod1", "clsact"), check=True)


def test_without_its_tool_it_says_so(made: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    namespace = Namespace(f"{made.name}h")
    monkeypatch.setenv("PATH", "/nowhere")
    try:
        with pytest.raises(SecondLayerError, match="nft is missing"):
            Links(namespace)
    finally:
        namespace.close()
