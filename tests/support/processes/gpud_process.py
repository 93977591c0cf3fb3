"""A real gpud of a node, and clients that communicate with its slice sockets directly."""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vgpu_sim.cli.clients.admin import AdminClient
from vgpu_sim.cli.clients.slices import hello_message
from vgpu_sim.gpud.model import new_gpu_uuid
from vgpu_sim.hal import messages
from vgpu_sim.hal.compute import abi
from vgpu_sim.hal.compute.address_map import APERTURE_BASES, DEVICE_OFFSET
from vgpu_sim.hal.messages import Chunk, Header, MessageType
from vgpu_sim.system import python_process

TIMEOUT_S = 60
_LOG_SHOWN = 4000  # characters


def wait_until(condition: Callable[[], Any], timeout_s: float = TIMEOUT_S) -> Any:
    """Return the condition's first true value; fail if there is none in time."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"timed out waiting for {condition}"
        time.sleep(0.01)


@dataclass
class Gpud:
    """A gpud process. ``options`` are added to its command line, which begins with ``prefix``: a
    command that executes another one.
    """

    root: Path
    options: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = None

    @property
    def run_dir(self) -> Path:
        return self.root / "run"

    @property
    def log(self) -> str:
        return (self.root / "log").read_text(errors="replace")

    def start(self) -> "Gpud":
        """Start gpud and wait until it serves."""
        arguments = python_process.module_command(
            "vgpu_sim.gpud",
            *("--run-dir", str(self.run_dir), "--state-dir", str(self.root / "state")),
            *("--backend", "interp", *self.options),
        )
        with (self.root / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*self.prefix, *arguments],
                env=python_process.module_environment(),
                stderr=log,
                stdout=log,
            )
        wait_until(self._serves)
        return self

    def _serves(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log
        try:
            self.admin().close()
        except OSError:
            return False
        return True

    def admin(self) -> AdminClient:
        return AdminClient(self.run_dir, TIMEOUT_S)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        with self.admin() as admin:
            return admin.call(method, **params)

    def make_slice(self, profile: str = "1g.10gb", start: int = 0) -> dict[str, Any]:
        """Create an instance, on the first H100, which is created if there is none."""
        gpus = self.call("inventory")["gpus"]
        if not gpus:
            gpus = [{"uuid": new_gpu_uuid(), "index": 0, "board": "h100-80gb"}]
            self.call("configure", gpus=gpus, budget_bytes=0)
        return self.call("create_instance", gpu_uuid=gpus[0]["uuid"], profile=profile, start=start)

    def instance(self, uuid: str) -> dict[str, Any]:
        """Return one instance of the inventory."""
        for gpu in self.call("inventory")["gpus"]:
            for one in gpu["instances"]:
                if one["uuid"] == uuid:
                    return dict(one)
        raise AssertionError(f"no instance {uuid}")

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal to gpud and return its exit status."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(TIMEOUT_S)


@contextlib.contextmanager
def gpud(*options: str, token: bytes | None = None, prefix: tuple[str, ...] = ()) -> Iterator[Gpud]:
    """Run a gpud in a new directory (its name is short, because sockets are in it); clean up
    afterwards.
    """
    with tempfile.TemporaryDirectory(prefix="t-", dir="/tmp") as name:
        root = Path(name)
        if token is not None:
            (root / "token").write_text(token.hex())
            options = ("--token", str(root / "token"), *options)
        with _running(Gpud(root, options, prefix)) as made:
            yield made


@contextlib.contextmanager
def _running(made: Gpud) -> Iterator[Gpud]:
    try:
        yield made.start()
    finally:
        if made.process is not None and made.process.poll() is None:
            with contextlib.suppress(OSError, AssertionError):
                for gpu in made.call("inventory")["gpus"]:
                    for instance in gpu["instances"]:
                        for context in instance["contexts"]:
                            os.kill(context["pid"], signal.SIGKILL)
            made.end()
        print(made.log[-_LOG_SHOWN:], file=sys.stderr)  # pytest shows it for failed tests


@dataclass
class RawClient:
    """A client that speaks the client library's protocol, without the rest of the library."""

    socket_dir: str
    token: bytes = bytes(messages.TOKEN_BYTES)
    status: int = -1
    descriptors: list[int] = field(default_factory=list)
    sock: socket.socket | None = None

    def open(self, base: int = APERTURE_BASES[0], context_index: int = 0) -> "RawClient":
        """Connect, request a context and wait for the answer."""
        return self.connect().hello(base, context_index)

    def connect(self) -> "RawClient":
        """Connect without sending anything."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.settimeout(TIMEOUT_S)
        self.sock.connect(f"{self.socket_dir}/s.sock")
        return self

    def hello(self, base: int = APERTURE_BASES[0], context_index: int = 0) -> "RawClient":
        """Send HELLO on the connection and wait for the answer."""
        assert self.sock is not None
        self.sock.send(hello_message(MessageType.HELLO_CONTEXT, 7, self.token, context_index, base))
        self.status = self._reply(MessageType.CONTEXT_READY)
        return self

    def allocate(self, size: int, number: int = 0) -> int:
        """Request a device chunk; return the status."""
        assert self.sock is not None
        chunk = Chunk(DEVICE_OFFSET + (number << 34), size, 0, 0)
        header = Header(
            messages.MAGIC,
            messages.PROTOCOL_VERSION,
            MessageType.CHUNK_ALLOCATE,
            8,
            0,
            ctypes.sizeof(chunk),
            0,
        )
        self.sock.send(bytes(header) + bytes(chunk))
        return self._reply(MessageType.CHUNK_ALLOCATED)

    def wait_closed(self) -> bool:
        """Wait for the other side to hang up."""
        assert self.sock is not None
        try:
            return self.sock.recv(1) == b""
        except ConnectionResetError:
            return True

    def error(self) -> int:
        """Return the CUresult in the page that the worker shares with its client."""
        for descriptor in self.descriptors:
            if "worker-page" in os.readlink(f"/proc/self/fd/{descriptor}"):
                data = os.pread(descriptor, ctypes.sizeof(abi.WorkerPage), 0)
                return int(abi.WorkerPage.from_buffer_copy(data).error)
        raise AssertionError("the worker shared no page")

    def close(self) -> None:
        """Close the connection."""
        if self.sock is not None:
            self.sock.close()
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors.clear()

    def _reply(self, kind: MessageType) -> int:
        assert self.sock is not None
        data, descriptors, _, _ = socket.recv_fds(self.sock, messages.MAX_MESSAGE_BYTES, 4)
        self.descriptors += descriptors
        header = Header.from_buffer_copy(data)
        assert header.type == kind
        return int(header.status)


@contextlib.contextmanager
def raw_client(socket_dir: str, token: bytes = bytes(messages.TOKEN_BYTES)) -> Iterator[RawClient]:
    """A client whose connection is closed afterwards."""
    client = RawClient(socket_dir, token)
    try:
        yield client
    finally:
        client.close()


CLIENT_PROGRAM = """
import sys
from support.processes.gpud_process import RawClient
client = RawClient(sys.argv[1]).open()
print(client.status, flush=True)
if client.status == 0 and client.allocate(int(sys.argv[2])) == 0:
    print("allocated", flush=True)
for line in sys.stdin:
    print("closed" if client.wait_closed() else "open", flush=True)
"""


def client_process(
    socket_dir: str, before: Callable[[], None], chunk_bytes: int = 4 << 20
) -> subprocess.Popen[str]:
    """Start a client in a separate process that first calls ``before`` (which joins a pod's
    group).
    """
    environment = python_process.module_environment()
    return subprocess.Popen(
        [sys.executable, "-c", CLIENT_PROGRAM, socket_dir, str(chunk_bytes)],
        env=environment,
        preexec_fn=before,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def status_of_passed_on_socket(client: RawClient, before: Callable[[], None], exits: bool) -> int:
    """Connect in one process, send HELLO in its child; return the status that the child received.

    The child calls ``before`` first. ``exits``: the process that connected ends before the
    HELLO.
    """
    reader, writer = os.pipe()
    connector = os.fork()
    if connector == 0:
        client.connect()
        connected = os.getpid()
        if os.fork() == 0:
            before()
            while exits and os.getppid() == connected:
                time.sleep(0.01)
            os.write(writer, str(client.hello().status).encode())
            os._exit(0)
        if not exits:
            os.wait()
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        status = int(answer.read())
    os.waitpid(connector, 0)
    return status
