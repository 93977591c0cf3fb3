"""Packets with a forged source reach no pod, even by a Service; ordinary packets pass."""

import subprocess
from collections.abc import Iterator

import pytest

from device_plugin.second_layer.kernel import Namespace
from device_plugin.second_layer.links import Links
from rdma.second_layer import Interface, link_counter, ruleset
from rdma.tables import Direction, Endpoint, Identity, Isolation, Membership, NodeTables, Rule
from rdma.verbs import Verb
from support.processes.linked_pods import A, B, Net, bth, ip, ip6, linked_pods, udp, whole

DEFAULT = (Membership(0x7FFF, full=True),)
READ = 0x0C
TRUSTED, TRUSTED6, A6, B6 = "10.91.3.2", "fd91:3::2", "fd91:1::2", "fd91:2::2"
SERVICE, SERVICE6, SERVICE_PORT = "10.96.0.1", "fd96::1", 5000
TRANSLATED = f"""
table ip services {{
  chain prerouting {{
    type nat hook prerouting priority dstnat;
    ip daddr {SERVICE} udp dport {SERVICE_PORT} dnat to {B}:4791
  }}
}}
table ip6 services {{
  chain prerouting {{
    type nat hook prerouting priority dstnat;
    ip6 daddr {SERVICE6} udp dport {SERVICE_PORT} dnat to [{B6}]:4791
  }}
}}
"""


def tables(*readers: int) -> NodeTables:
    """Return tables that permit only these pods to READ memory of pod 2."""
    peers = sum(1 << number for number in readers)
    return NodeTables(
        generation=1,
        node="n",
        rules=(Rule("a/p", Direction.INGRESS, 0, Verb.READ, peers),),
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


def interfaces(net: Net, *more: str) -> list[Interface]:
    """Return the links with both addresses of each pod, and ``more`` addresses for pod 1."""
    return [
        Interface(
            one.name,
            (*one.addresses, f"fd91:{n}::2", *(more if n == 1 else ())),
            *(one.identity, one.mtu, one.index),
        )
        for n, one in enumerate(net.interfaces(), 1)
    ]


@pytest.fixture(scope="module")
def pods_net() -> Iterator[Net]:
    with linked_pods() as net:
        net.load(TRANSLATED)
        yield net


@pytest.fixture
def links(pods_net: Net) -> Iterator[Links]:
    """Return the second layer, with nothing loaded yet."""
    namespace = Namespace(f"{pods_net.name}h")
    try:
        loaded = Links(namespace, pods_net.at("h"))
        loaded.remove()
        yield loaded
    finally:
        namespace.close()


@pytest.fixture
def net(pods_net: Net) -> Net:
    check_reverse_path(pods_net, 0)
    return pods_net


def check_reverse_path(net: Net, how: int) -> None:
    """Set how the kernel checks sources (rp_filter): 0 not at all, 2 that there is a route to
    them.
    """
    for place in ("all", "pod1", "pod2", "pod3"):
        setting = f"net.ipv4.conf.{place}.rp_filter={how}"
        subprocess.run(net.at("h", "sysctl", "-qw", setting), check=True)


def by_service(net: Net, source: str, source6: str) -> list[str]:
    """Send a READ request by the Service of each family; return the sources of received packets."""
    request = udp(bth(READ), SERVICE_PORT)
    four, six = whole(ip(source, SERVICE, request)), ip6(source6, SERVICE6, request)
    frames = [net.frame(four), net.frame(six)]
    return [line.split()[2] for line in net.send_and_receive(*frames, raw=False, frame=True)]


@pytest.mark.parametrize("reverse_path", [0, 2])
def test_a_forged_source_does_not_come_by_a_service(
    net: Net, links: Links, reverse_path: int
) -> None:
    """The Service changes the port to RoCE's after the sender's rules; the receiver's permit the
    address.
    """
    check_reverse_path(net, reverse_path)
    net.connects(B6, "2")  # without a known neighbour, the marker packet would overtake
    assert sorted(by_service(net, TRUSTED, TRUSTED6)) == [TRUSTED, TRUSTED6], "without rules"
    links.apply(tables(3), interfaces(net), [])
    assert by_service(net, TRUSTED, TRUSTED6) == []
    counts = links.counts()
    (first, *_) = net.interfaces()
    assert counts["spoofed"] == counts[link_counter(first.index, True, "spoofed")] == 2
    assert counts["translated"] == 0


@pytest.mark.parametrize("guarded", ["the sender's link", "where the node forwards"])
def test_either_check_alone_keeps_it_out(net: Net, links: Links, guarded: str) -> None:
    first, *others = interfaces(net)
    if guarded == "the sender's link":
        net.load(ruleset(tables(3), [first, *others]))
    else:
        net.load(ruleset(tables(3), others, others=[first.name]))
    assert by_service(net, TRUSTED, TRUSTED6) == []


def test_roce_never_comes_by_a_service_even_from_whom_policy_allows(net: Net, links: Links) -> None:
    """Peers of an HCA are addressed by pod addresses, never by a Service's."""
    net.connects(B6, "2")
    assert sorted(by_service(net, A, A6)) == [A, A6], "without rules"
    links.apply(tables(1), interfaces(net), [])
    assert by_service(net, A, A6) == []
    assert links.counts()["translated"] == 2
    assert len(net.send_and_receive(bth(READ))) == 1, "to the pod's own address"


def test_fragments_with_a_forged_source_do_not_pass_either(net: Net, links: Links) -> None:
    """The node reassembles them before it translates them."""
    request = udp(bth(READ), SERVICE_PORT)
    first = ip(TRUSTED, SERVICE, request[:8], more=True)
    rest = ip(TRUSTED, SERVICE, request[8:], offset=8)
    assert len(net.send_and_receive(first, rest)) == 1, "without rules"
    links.apply(tables(3), interfaces(net), [])
    assert net.send_and_receive(first, rest) == []
    assert links.counts()["spoofed"] == 2


def test_ordinary_traffic_of_a_pod_passes(net: Net, links: Links) -> None:
    """ARP and neighbour discovery, TCP and UDP of both families, and a Service of another port."""
    links.apply(tables(1), interfaces(net), [])
    net.connects(B, "2")
    net.connects(B6, "2")
    plain = [net.frame(whole(ip(A, B, udp(bytes(16), 53)))), net.frame(ip6(A6, B6, udp(b"..", 53)))]
    assert len(net.send_and_receive(*plain, raw=False, frame=True, port=53)) == 2
    assert links.counts()["spoofed"] == 0


def test_what_has_no_address_yet_or_one_of_its_link_reaches_the_node(
    net: Net, links: Links
) -> None:
    """DHCP's first message, and DHCPv6 or mDNS, which no node forwards."""
    links.apply(tables(1), interfaces(net), [])
    net.connects("fd91:1::1", "h")
    discover = net.frame(whole(ip("0.0.0.0", "255.255.255.255", udp(bytes(16), 67))), to_all=True)
    local = net.frame(ip6("fe80::77", "fd91:1::1", udp(bytes(16), 67)))
    found = net.send_and_receive(
        discover, local, to="10.91.1.1", place="h", raw=False, frame=True, port=67
    )
    assert [line.split()[2] for line in found] == ["0.0.0.0", "fe80::77"]


def test_every_address_that_the_node_routes_to_the_pod_is_its_own(net: Net, links: Links) -> None:
    """Other sources are dropped and counted, whatever the port; only UDP is checked."""
    other, unknown = "10.91.1.3", "10.91.1.4"
    links.apply(tables(1), interfaces(net, other), [])
    packets = [whole(ip(source, B, udp(bytes(16), 53))) for source in (other, unknown)]
    found = net.send_and_receive(*map(net.frame, packets), raw=False, frame=True, port=53)
    assert [line.split()[2] for line in found] == [other]
    assert links.counts()["spoofed"] == 1
