"""Which devices of the node encapsulate packets, and at which UDP ports the kernel decapsulates."""

import struct
from collections.abc import Iterator
from typing import Self

import pytest

from device_plugin.second_layer.fou import list_fou_ports
from device_plugin.second_layer.kernel import Link
from device_plugin.second_layer.tunnels import find_overlays
from rdma.forward_guard import Overlays

DONE, ERROR, CONTROL, FOU = 3, 2, 0x10, 0x21


def attribute(kind: int, value: bytes) -> bytes:
    data = struct.pack("=HH", 4 + len(value), kind) + value
    return data + bytes(-len(data) % 4)


def message(kind: int, *attributes: bytes) -> bytes:
    body = struct.pack("=BBH", 1, 1, 0) + b"".join(attributes)
    return struct.pack("=IHHII", 16 + len(body), kind, 2, 1, 0) + body


def family(number: int, name: bytes) -> bytes:
    return message(CONTROL, attribute(2, name + b"\0"), attribute(1, struct.pack("=H", number)))


class Kernel:
    """A generic netlink socket with these replies, one for each request."""

    def __init__(self, *replies: bytes) -> None:
        self.replies: Iterator[bytes] = iter(replies)
        self.requests: list[tuple[int, int]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def send(self, data: bytes) -> None:
        """Record the family and the command of a request."""
        self.requests.append((struct.unpack_from("=H", data, 4)[0], data[16]))

    def recv(self, _: int) -> bytes:
        """Return the next reply."""
        return next(self.replies)


def test_ports_of_fou_receivers_are_read() -> None:
    families = family(0x15, b"ethtool") + family(FOU, b"fou")
    receivers = [
        message(FOU, attribute(2, b"\2"), attribute(1, struct.pack(">H", port)))
        for port in (7777, 5555)
    ]
    kernel = Kernel(families, message(DONE), receivers[0], receivers[1] + message(DONE))
    assert list_fou_ports(kernel) == (5555, 7777)
    assert kernel.requests == [(CONTROL, 3), (FOU, 3)]


def test_a_kernel_without_fou_gets_no_request_for_it() -> None:
    """A request for the family by its name would load the module."""
    kernel = Kernel(family(0x15, b"ethtool") + message(DONE))
    assert list_fou_ports(kernel) == ()
    assert kernel.requests == [(CONTROL, 3)]


def test_this_kernel_answers() -> None:
    assert isinstance(list_fou_ports(), tuple)


def test_an_error_is_raised() -> None:
    reply = struct.pack("=IHHIIi", 20, ERROR, 0, 1, 0, -1)
    with pytest.raises(PermissionError):
        list_fou_ports(Kernel(reply))


def test_devices_that_are_up_count_with_ports_and_protocols() -> None:
    links = (
        Link(1, "flannel.1", "vxlan", 1450, ports=(8472,)),
        Link(2, "genev_sys", "geneve", 1450, ports=(6081,)),
        Link(3, "tunl0", "ipip", 1480, ports=(7777,)),
        Link(4, "sit0", "sit", 1480, is_up=False),
        Link(5, "veth0", "veth", 1500),
        Link(6, "gre1", "gretap", 1462),
    )
    assert find_overlays(links, (5555,)) == Overlays(
        ("flannel.1", "genev_sys", "gre1", "tunl0"), (5555, 6081, 7777, 8472), (4, 47)
    )
