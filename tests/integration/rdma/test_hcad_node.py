"""A node's hcad as a process: it runs in its sandbox, and hands over to the next one."""

import dataclasses
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from device_plugin.exporter.traffic import RdmaTraffic
from hca.contract import hca
from hca.contract.cm import CmMessage
from hca.contract.hca import HcaHello, HcaMessage
from rdma import codec
from support.processes import hcad_process
from support.processes.hcad_process import queue_pair, region
from support.rigs import rdma_lab
from support.scripts import node_hcad
from vgpu_sim.cli.clients.admin import AdminClient, GpudError
from vgpu_sim.hal.management.documents import read
from vgpu_sim.system import seqpacket

FUNCTION = "HCA-6b2f1e0c-6c0e-5f0e-9a2b-3d1c5a7e4f10"
LATER = "HCA-6b2f1e0c-6c0e-5f0e-9a2b-3d1c5a7e4f11"
SECONDS = 60.0
READER = """
import os, socket, sys
client = socket.socket(socket.AF_UNIX)
os.setgid(int(sys.argv[2]))
os.setuid(int(sys.argv[2]))
client.connect(sys.argv[1])
client.sendall(b'{"id": 1, "method": "traffic"}' + bytes([10]))
sys.stdout.write(client.makefile().readline())
"""
"""A program that sends one request as another user, and prints the answer."""


class Connection(hcad_process.Connection):
    """A program's connection to a function."""

    def __init__(self, directory: Path, function: str = FUNCTION) -> None:
        super().__init__(directory / "functions" / function)


class Nodes:
    """All hcads that were started in one directory."""

    def __init__(self, home: Path) -> None:
        self.directory = home / "hca"
        self.directory.mkdir()
        self.home = home
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        """Start an hcad without waiting for it."""
        command = [sys.executable, node_hcad.__file__, f"--directory={self.directory}"]
        ready = f"--ready-file={self.ready(len(self.started))}"
        process = subprocess.Popen([*command, ready, "--no-wire", *options])
        self.started.append(process)
        return process

    def serving(self, *options: str) -> subprocess.Popen[bytes]:
        """Start an hcad, and wait until it reports that it is ready."""
        process = self.start(*options)
        self.until_ready()
        return process

    def ready(self, number: int) -> Path:
        return self.home / f"ready{number}"

    def until_ready(self) -> None:
        ready, process = self.ready(len(self.started) - 1), self.started[-1]
        end = time.monotonic() + SECONDS
        while not (ready.exists() and ready.stat().st_size):
            assert process.poll() is None, "it has ended"
            assert time.monotonic() < end, "it does not get ready"
            time.sleep(0.01)

    def ask(self, method: str, **params: object) -> dict[str, Any]:
        with AdminClient(self.directory, name="admin.sock") as admin:
            return admin.call(method, **params)

    def traffic(self, method: str = "traffic") -> dict[str, Any]:
        """Send a request to the telemetry socket."""
        with AdminClient(self.directory, name="telemetry/hcad.sock") as reader:
            return reader.call(method)

    def give(self, function: str = FUNCTION) -> None:
        """Add a function and assign it to the pod, which is in the tables."""
        self.ask("function-add", function=function, rate_gbps=200)
        addresses = [node_hcad.ADDRESS]
        holder = {"pod_uid": node_hcad.POD_UID, "pod": "ns/one", "refused": ""}
        self.ask("function-bind", function=function, addresses=addresses, **holder)

    def program(self, kind: int = HcaMessage.OPEN) -> Connection:
        """Open the function as a program does."""
        connection = Connection(self.directory)
        status, _body, fds = connection.ask(kind, HcaHello(hca.HCA_VERSION))
        assert status == 0, os.strerror(status)
        for fd in fds:
            os.close(fd)
        return connection


@contextmanager
def nodes_in(home: Path) -> Iterator[Nodes]:
    made = Nodes(home)
    try:
        yield made
    finally:
        for process in made.started:
            process.kill()
            process.wait()


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    with nodes_in(tmp_path) as made:
        made.serving()
        pod = dataclasses.replace(rdma_lab.pod(0), uid=node_hcad.POD_UID)
        made.ask("tables", document=codec.encode(rdma_lab.tables(7, (pod,))))
        made.give()
        yield made


def holds(process: subprocess.Popen[bytes]) -> set[str]:
    """Return the open files of a process, except its standard streams."""
    found = set()
    for one in Path(f"/proc/{process.pid}/fd").iterdir():
        with suppress(OSError):
            found |= {os.readlink(one)} if int(one.name) > 2 else set()
    return found


def until_it_holds_nothing(process: subprocess.Popen[bytes], nodes: Nodes) -> None:
    """Wait until a process has only the lock file open, by which it detects that no hcad serves."""
    end = time.monotonic() + SECONDS
    while holds(process) != {str(nodes.directory / "hcad.lock")}:
        assert time.monotonic() < end, holds(process)
        time.sleep(0.01)


def test_it_serves_in_its_sandbox(nodes: Nodes) -> None:
    """All requests on a node work: for functions, pods and programs."""
    status = Path(f"/proc/{nodes.started[0].pid}/status").read_text()
    for line in ("NoNewPrivs:\t1", "Seccomp:\t2", "CapEff:\t0000000000000000"):
        assert re.search(f"^{line}$", status, re.MULTILINE), line
    one = nodes.program()
    qp = queue_pair(one)()
    assert one.ask(HcaMessage.QP_QUERY, hca.HcaHandle(qp))[0] == 0
    region(one)()
    device = nodes.directory / "classes" / FUNCTION / "infiniband" / "tessera_0"
    assert (device / "ports/1/rate").read_text() == "200 Gb/sec (4X HDR)\n"
    nodes.ask("function-release", function=FUNCTION)
    assert one.socket.recv(1) == b""
    one.close()


def test_counters_are_read_from_a_socket_that_answers_nothing_else(tmp_path: Path) -> None:
    user = f"--telemetry-user={os.getuid() + 1}"
    with nodes_in(tmp_path) as nodes:
        nodes.serving(user)
        empty = read(RdmaTraffic, nodes.traffic(), "traffic")
        assert empty == RdmaTraffic((), (), (), 0, 0, 0, 0)
        pod = dataclasses.replace(rdma_lab.pod(0), uid=node_hcad.POD_UID)
        nodes.ask("tables", document=codec.encode(rdma_lab.tables(7, (pod,))))
        nodes.give()
        one = nodes.program()
        queue_pair(one)()
        region(one)()
        (held,) = read(RdmaTraffic, nodes.traffic(), "traffic").functions
        assert (held.function, held.pod, held.queue_pairs) == (FUNCTION, "ns/one", 1)
        assert held.region_bytes > 0
        for method in ("function-release", "denials", "tables", "status"):
            with pytest.raises(GpudError, match="unknown method"):
                nodes.traffic(method)
        assert nodes.ask("status")["functions"][0]["programs"] == 1
        nodes.serving(user)
        until_it_holds_nothing(nodes.started[0], nodes)
        (held,) = read(RdmaTraffic, nodes.traffic(), "traffic").functions
        assert held.queue_pairs == 1, "the successor serves the socket, too"
        one.close()


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be another user")
def test_only_the_user_that_it_names_reads_the_telemetry_socket() -> None:
    with tempfile.TemporaryDirectory() as name, nodes_in(Path(name)) as nodes:
        nodes.serving("--telemetry-user=64010")
        nodes.home.chmod(0o711)
        nodes.directory.chmod(0o711)

        def read_as(uid: int, name: str) -> bytes:
            command = [sys.executable, "-c", READER, str(nodes.directory / name), str(uid)]
            return subprocess.run(command, capture_output=True, check=False).stdout

        assert b'"functions":[]' in read_as(64010, "telemetry/hcad.sock")
        assert read_as(64011, "telemetry/hcad.sock") == b""
        assert read_as(64010, "admin.sock") == b""


def test_without_a_user_there_is_no_telemetry_socket(nodes: Nodes) -> None:
    assert not (nodes.directory / "telemetry").exists()


def test_what_a_node_s_hcad_has_passes_to_the_next(nodes: Nodes) -> None:
    old = nodes.started[0]
    one = nodes.program()
    made = [queue_pair(one)() for _ in range(3)]
    query = {number: one.ask(HcaMessage.QP_QUERY, hca.HcaHandle(number))[1] for number in made}
    before = nodes.ask("status"), nodes.ask("policy-status")
    new = nodes.serving()
    until_it_holds_nothing(old, nodes)
    assert old.poll() is None, "its container would be started again"
    assert (nodes.ask("status"), nodes.ask("policy-status")) == before
    for number, attributes in query.items():
        assert one.ask(HcaMessage.QP_QUERY, hca.HcaHandle(number))[:2] == (0, attributes)
    region(one)()
    another = nodes.program()
    nodes.ask("function-add", function=LATER, rate_gbps=100)
    old.send_signal(signal.SIGTERM)
    assert old.wait(SECONDS) == 0
    assert one.ask(HcaMessage.QP_QUERY, hca.HcaHandle(made[0]))[0] == 0
    assert [entry["programs"] for entry in nodes.ask("status")["functions"]] == [2, 0]
    nodes.serving()
    until_it_holds_nothing(new, nodes)
    nodes.ask("function-release", function=FUNCTION)
    for connection in (one, another):
        assert connection.socket.recv(1) == b"", "it is the successor's to end"
        connection.close()


def test_a_refusal_is_waited_out_and_the_next_begins_anew(nodes: Nodes) -> None:
    """A program with librdmacm cannot be handed over; a rollout must not be blocked forever by
    it.
    """
    old = nodes.started[0]
    manager = nodes.program(CmMessage.OPEN)
    nodes.serving("--patience=1")
    assert old.poll() is None
    assert nodes.ask("status")["functions"][0]["programs"] == 1, "the old one serves"
    old.send_signal(signal.SIGTERM)
    assert old.wait(SECONDS) == 0
    assert manager.socket.recv(1) == b""
    manager.close()
    end = time.monotonic() + SECONDS
    while True:
        with suppress(GpudError, OSError):
            if nodes.ask("status")["functions"] == []:
                break
        assert time.monotonic() < end, "no hcad serves"
        time.sleep(0.01)
    nodes.give()


def test_who_has_handed_over_ends_when_the_successor_goes(nodes: Nodes) -> None:
    """As when a rollout is undone: the old container is then restarted, and serves."""
    old = nodes.started[0]
    new = nodes.serving()
    until_it_holds_nothing(old, nodes)
    new.send_signal(signal.SIGTERM)
    assert new.wait(SECONDS) == 0
    assert old.wait(SECONDS) == 1
    nodes.serving()
    nodes.give()


def test_after_a_kill_the_next_begins_anew_at_once(nodes: Nodes) -> None:
    one = nodes.program()
    nodes.started[0].kill()
    nodes.started[0].wait()
    assert one.socket.recv(1) == b""
    nodes.serving()
    assert nodes.ask("status")["functions"] == []
    nodes.give()
    one.close()


def test_one_that_knows_no_lock_is_waited_for(tmp_path: Path) -> None:
    """An hcad from before the lock existed removes the files at its sockets' paths when it ends."""
    with nodes_in(tmp_path) as made, seqpacket.bind(made.directory / "direct.sock", 0o600) as older:
        older.listen(1)
        waiting = made.start("--patience=0")
        made.until_ready()
        assert waiting.poll() is None
        assert not (made.directory / "admin.sock").exists(), "it has begun beside the other"
        older.close()
        end = time.monotonic() + SECONDS
        while not (made.directory / "admin.sock").exists():
            assert time.monotonic() < end, "it does not begin"
            time.sleep(0.01)


def test_a_successor_that_dies_changes_nothing(nodes: Nodes) -> None:
    one = nodes.program()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as successor:
        successor.settimeout(SECONDS)
        successor.connect(str(nodes.directory / "successor.sock"))
        successor.send(b"TAKE 3")
        assert successor.recv(256)
    assert one.ask(HcaMessage.PD_CREATE)[0] == 0
    nodes.serving()
    assert one.ask(HcaMessage.PD_CREATE)[0] == 0
    one.close()
