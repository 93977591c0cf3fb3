"""The second layer on links between network namespaces.

A pod that may send raw packets tests the rules, which it cannot reach.
"""

import struct
import subprocess
from collections.abc import Iterator
from dataclasses import replace

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
from support.processes.linked_pods import (
    ACKNOWLEDGE,
    APART,
    READ_REQUEST,
    READ_RESPONSE,
    WRITE_ONLY,
    A,
    B,
    Net,
    bth,
    ip,
    linked_pods,
    udp,
)

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


@pytest.fixture(scope="module")
def pods_net() -> Iterator[Net]:
    with linked_pods() as net:
        yield net


@pytest.fixture(scope="module")
def links(pods_net: Net) -> Iterator[Links]:
    namespace = Namespace(f"{pods_net.name}h")
    try:
        yield Links(namespace, pods_net.at("h"))
    finally:
        namespace.close()


@pytest.fixture
def net(pods_net: Net, links: Links) -> Net:
    links.remove()
    links.apply(TABLES, pods_net.interfaces())
    return pods_net


def test_requests_that_are_allowed_pass_and_others_do_not(net: Net) -> None:
    packets = [bth(READ_REQUEST), bth(WRITE_ONLY), bth(ACKNOWLEDGE), bth(READ_RESPONSE)]
    came = [line[:2] for line in net.send_and_receive(*packets)]
    assert came == ["0c", "11", "10"]  # A may answer what B may request of it
    assert net.read_counter("operation") == 1


def test_without_the_rules_everything_passes(net: Net) -> None:
    net.load(removal())
    assert len(net.send_and_receive(bth(WRITE_ONLY), bth(READ_REQUEST, 0x8011))) == 2


def test_another_s_address_and_another_s_partition_do_not_pass(net: Net) -> None:
    assert net.send_and_receive(bth(READ_REQUEST), source="10.91.3.2") == []
    assert net.read_counter("spoofed") == 1
    assert net.send_and_receive(bth(READ_REQUEST, 0x8011), bth(READ_REQUEST, 0x7FFF)) != []
    assert net.read_counter("partition") == 1
    assert net.send_and_receive(bth(READ_REQUEST), to=APART) == []
    assert net.read_counter("peer") == 1


def test_fragments_do_not_pass_and_those_of_others_do(net: Net) -> None:
    whole = udp(bth(READ_REQUEST))
    first = ip(A, B, whole[:8], more=True)
    rest = ip(A, B, whole[8:], offset=8)
    # the marker packet has 4,000 bytes, and comes in fragments
    assert net.send_and_receive(first, rest) == []
    assert net.read_counter("fragment") == 1


@pytest.mark.parametrize("payload", [16, 500])
def test_segments_that_hide_behind_the_first_do_not_pass(
    net: Net, links: Links, payload: int
) -> None:
    codes = (READ_REQUEST, *[WRITE_ONLY] * 3)
    hidden = b"".join(bth(op, payload=bytes(payload)) for op in codes)
    before = links.drops()["joined"]
    assert net.send_and_receive(hidden, raw=False, segment=12 + payload) == []
    after = links.drops()
    (first, *_) = net.interfaces()
    assert after["joined"] == before + 1
    assert after[link_counter(first.index, True, "joined")] > 0
    # it is only one
    assert len(net.send_and_receive(bth(READ_REQUEST), raw=False, segment=1000)) == 1
    links.remove()
    assert len(net.send_and_receive(hidden, raw=False, segment=12 + payload)) == 4


PADDED = bytes(500)


def test_segments_that_are_alike_pass(net: Net) -> None:
    """As hcad sends them: the last segment may be shorter."""
    alike = bth(READ_RESPONSE, payload=PADDED) * 62 + bth(READ_RESPONSE)
    assert len(net.send_and_receive(alike, raw=False, to=APART, segment=512)) == 0, (
        "another partition"
    )
    assert len(net.send_and_receive(alike, raw=False, segment=512)) == 63
    assert net.read_counter("segments") == 0


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
    assert net.send_and_receive(first + other, raw=False, segment=512) == []


def test_long_datagrams_of_others_and_their_segments_pass(net: Net) -> None:
    came = net.send_and_receive(bytes(3000), raw=False, segment=1000, port=4793)
    assert len(came) == 3


def test_a_link_that_is_not_there_is_named_and_the_rules_stay(net: Net, links: Links) -> None:
    with pytest.raises(SecondLayerError, match=r"link 9999"):
        links.apply(TABLES, [Interface("gone", (A,), 1, index=9999)])
    assert net.send_and_receive(bth(WRITE_ONLY)) == []


def test_a_pod_cannot_flush_them(net: Net) -> None:
    subprocess.run(net.at("1", "nft", "flush", "ruleset"), check=True)
    subprocess.run(net.at("2", "nft", "flush", "ruleset"), check=True)
    assert net.send_and_receive(bth(WRITE_ONLY)) == []


def test_new_rules_replace_the_old_ones_at_once(net: Net) -> None:
    net.load(ruleset(TABLES, [Interface("pod1", (A,), None)]))
    assert net.send_and_receive(bth(READ_REQUEST)) == []
    net.load(ruleset(TABLES, [Interface("pod1", (A,), 1)]))
    assert len(net.send_and_receive(bth(READ_REQUEST))) == 1


@pytest.mark.parametrize("tags", ["81000000", "8100000081000000", "88a8000081000000"])
def test_tags_of_vlans_hide_nothing(net: Net, links: Links, tags: str) -> None:
    """The kernel removes all tags of VLAN 0, some of them only after the hook of the rules."""
    head = net.hardware("h", "pod1") + net.hardware("1", "eth0") + bytes.fromhex(tags + "0800")
    packet = bytearray(ip(A, B, udp(bth(WRITE_ONLY))))
    total = sum(struct.unpack(">10H", packet[:20]))
    total = (total & 0xFFFF) + (total >> 16)
    packet[10:12] = struct.pack(">H", ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF)
    assert net.send_and_receive(head + packet, raw=False, frame=True) == []
    links.remove()
    assert len(net.send_and_receive(head + packet, raw=False, frame=True)) == 1


def test_only_queue_pairs_that_a_rule_names_are_reached(net: Net, links: Links) -> None:
    named = replace(TABLES.rules[0], ports=(Port(qpns=(0x11, 0x1FF)), Port(qpns=(0x300, 0x300))))
    links.apply(replace(TABLES, rules=(named,)), net.interfaces())
    numbers = (0x10, 0x11, 0x1FF, 0x200, 0x300)
    packets = [bth(READ_REQUEST)[:4] + struct.pack(">I", n) + bytes(20) for n in numbers]
    came = [int(line[8:16], 16) for line in net.send_and_receive(*packets)]
    assert came == [0x11, 0x1FF, 0x300]
    # a READ response may go to any requester
    assert len(net.send_and_receive(bth(READ_RESPONSE))) == 1


def test_a_link_without_rules_forwards_no_roce(net: Net, links: Links) -> None:
    """The pod's link is new; the caller names the veths that belong to no pod."""
    first, second, _ = net.interfaces()
    for known, others, passes in (
        ((first,), [], False),
        ((second,), [], False),
        ((first,), ["pod2"], True),
        ((first, second), [], True),
    ):
        links.apply(TABLES, known, others)
        assert bool(net.send_and_receive(bth(READ_REQUEST))) is passes
    assert net.send_and_receive(bytes(16), raw=False, port=4793) != []
    assert net.read_counter("stranger", "inet") == 2


def test_counters_go_on_when_rules_are_replaced(net: Net, links: Links) -> None:
    net.send_and_receive(bth(WRITE_ONLY))
    links.apply(replace(TABLES, generation=2), net.interfaces(), [])
    net.send_and_receive(bth(WRITE_ONLY))
    counts = links.counts()
    (first, *_) = net.interfaces()
    assert counts["operation"] == 2
    assert counts[link_counter(first.index, True, "denied")] == 2


def test_nothing_is_left_of_an_earlier_process_either(net: Net, pods_net: Net) -> None:
    namespace = Namespace(f"{pods_net.name}h")
    try:
        Links(namespace, pods_net.at("h")).remove()
        assert not namespace.classified_links()
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


def test_without_its_tool_it_says_so(pods_net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    namespace = Namespace(f"{pods_net.name}h")
    monkeypatch.setenv("PATH", "/nowhere")
    try:
        with pytest.raises(SecondLayerError, match="nft is missing"):
            Links(namespace)
    finally:
        namespace.close()
