"""A forged packet inside another one reaches no pod, whichever device of the node decapsulates it.

VXLAN is the kernel's device; a process of the host decapsulates Geneve, FOU, IPIP, SIT and GRE.
"""

import subprocess
from collections.abc import Iterator

import pytest

from device_plugin.second_layer.kernel import Namespace
from device_plugin.second_layer.links import Links
from device_plugin.second_layer.tunnels import find_overlays
from rdma.forward_guard import Overlays
from rdma.second_layer import Interface
from rdma.tables import Direction, Endpoint, Identity, Isolation, Membership, NodeTables, Rule
from rdma.verbs import Verb
from support.processes.decapsulator import (
    FOU_PORT,
    KINDS,
    OTHER_VXLAN_PORT,
    VXLAN_PORT,
    Decapsulator,
    decapsulating_host,
    encapsulate,
    read_sources,
)
from support.processes.linked_pods import APART, B, Net, bth, ip, ip6, linked_pods, udp, whole

DEFAULT = (Membership(0x7FFF, full=True),)
READ = 0x0C
TRUSTED, TRUSTED6, B6 = APART, "fd91:3::2", "fd91:2::2"
TABLES = NodeTables(
    generation=1,
    node="n",
    rules=(Rule("a/p", Direction.INGRESS, 0, Verb.READ, 1 << 3),),
    identities=(
        Identity(1, partitions=DEFAULT),
        Identity(2, Isolation((0,)), None, DEFAULT),
        Identity(3, partitions=DEFAULT),
    ),
    endpoints=tuple(
        Endpoint(address, n, f"a/{n}")
        for n in (1, 2, 3)
        for address in (f"10.91.{n}.2", f"fd91:{n}::2")
    ),
)
"""Only pod 3 may READ memory of pod 2."""


@pytest.fixture(scope="module")
def host() -> Iterator[Decapsulator]:
    with linked_pods() as net, decapsulating_host(net) as devices:
        net.connects(B6, "2")
        net.connects(B, "2")
        yield devices


@pytest.fixture
def links(host: Decapsulator) -> Iterator[Links]:
    """Return the second layer, with nothing loaded yet."""
    namespace = Namespace(f"{host.net.name}h")
    try:
        loaded = Links(namespace, host.net.at("h"))
        loaded.remove()
        yield loaded
    finally:
        namespace.close()


def list_interfaces(net: Net) -> list[Interface]:
    """Return the pods' links with both addresses of each pod."""
    return [
        Interface(link.name, (*link.addresses, f"fd91:{n}::2"), link.identity, link.mtu, link.index)
        for n, link in enumerate(net.interfaces(), 1)
    ]


def check_reverse_path(net: Net, how: int) -> None:
    for place in ("all", "default", "pod1", "pod2", "pod3"):
        setting = f"net.ipv4.conf.{place}.rp_filter={how}"
        subprocess.run(net.at("h", "sysctl", "-qw", setting), check=True)


def forge(number: int, *, version: int = 4) -> bytes:
    """Return a READ request of pod 3's address to a queue pair of pod 2."""
    request = udp(bth(READ, qpn=number))
    return ip6(TRUSTED6, B6, request) if version == 6 else whole(ip(TRUSTED, B, request))


def send(host: Decapsulator, *frames: bytes) -> list[tuple[int, str]]:
    """Send frames from pod 1; return queue pair and source of what pod 2 received."""
    lines = host.net.send_and_receive(*frames, raw=False, frame=True, settle=host.handle)
    return sorted(read_sources(lines))


@pytest.mark.parametrize("reverse_path", [0, 2])
def test_a_forged_source_does_not_come_in_another_packet(
    host: Decapsulator, links: Links, reverse_path: int
) -> None:
    check_reverse_path(host.net, reverse_path)
    inner = [(n, kind, 4 if kind != "sit" else 6) for n, kind in enumerate(KINDS)]
    inner += [(n + 10, kind, 6) for n, kind, _ in inner if kind not in ("ipip", "sit")]
    frames = [host.frame(kind, forge(n, version=version)) for n, kind, version in inner]
    expected = sorted((n, TRUSTED6 if version == 6 else TRUSTED) for n, _, version in inner)
    assert send(host, *frames) == expected, "without rules"
    links.apply(TABLES, list_interfaces(host.net), [], Overlays((), (FOU_PORT,)))
    assert send(host, *frames) == []
    assert host.handle() == 0, "the node decapsulated nothing"
    assert links.counts()["spoofed"] == len(frames)


@pytest.mark.parametrize("reverse_path", [0, 2])
def test_the_source_is_checked_behind_a_device_that_the_rules_do_not_know(
    host: Decapsulator, links: Links, reverse_path: int
) -> None:
    check_reverse_path(host.net, reverse_path)
    frames = [
        host.frame(kind, forge(n, version=version), OTHER_VXLAN_PORT)
        for n, (kind, version) in enumerate((("vxlan", 4), ("vxlan", 6), ("fou", 4), ("fou", 6)))
    ]
    assert len(send(host, *frames)) == 4, "without rules"
    links.apply(TABLES, list_interfaces(host.net), [])
    assert send(host, *frames) == []
    assert links.counts()["spoofed"] == 4


def test_a_packet_of_another_node_s_pod_passes(host: Decapsulator, links: Links) -> None:
    """From an address of no local pod; at the port of a device that the rules do not know."""
    check_reverse_path(host.net, 0)
    links.apply(TABLES, list_interfaces(host.net), [])
    packet = whole(ip("10.92.1.2", B, udp(bytes(16), 53)))
    frame = host.frame("vxlan", packet, OTHER_VXLAN_PORT)
    lines = host.net.send_and_receive(frame, raw=False, frame=True, port=53)
    assert [line.split()[2] for line in lines] == ["10.92.1.2"]


@pytest.mark.parametrize("protocol", ["tcp", "icmp"])
def test_other_protocols_than_udp_are_checked(
    host: Decapsulator, links: Links, protocol: str
) -> None:
    links.apply(TABLES, list_interfaces(host.net), [])
    packet = bytearray(ip(TRUSTED, B, bytes(40)))
    packet[9] = {"tcp": 6, "icmp": 1}[protocol]
    assert send(host, host.net.frame(whole(bytes(packet)))) == []
    assert links.counts()["spoofed"] == 1


def test_pods_may_send_encapsulated_packets_to_each_other(host: Decapsulator, links: Links) -> None:
    links.apply(
        TABLES, list_interfaces(host.net), [], Overlays(("vxlan8472",), (VXLAN_PORT,), (4,))
    )
    frame = host.net.frame(encapsulate(host.net, "vxlan", forge(1), B))
    lines = host.net.send_and_receive(frame, raw=False, frame=True, port=VXLAN_PORT)
    assert len(lines) == 1
    for kind in ("ipip", "sit", "gre"):
        send(host, host.net.frame(encapsulate(host.net, kind, forge(1), B)))
    assert links.counts()["spoofed"] == 0


@pytest.mark.parametrize("kind", ["vxlan", "ipip"])
def test_a_pod_sends_no_encapsulated_packet_to_another_node(
    host: Decapsulator, links: Links, kind: str
) -> None:
    """Pod 3's link is the uplink here, and pod 3's address that of another node."""
    first, second, uplink = list_interfaces(host.net)
    frame = host.net.frame(encapsulate(host.net, kind, forge(1), APART))
    for overlays, dropped in ((Overlays(), 0), (Overlays((), (VXLAN_PORT,), (4,)), 1)):
        links.remove()
        links.apply(TABLES, [first, second], [uplink.name], overlays)
        lines = host.net.send_and_receive(
            frame, to=APART, raw=False, frame=True, port=VXLAN_PORT, settle=host.handle
        )
        assert len(lines) == (not dropped and kind == "vxlan")
        assert links.counts()["spoofed"] == dropped


def test_devices_are_found(host: Decapsulator) -> None:
    namespace = Namespace(f"{host.net.name}h")
    try:
        overlays = find_overlays(namespace.state().links, ())
    finally:
        namespace.close()
    assert overlays == Overlays(("vxlan8472", "vxlan9999"), (VXLAN_PORT, OTHER_VXLAN_PORT))
