"""The options of a wire's sockets, for both IP versions: packets' headers depend on them."""

import errno
import ipaddress
import socket
from pathlib import Path

import pytest

from hca.binding import wire_sockets
from hca.binding.wire import NoWire, WireAddress
from hca.binding.wire_sockets import open_group, open_sockets

FOUR = WireAddress(ipaddress.ip_address("127.9.0.1"))
SIX = WireAddress(ipaddress.ip_address("::1"), interface=socket.if_nametoindex("lo"))
GROUPS = {4: "239.1.2.3", 6: "ff15::1:2"}
UDP_GRO = 104
# From linux/in.h and linux/in6.h: packets are sent with "don't fragment" and ECT(0), and for each
# received packet the kernel reports the ECN bits.
OPTIONS = {
    4: {
        (socket.IPPROTO_IP, 10): 2,  # IP_MTU_DISCOVER: IP_PMTUDISC_DO
        (socket.IPPROTO_IP, socket.IP_TOS): 2,
        (socket.IPPROTO_IP, socket.IP_RECVTOS): 1,
    },
    6: {
        (socket.IPPROTO_IPV6, socket.IPV6_V6ONLY): 1,
        (socket.IPPROTO_IPV6, 23): 2,  # IPV6_MTU_DISCOVER: IPV6_PMTUDISC_DO
        (socket.IPPROTO_IPV6, socket.IPV6_TCLASS): 2,
        (socket.IPPROTO_IPV6, socket.IPV6_RECVTCLASS): 1,
    },
}


@pytest.fixture(params=[FOUR, SIX], ids=["IPv4", "IPv6"])
def address(request, monkeypatch):
    """Return a loopback address; any port may replace RoCEv2's, which other tests may hold."""
    assert wire_sockets.PORT == 4791
    monkeypatch.setattr(wire_sockets, "PORT", 0)
    with socket.socket(socket.AF_INET6 if request.param.ip.version == 6 else socket.AF_INET) as one:
        try:
            one.bind((str(request.param.ip), 0))
        except OSError:
            pytest.skip("the machine has no loopback address of this family")
    return request.param


@pytest.mark.parametrize("segments", [False, True])
def test_every_socket_has_the_options_that_its_packets_need(address, segments):
    opened = open_sockets(address, lanes=3, segments=segments)
    try:
        receiving, *sending = opened.sockets
        assert len(sending) == 2
        for each in opened.sockets:
            assert not each.getblocking()
            found = {key: each.getsockopt(*key) for key in OPTIONS[address.ip.version]}
            assert found == OPTIONS[address.ip.version]
        assert bool(receiving.getsockopt(socket.IPPROTO_UDP, UDP_GRO)) is segments
        assert all(0xC000 <= port <= 0xFFFF for port in opened.ports[1:])
        # A sending socket drops received packets, so its buffer is the kernel's minimum.
        rooms = [each.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) for each in opened.sockets]
        assert max(rooms[1:]) < rooms[0]
    finally:
        opened.close()
    assert all(each.fileno() == -1 for each in opened.sockets)


def test_the_engine_gets_each_socket_with_its_port(address):
    opened = open_sockets(address, lanes=2)
    try:
        wire = opened.to_hca_wire(path_mtu=3, bytes_per_second=7)
        assert bytes(wire.gid) == address.gid
        assert (wire.lanes, wire.segments, wire.path_mtu, wire.bytes_per_second) == (2, 0, 3, 7)
        pairs = list(zip(wire.fds[:2], wire.ports[:2], strict=True))
        assert pairs == [(each.fileno(), each.getsockname()[1]) for each in opened.sockets]
    finally:
        opened.close()


def test_a_group_socket_never_blocks_and_is_in_that_group_alone(address):
    ip = ipaddress.ip_address(GROUPS[address.ip.version])
    gid = ip.packed if ip.version == 6 else bytes(10) + b"\xff\xff" + ip.packed
    with open_group(address, gid) as first, open_group(address, gid) as second:
        for each in (first, second):  # the second by SO_REUSEADDR, like another fabric's
            assert not each.getblocking()
            assert each.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)
            assert each.getsockname()[0] == str(ip)
        # IP_MULTICAST_ALL and IPV6_MULTICAST_ALL are on by default.
        everything = {4: (socket.IPPROTO_IP, 49), 6: (socket.IPPROTO_IPV6, 29)}[ip.version]
        assert not first.getsockopt(*everything)
        received = first.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        with socket.socket(first.family, socket.SOCK_DGRAM) as plain:
            assert received > plain.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)


def is_member(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Return whether the kernel reports this machine to routers as a member of a group."""
    if ip.version == 6:
        return ip.packed.hex() in Path("/proc/net/igmp6").read_text()
    return ip.packed[::-1].hex().upper() in Path("/proc/net/igmp").read_text().split()


def test_the_kernel_is_in_a_group_while_a_socket_of_it_is_open(address):
    ip = ipaddress.ip_address({4: "239.7.8.9", 6: "ff15::7:8:9"}[address.ip.version])
    gid = ip.packed if ip.version == 6 else bytes(10) + b"\xff\xff" + ip.packed
    assert not is_member(ip)
    with open_group(address, gid):
        assert is_member(ip)
    assert not is_member(ip)


@pytest.mark.parametrize(
    ("number", "tries"), [(errno.EADDRINUSE, 64), (errno.EADDRNOTAVAIL, 1), (errno.EACCES, 1)]
)
def test_a_port_in_use_is_passed_over_so_often_and_nothing_stays_open(
    address, monkeypatch, number, tries
):
    made = []

    class Refusing(socket.socket):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            made.append([self])

        def bind(self, name):
            made[-1].append(name[1])
            raise OSError(number, "refused")

    monkeypatch.setattr(wire_sockets.socket, "socket", Refusing)
    with pytest.raises(OSError) as refused:
        wire_sockets._sending(address)
    ((one, *ports),) = made
    assert refused.value.errno == number
    assert len(ports) == tries
    assert all(0xC000 <= port <= 0xFFFF for port in ports)
    assert one.fileno() == -1
    made.clear()
    with pytest.raises(NoWire, match="refused"):
        open_sockets(address)
    assert made[0][0].fileno() == -1
