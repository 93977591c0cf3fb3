"""The selection of a wire's addresses from an interface: several of each kind, in any order."""

import ipaddress
import time

import pytest

from hca.binding import wire
from hca.binding.addresses import address_of
from hca.binding.wire import NoWire, WireAddress, find

# /proc/net/if_inet6: address, interface, prefix, scope (00 global, 10 host, 20 link), flags, name.
TABLE = """
fe800000000000000000000000000001 0b 40 20 80 eth0
20010db8000000000000000000000001 0b 40 00 80 eth0
20010db8000000000000000000000002 0b 40 00 80 eth0
20010db8000000000000000000000003 0b 40 00 c0 eth1
20010db8000000000000000000000004 0c 40 00 88 eth1
fe800000000000000000000000000005 0c 40 20 80 eth1
00000000000000000000000000000001 01 80 10 80 lo
"""
IPV4 = [("lo", "127.0.0.1"), ("eth0", "192.0.2.1"), ("eth0", "192.0.2.2"), ("eth2", "192.0.2.9")]


@pytest.fixture(autouse=True)
def node(monkeypatch, tmp_path):
    """Replace the kernel's tables of addresses and MTUs."""
    table = tmp_path / "if_inet6"
    table.write_text(TABLE.strip())
    monkeypatch.setattr(wire, "_IPV6_TABLE", table)
    named = [(name, WireAddress(ipaddress.IPv4Address(ip))) for name, ip in IPV4]
    monkeypatch.setattr(wire, "_ipv4", lambda: named)
    names = [(1, "lo"), (11, "eth0"), (12, "eth1"), (13, "eth2"), (14, "eth3")]
    monkeypatch.setattr(wire.socket, "if_nameindex", lambda: names)
    monkeypatch.setattr(wire, "_mtu", lambda name: {"eth2": 1500}.get(name, 9000))


def ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    return ipaddress.ip_address(text)


def test_a_name_has_its_first_addresses_and_a_link_local_one_last() -> None:
    found = find("eth0")
    assert (found.name, found.mtu, found.path_mtu()) == ("eth0", 9000, 5)
    assert (found.ipv4, found.ipv6) == (
        WireAddress(ip("192.0.2.1")),
        WireAddress(ip("2001:db8::1")),
    )
    assert (found.ipv6.scope, found.ipv6.interface) == (0, 11)
    assert len(found.addresses) == 2


def test_an_address_that_is_tentative_or_a_duplicate_is_not_used() -> None:
    found = find("eth1")
    assert (found.ipv4, found.ipv6.ip, found.ipv6.scope) == (None, ip("fe80::5"), 12)
    assert found.addresses == (found.ipv6,)
    for unusable in ("2001:db8::3", "2001:db8::4"):
        with pytest.raises(NoWire, match=f"no interface has the address {unusable}"):
            find(unusable)


def test_an_address_is_that_one_alone() -> None:
    for text, scope in (("192.0.2.2", 0), ("2001:db8::2", 0), ("fe80::1", 11)):
        (address,) = find(text).addresses
        assert (find(text).name, address.ip, address.scope) == ("eth0", ip(text), scope)


def test_every_loopback_address_is_the_loopback_interfaces_and_no_other() -> None:
    for text in ("127.0.0.1", "127.9.9.9"):
        assert (find(text).name, find(text).ipv4.ip) == ("lo", ip(text))
    assert find("::1").ipv6.ip == ip("::1")
    with pytest.raises(NoWire, match=r"no interface has the address 192\.0\.2\.3"):
        find("192.0.2.3")


def test_an_interface_without_addresses_or_name_is_none() -> None:
    with pytest.raises(NoWire, match="interface eth3 has no IP address"):
        find("eth3")
    with pytest.raises(NoWire, match="no interface eth9"):
        find("eth9")
    assert (find("eth2").ipv6, find("eth2").path_mtu()) == (None, 3)


def test_a_network_with_very_many_addresses_costs_no_more_than_one_with_a_thousand(
    monkeypatch, tmp_path
) -> None:
    """netd serves one request at a time, and a pod with NET_ADMIN may add addresses."""
    table = tmp_path / "many"
    own = TABLE.strip().splitlines()[1]
    added = "\n".join(f"20010db9{n:024x} 0b 40 00 80 eth0" for n in range(200_000))
    table.write_text(f"{own}\n{added}\n")
    monkeypatch.setattr(wire, "_IPV6_TABLE", table)
    begin = time.thread_time()
    assert find("eth0").ipv6.ip == ip("2001:db8::1")
    assert time.thread_time() - begin < 0.05
    assert 1000 < len(wire._ipv6()) < 2 * wire._MAX_ADDRESSES


def test_a_functions_own_address_stands_for_the_one_that_an_interface_lacks() -> None:
    own = address_of(0)
    both, four, six = find("eth0"), find("eth2"), find("eth1")
    mapped = bytes(10) + b"\xff\xff"
    assert both.address(own).gids == (ip("2001:db8::1").packed, mapped + ip("192.0.2.1").packed)
    assert four.address(own).gids == (own.gids[0], mapped + ip("192.0.2.9").packed)
    assert six.address(own).gids == (ip("fe80::5").packed, own.gids[1])
    assert both.address(own).guid == own.guid


@pytest.mark.parametrize("index", [0, 1, 253, 254, 255, 256, 65535, 131069])
def test_a_place_on_the_fabric_has_the_address_after_its_number(index: int) -> None:
    """In 198.18.0.0/15 (RFC 2544); the MAC ends in the address, and the GUID is its EUI-64."""
    found = address_of(index)
    assert found.ip == ip("198.18.0.0") + index + 1
    last = found.ip.packed[1:]
    assert found.guid == bytes.fromhex("007e55fffe") + last
    assert found.gids[0] == bytes.fromhex("fe80000000000000") + found.guid


@pytest.mark.parametrize("index", [-1, 131070])
def test_no_place_is_beyond_the_network(index: int) -> None:
    with pytest.raises(ValueError, match=f"function number {index} must be below 131070"):
        address_of(index)
