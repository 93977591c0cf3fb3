"""The rules for received and forwarded packets.

``tests/integration/rdma/test_second_layer_encapsulation.py`` checks their effect in the kernel.
"""

import re

import pytest

from rdma.forward_guard import Overlays, guard_table

PODS = (("veth1", ("10.0.0.1", "fd00::1")), ("veth2", ("10.0.0.2",)))


def format_table(*others: str, overlays: Overlays | None = None) -> str:
    table = guard_table(PODS, frozenset(others), overlays or Overlays())
    return table.text("inet", frozenset())


def find_chain(text: str, name: str) -> list[str]:
    found = re.search(rf"chain {name} \{{\n(.*?)\n\}}", text, re.DOTALL)
    assert found, text
    return found[1].split("\n")


def test_a_pod_s_address_comes_by_its_own_link_only() -> None:
    text = format_table("eth0")
    assert 'elements = { 10.0.0.1 . "veth1", 10.0.0.2 . "veth2" }' in text
    assert 'elements = { fd00::1 . "veth1" }' in text
    _, loopback, uplinks, *checks = find_chain(text, "sources")
    assert (loopback, uplinks) == ('meta iifname "lo" accept', "meta iifname @uplinks accept")
    assert checks == [
        f"{family} saddr @local_{family} {family} saddr . meta iifname != @sources_{family}"
        " counter name spoofed drop"
        for family in ("ip", "ip6")
    ]


@pytest.mark.parametrize("port", [8472, 4789, 6081])
def test_the_usual_ports_are_closed_without_a_known_device(port: int) -> None:
    (ports, protocols) = find_chain(format_table(), "to_node")
    assert re.search(rf"\b{port}\b", ports)
    for protocol in (4, 41, 47):
        assert re.search(rf"\b{protocol}\b", protocols)


def test_ports_of_devices_are_closed_too_and_towards_other_nodes() -> None:
    text = format_table(overlays=Overlays(("fou0",), (7777,), (4,)))
    assert re.search(r"\b7777\b", find_chain(text, "to_node")[0])
    assert find_chain(text, "to_underlay")[2:] == [
        "udp dport { 7777 } counter name spoofed drop",
        "meta l4proto { 4 } counter name spoofed drop",
    ]
    assert len(find_chain(format_table(), "to_underlay")) == 2, "no device, no rule"


@pytest.mark.parametrize("name", ['a" accept', "a/b", ""])
def test_an_invalid_name_of_a_device_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not a valid name"):
        format_table(overlays=Overlays((name,)))
    with pytest.raises(ValueError, match="not a valid name"):
        format_table(name)
