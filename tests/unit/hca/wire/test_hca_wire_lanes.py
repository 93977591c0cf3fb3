"""A wire has between one and HCA_WIRE_LANES sockets, each a duplicate of the caller's."""

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from hca.binding.engine import Engine
from hca.contract.hca_engine import HCA_WIRE_LANES, HcaWire


@pytest.fixture
def engine() -> Iterator[Engine]:
    with closing(Engine()) as made:
        yield made


@pytest.fixture
def open_socket() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.bind(("127.0.0.1", 0))
        yield made


def wire_of(open_socket: socket.socket, lanes: int) -> HcaWire:
    """Return a wire that uses one socket for all its lanes."""
    wire = HcaWire(lanes=lanes, path_mtu=3)
    for lane in range(HCA_WIRE_LANES):
        wire.fds[lane] = open_socket.fileno()
    return wire


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("lanes", [1, 2, HCA_WIRE_LANES])
def test_a_wire_duplicates_one_socket_a_lane_and_closes_its_own(
    engine: Engine, open_socket: socket.socket, lanes: int
) -> None:
    """The first wire stays, so that descriptors opened only for it are not counted."""
    wanted = wire_of(open_socket, lanes)
    first = engine.add_wire(wire_of(open_socket, 1))
    before = descriptors()
    second, third = engine.add_wire(wanted), engine.add_wire(wanted)
    assert descriptors() == before + 2 * lanes
    engine.remove_wire(second)
    assert descriptors() == before + lanes
    engine.remove_wire(first)
    engine.remove_wire(third)
    assert descriptors() <= before - 1
    assert open_socket.getsockname()[0] == "127.0.0.1"  # still open


@pytest.mark.parametrize("lanes", [0, HCA_WIRE_LANES + 1, 2**32 - 1])
def test_no_lane_and_one_too_many_are_refused(
    engine: Engine, open_socket: socket.socket, lanes: int
) -> None:
    before = descriptors()
    with pytest.raises(OSError) as refused:
        engine.add_wire(wire_of(open_socket, lanes))
    assert (refused.value.errno, descriptors()) == (errno.EINVAL, before)


@pytest.mark.parametrize("bad", [0, 1, HCA_WIRE_LANES - 1])
def test_a_lane_without_a_socket_leaves_none_of_the_others(
    engine: Engine, open_socket: socket.socket, bad: int
) -> None:
    wanted, before = wire_of(open_socket, HCA_WIRE_LANES), descriptors()
    wanted.fds[bad] = -1
    with pytest.raises(OSError) as refused:
        engine.add_wire(wanted)
    assert (refused.value.errno, descriptors()) == (errno.EBADF, before)
