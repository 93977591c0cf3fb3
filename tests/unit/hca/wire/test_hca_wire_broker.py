"""The broker opens sockets in other network namespaces, and does nothing else."""

import os
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from hca.binding.wire import NoWire, find
from hca.daemon.netd import broker
from hca.daemon.netd.broker import Broker
from support.programs.wire_nodes import ADDRESSES, NAMES, Nodes, needs_namespaces
from support.wire import wire_rig


@pytest.fixture
def link():
    """A socket pair with a broker thread at one end; setns() affects only that thread."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    here.settimeout(60)
    serving = threading.Thread(target=broker.serve, args=(there,))
    serving.start()
    yield here
    here.close()
    serving.join(60)
    there.close()
    assert not serving.is_alive()


def own_namespace():
    return os.open("/proc/self/ns/net", os.O_RDONLY)


@needs_namespaces
@pytest.mark.skipif(os.geteuid() != 0, reason="NOT RUN: entering a namespace needs root")
def test_sockets_are_in_the_namespace_that_was_named():
    """The broker runs in its own process, as it does for hcad."""
    with ExitStack() as stack:
        nodes = stack.enter_context(Nodes(mtu=1500))
        here, there = (
            stack.enter_context(end)
            for end in socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        )
        here.settimeout(60)
        process = subprocess.Popen(
            [sys.executable, "-m", "hca.daemon.netd.broker", "--socket-fd", str(there.fileno())],
            pass_fds=(there.fileno(),),
        )
        there.close()
        opened = []
        for node in (0, 1):
            pid = nodes._holders[node].pid
            namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
            stack.callback(os.close, namespace)
            opened.append(Broker(here).open(namespace, NAMES[node]))
            stack.callback(opened[-1].close)
        with pytest.raises(NoWire, match=f"no interface {NAMES[0]}"):
            find(NAMES[0])  # it is not in this namespace
        for node, found in enumerate(opened):
            assert found.interface.path_mtu() == 3
            assert [str(a.ip) for a in found.interface.addresses] == [
                ADDRESSES[node],
                f"fd78::{node + 1}",
            ]
            assert [wire.ports[0] for wire in found.wires] == [4791, 4791]
        sent, received = opened[0].wires[0].sockets[3], opened[1].wires[0].sockets[0]
        received.setblocking(True)
        received.settimeout(60)
        sent.sendto(b"across", (ADDRESSES[1], 4791))
        assert received.recvfrom(100) == (b"across", (ADDRESSES[0], opened[0].wires[0].ports[3]))
        # A wire's own socket is sufficient to request a socket in a group.
        group = wire_rig.gid_of("239.7.7.7")
        member = stack.enter_context(
            Broker(here).open_group(received.fileno(), ADDRESSES[1], group)
        )
        member.setblocking(True)
        member.settimeout(60)
        assert member.getsockname() == ("239.7.7.7", 4791)
        assert f"{NAMES[1]}" in Path(f"/proc/{nodes._holders[1].pid}/net/igmp").read_text()
        sent.sendto(b"to all", ("239.7.7.7", 4791))
        assert member.recvfrom(100)[0] == b"to all"
        here.close()
        assert process.wait(60) == 0


@pytest.mark.parametrize(
    ("wanted", "why"),
    [("none0", "no interface none0|setns"), ("lo\0x", "no interface|setns")],
)
def test_what_is_not_there_is_refused(link, wanted, why):
    namespace = own_namespace()
    with pytest.raises(NoWire, match=why):
        Broker(link).open(namespace, wanted)
    os.close(namespace)


@pytest.mark.parametrize(
    ("data", "descriptors"),
    [
        *((b"x", 1), (b"{}", 1), (b"[]", 1), (b'{"wire":"lo","segments":0}', 0), (b"x" * 999, 1)),
        *(
            (b'{"wire":"lo","segments":0,"group":"%s"}' % group, 1)
            for group in (b"z", b"ff", b"00" * 16, b"00" * 10 + b"ffff0a000001")
        ),
        (b'{"wire":"lo","segments":0,"group":7}', 1),
    ],
)
def test_an_invalid_request_is_refused_and_the_next_is_served(link, data, descriptors):
    namespace = own_namespace()
    if descriptors:
        socket.send_fds(link, [data], [namespace])
    else:
        link.send(data)
    assert b"error" in link.recv(broker.MAX_REPLY_BYTES)
    with pytest.raises(NoWire):
        Broker(link).open(namespace, "none0")
    os.close(namespace)


def test_a_descriptor_that_is_no_namespace(link, tmp_path):
    pipe = os.pipe()
    with open(tmp_path / "file", "wb") as file:
        for descriptor in (pipe[0], file.fileno()):
            with pytest.raises(NoWire, match=r"neither a namespace nor a socket|setns"):
                Broker(link).open(descriptor, "lo")
    for descriptor in pipe:
        os.close(descriptor)
