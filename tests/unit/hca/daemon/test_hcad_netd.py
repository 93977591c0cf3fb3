"""netd opens sockets only in pods' network namespaces, and only for hcad."""

import errno
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hca.binding.wire import NoWire
from hca.daemon.netd import daemon, netd_sandbox
from hca.daemon.netd.broker import Broker, OpenedSockets
from hca.daemon.netd.namespaces import Rules, identity_of, unprivileged_identity
from support.oracles import bpf
from support.programs.wire_nodes import missing
from vgpu_sim.system import python_process, seqpacket

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or bool(missing()),
    reason=f"NOT RUN: {missing() or 'entering a namespace needs root'}",
)
ADDRESS = "10.79.0.1"
SETUP = (
    "ip link add {name} type veth peer name peer0 && ip addr add {address}/24 dev {name}"
    " && ip link set peer0 up && ip link set {name} up && echo ready && exec sleep 60"
)


class Pod:
    """A process in its own network namespace, in which ``connect`` makes a connection."""

    def __init__(self, stack: ExitStack, *unshare: str, name: str = "eth0") -> None:
        script = SETUP.format(name=name, address=ADDRESS)
        self.process = subprocess.Popen(
            ["unshare", *unshare, "-n", "sh", "-c", script], stdout=subprocess.PIPE, text=True
        )
        stack.callback(self.process.wait)
        stack.callback(self.process.kill)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"
        self.process.stdout.close()

    def accept(self, stack: ExitStack, tmp_path: Path) -> socket.socket:
        """Return the server's end of a connection that a socket of this namespace made."""
        listener = stack.enter_context(seqpacket.bind(tmp_path / "function.sock", 0o666))
        listener.setblocking(True)
        listener.settimeout(60)
        listener.listen(1)

        def connect() -> None:
            namespace = os.open(f"/proc/{self.process.pid}/ns/net", os.O_RDONLY)
            enter(namespace, self.process.pid)
            client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            client.connect(str(tmp_path / "function.sock"))
            os.close(namespace)
            kept.append(client)

        kept: list[socket.socket] = []
        thread = threading.Thread(target=connect)  # setns() affects one thread
        thread.start()
        accepted, _ = listener.accept()
        thread.join(60)
        stack.callback(kept[0].close)
        return stack.enter_context(accepted)


def enter(namespace: int, pid: int) -> None:
    from hca.daemon.netd import namespaces

    del pid
    namespaces._enter(namespace)


@pytest.fixture
def open_by_netd(tmp_path: Path) -> Iterator[Callable[..., OpenedSockets]]:
    """Return a function that lets a netd thread open sockets for (descriptor, wanted, rules,
    user).
    """
    with ExitStack() as stack:

        def ask(
            descriptor: int, wanted: str, rules: Rules, user: int | None = None
        ) -> OpenedSockets:
            path = tmp_path / daemon.SOCKET_NAME
            listener = stack.enter_context(daemon.listen(tmp_path))
            listener.settimeout(60)
            owner = os.geteuid() if user is None else user
            serving = threading.Thread(target=daemon.serve_one, args=(listener, owner, rules))
            serving.start()
            try:
                with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
                    link.settimeout(60)
                    link.connect(str(path))
                    return Broker(link).open(descriptor, wanted)
            finally:
                serving.join(60)
                assert not serving.is_alive()

        yield ask


def rules(**more: object) -> Rules:
    """Return a node's rules, with another network namespace as that of the node."""
    values = {
        "interface": daemon.INTERFACE,
        "refused": frozenset({identity_of("/proc/self/ns/net")}),
        "owner": identity_of("/proc/self/ns/user"),
        "tables": frozenset({unprivileged_identity("self")}),
    }
    return Rules(**{**values, **more})  # type: ignore[arg-type]


@needs_root
def test_a_pod_s_socket_is_enough_to_find_its_network(open_by_netd, tmp_path: Path) -> None:
    with ExitStack() as stack:
        client = Pod(stack).accept(stack, tmp_path)
        before = os.stat("/proc/thread-self/ns/net").st_ino
        opened = open_by_netd(client.fileno(), ADDRESS, rules())
        stack.callback(opened.close)
        assert os.stat("/proc/thread-self/ns/net").st_ino == before
        (wire,) = opened.wires
        assert wire.sockets[0].getsockname() == (ADDRESS, 4791)
        assert (opened.interface.name, opened.interface.mtu) == ("eth0", 1500)


@needs_root
@pytest.mark.parametrize(
    ("unshare", "name", "more", "why"),
    [
        ((), "eth1", {}, "interface eth1 is not permitted"),
        (("-Ur",), "eth0", {}, "belongs to another user namespace"),
    ],
)
def test_what_is_no_pod_s_own_is_refused(
    open_by_netd,
    tmp_path: Path,
    unshare: tuple[str, ...],
    name: str,
    more: dict[str, object],
    why: str,
) -> None:
    """Another interface, or a namespace that a user made, in which the user can choose any
    address.
    """
    with ExitStack() as stack:
        client = Pod(stack, *unshare, name=name).accept(stack, tmp_path)
        with pytest.raises(NoWire, match=why):
            open_by_netd(client.fileno(), ADDRESS, rules(**more))


@needs_root
def test_an_address_that_the_pod_has_not_is_refused(open_by_netd, tmp_path: Path) -> None:
    with ExitStack() as stack:
        client = Pod(stack).accept(stack, tmp_path)
        with pytest.raises(NoWire, match=r"no interface has the address 10\.79\.0\.9"):
            open_by_netd(client.fileno(), "10.79.0.9", rules())


@needs_root
def test_the_node_s_own_network_is_refused(open_by_netd, tmp_path: Path) -> None:
    """The node's namespace is identified by its files in /proc, netd's own by its identity."""
    with ExitStack() as stack:
        pod = Pod(stack)
        client = pod.accept(stack, tmp_path)
        node = rules(tables=frozenset({unprivileged_identity(str(pod.process.pid))}))
        with pytest.raises(NoWire, match="the node's own"):
            open_by_netd(client.fileno(), ADDRESS, node)
    with socket.socket(socket.AF_UNIX) as own, pytest.raises(NoWire, match="the node's own"):
        open_by_netd(own.fileno(), "127.0.0.1", rules(tables=frozenset()))


@needs_root
def test_a_node_s_first_process_identifies_its_network() -> None:
    with ExitStack() as stack:
        found = daemon.rules_of_node(str(Pod(stack).process.pid))
        assert found.interface == "eth0"
        assert unprivileged_identity("self") not in found.tables
        assert len(found.tables) == len(found.refused) == 1
    with pytest.raises(
        OSError, match="needs the node's PID namespace and a network namespace of its own"
    ):
        daemon.rules_of_node(str(os.getpid()))


def test_another_user_is_hung_up_on(open_by_netd) -> None:
    namespace = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        with pytest.raises(OSError, match=r"does not answer|reset|Broken pipe"):
            open_by_netd(namespace, "lo", Rules(), user=os.geteuid() + 1)
    finally:
        os.close(namespace)


def test_who_says_nothing_is_hung_up_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "_REQUEST_SECONDS", 0.05)
    with daemon.listen(tmp_path) as listener:
        listener.settimeout(60)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
            link.settimeout(60)
            link.connect(str(tmp_path / daemon.SOCKET_NAME))
            daemon.serve_one(listener, os.geteuid(), Rules())
            assert link.recv(1) == b""


@needs_root
def test_it_works_in_its_sandbox(tmp_path: Path) -> None:
    """The real program, in its own network namespace, receives a request for a pod's socket."""
    with ExitStack() as stack:
        module = python_process.module_command(
            "hca.daemon.netd.daemon", "--directory", str(tmp_path), "--user", str(os.geteuid())
        )
        process = subprocess.Popen(
            ["unshare", "-n", *module],
            env=python_process.module_environment(),
            stderr=subprocess.PIPE,
            text=True,
        )
        stack.callback(process.wait)
        stack.callback(process.kill)
        assert process.stderr is not None
        stack.callback(process.stderr.close)
        accepted = Pod(stack).accept(stack, tmp_path)
        end = time.monotonic() + 60
        while not (tmp_path / daemon.SOCKET_NAME).exists():
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < end
            time.sleep(0.01)
        for wanted, interface in ((ADDRESS, "eth0"), ("10.79.0.99", None), ("eth0", None)):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
                link.settimeout(60)
                connect_when_it_listens(link, tmp_path / daemon.SOCKET_NAME)
                if interface is None:
                    with pytest.raises(NoWire):
                        Broker(link).open(accepted.fileno(), wanted)
                    continue
                opened = Broker(link).open(accepted.fileno(), wanted)
                assert (opened.interface.name, opened.wires[0].ports[0]) == (interface, 4791)
                opened.close()
        status = Path(f"/proc/{process.pid}/status").read_text()
        assert "Seccomp:\t2\n" in status
        assert "NoNewPrivs:\t1\n" in status


def connect_when_it_listens(link: socket.socket, path: Path) -> None:
    end = time.monotonic() + 60
    while True:
        try:
            link.connect(str(path))
        except ConnectionRefusedError:
            assert time.monotonic() < end
            time.sleep(0.01)
        else:
            return


@pytest.mark.parametrize(
    ("number", "arguments", "allowed"),
    [
        (308, (3, 0x4000_0000), True),  # setns into a network
        (308, (3, 0), False),  # a namespace of any type
        (308, (3, 0x0002_0000), False),  # a mount namespace
        (41, (socket.AF_INET, socket.SOCK_DGRAM), True),
        (41, (socket.AF_INET6, socket.SOCK_DGRAM), True),
        (41, (socket.AF_UNIX, socket.SOCK_STREAM), False),
        (41, (socket.AF_NETLINK, socket.SOCK_RAW), False),
        (41, (socket.AF_PACKET, socket.SOCK_RAW), False),
        (16, (3, 0x894C), True),  # SIOCGSKNS
        (16, (3, 0x8914), False),  # SIOCSIFFLAGS
        (9, (0, 4096, 1), True),
        (9, (0, 4096, 4), False),  # PROT_EXEC
        *((number, (), False) for number in (56, 57, 58, 59, 322)),  # clone, fork, vfork, execve
        *((number, (), False) for number in (42, 62, 101, 165, 175, 272, 310, 321, 435, 438)),
    ],
)
def test_what_netd_does_not_need_is_denied(number, arguments, allowed) -> None:
    decided = bpf.decide(netd_sandbox.program(), number, arguments)
    denied = (bpf.ERRNO | errno.EPERM, bpf.ERRNO | errno.ENOSYS)  # clone3: libc tries clone then
    assert decided == bpf.ALLOW if allowed else decided in denied
