"""Programs that break the connection manager's protocol harm only themselves."""

import contextlib
import ctypes
import errno
import os
import random
import secrets
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hca.contract import cm, hca
from hca.contract.cm import CmEvent, CmEventType as Event, CmMessage, CmPortSpace
from hca.contract.fabric_files import SOCKET_NAME
from support.processes.gpud_process import wait_until
from support.processes.tessera_run import environment
from vgpu_sim.hal import messages
from vgpu_sim.hal.messages import Header

SECONDS = 60.0


@dataclass
class Program:
    """A program's connection to the connection manager, or to another server by its first
    message.
    """

    link: socket.socket
    requests: int = 0

    def send(self, kind: int, payload: bytes = b"", **header: int) -> None:
        self.requests += 1
        values = {
            "magic": messages.MAGIC,
            "version": messages.PROTOCOL_VERSION,
            "type": kind,
            "request": self.requests,
            "payload_bytes": len(payload),
            **header,
        }
        self.link.send(bytes(Header(**values)) + payload)

    def receive(self) -> tuple[int, bytes, list[int]]:
        """Return the status of a reply, its payload, and its descriptors."""
        data, fds, _, _ = socket.recv_fds(self.link, messages.MAX_MESSAGE_BYTES, 4)
        if not data:
            raise EOFError
        header = Header.from_buffer_copy(data)
        return header.status, data[ctypes.sizeof(Header) :], fds

    def ask(self, kind: int, payload: ctypes.Structure | None = None) -> tuple[int, bytes]:
        self.send(kind, bytes(payload) if payload is not None else b"")
        status, answer, fds = self.receive()
        for fd in fds:
            os.close(fd)
        return status, answer

    def handle(self, kind: int, payload: ctypes.Structure | None = None) -> int:
        status, answer = self.ask(kind, payload)
        assert status == 0, os.strerror(status)
        return hca.HcaHandle.from_buffer_copy(answer).handle

    def is_hung_up(self) -> bool:
        try:
            return self.link.recv(1) == b""
        except ConnectionResetError:
            return True


class Fabric:
    """An hcad, with this process as its members."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.links: list[socket.socket] = []
        reading, writing = os.pipe()
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "hca.daemon", "--directory", str(directory)),
                *("--ready-fd", str(writing), "--memory", str(1 << 30)),
            ],
            env=environment(directory),
            pass_fds=(writing,),
        )
        os.close(writing)
        there, _, _ = select.select([reading], [], [], SECONDS)
        assert there
        os.close(reading)

    def connect(self) -> Program:
        link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        link.settimeout(SECONDS)
        link.connect(str(self.directory / SOCKET_NAME))
        self.links.append(link)
        return Program(link)

    def member(self) -> bytes:
        """Join the fabric; return the token."""
        token = secrets.token_bytes(messages.TOKEN_BYTES)
        assert self.hello(hca.HcaMessage.JOIN, token)[0] == 0
        return token

    def hello(self, kind: int, token: bytes) -> tuple[int, Program]:
        program = self.connect()
        hello = hca.HcaHello(hca.HCA_VERSION)
        ctypes.memmove(hello.token, token, len(token))
        status, _ = program.ask(kind, hello)
        return status, program

    def program(self, token: bytes) -> Program:
        status, program = self.hello(CmMessage.OPEN, token)
        assert status == 0
        return program

    def close(self) -> None:
        for link in self.links:
            link.close()
        self.process.terminate()
        assert self.process.wait(SECONDS) == 0


@pytest.fixture(scope="module")
def fabric(tmp_path_factory) -> Iterator[Fabric]:
    running = Fabric(tmp_path_factory.mktemp("fabric"))
    yield running
    running.close()


def still_serves(fabric: Fabric, token: bytes) -> bool:
    """Return whether another client can create, bind and destroy ids."""
    program = fabric.program(token)
    channel = program.handle(CmMessage.CHANNEL_CREATE)
    one = program.handle(CmMessage.ID_CREATE, cm.CmIdCreate(channel, CmPortSpace.TCP))
    status, _ = program.ask(CmMessage.BIND, cm.CmBind(one))
    return status == 0 and program.ask(CmMessage.ID_DESTROY, hca.HcaHandle(one))[0] == 0


def test_a_wrong_secret_opens_nothing(fabric):
    status, program = fabric.hello(CmMessage.OPEN, secrets.token_bytes(messages.TOKEN_BYTES))
    assert status == errno.EACCES
    assert program.is_hung_up()


@pytest.mark.parametrize(
    ("payload", "header"),
    [
        (b"", {"type": 9999}),
        (b"", {"type": hca.HcaMessage.PD_CREATE}),
        (b"", {"magic": 1}),
        (b"", {"version": 77}),
        (b"", {"status": 5}),
        (b"x" * 7, {}),
        (b"", {"payload_bytes": 12}),
        (b"x" * 3000, {}),
    ],
)
def test_what_breaks_the_protocol_is_hung_up_on(fabric, payload, header):
    token = fabric.member()
    program = fabric.program(token)
    program.send(header.pop("type", CmMessage.ID_CREATE), payload, **header)
    assert program.is_hung_up()
    assert still_serves(fabric, token)


def test_random_requests_are_refused_or_carried_out(fabric):
    token = fabric.member()
    choice = random.Random(7)
    sizes = {
        CmMessage.CHANNEL_CREATE: 0,
        CmMessage.ID_CREATE: ctypes.sizeof(cm.CmIdCreate),
        CmMessage.BIND: ctypes.sizeof(cm.CmBind),
        CmMessage.LISTEN: ctypes.sizeof(cm.CmPair),
        CmMessage.RESOLVE_ADDRESS: ctypes.sizeof(cm.CmBind),
        CmMessage.JOIN: ctypes.sizeof(cm.CmBind),
        **dict.fromkeys((CmMessage.CONNECT, CmMessage.ACCEPT), ctypes.sizeof(cm.CmConnect)),
        CmMessage.REJECT: ctypes.sizeof(cm.CmReject),
        CmMessage.MIGRATE: ctypes.sizeof(cm.CmPair),
    }
    program = fabric.program(token)
    for _ in range(1500):
        kind = choice.choice(list(CmMessage)[1:])
        size = sizes.get(kind, ctypes.sizeof(hca.HcaHandle))
        body = bytearray(choice.randbytes(size))
        if size >= 4 and choice.random() < 0.9:
            body[:4] = choice.randrange(40).to_bytes(4, "little")
        if size == 8 and choice.random() < 0.9:
            body[4:] = choice.choice((1, 2, 0x106, 0x111)).to_bytes(4, "little")
        program.send(kind, bytes(body))
        status, _, fds = program.receive()
        assert 0 <= status < 200
        for fd in fds:
            os.close(fd)
    assert still_serves(fabric, token)


def test_a_client_that_reads_neither_replies_nor_events_delays_no_other(fabric):
    token = fabric.member()
    deaf = fabric.program(token)
    deaf.link.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        for _ in range(1 << 16):
            deaf.send(CmMessage.ID_DESTROY, bytes(8))
    assert deaf.requests < 1 << 16
    assert still_serves(fabric, token)


def test_what_a_program_had_goes_with_it(fabric):
    """Descriptors are released, too: hcad has as many as before."""
    token = fabric.member()
    descriptors = Path(f"/proc/{fabric.process.pid}/fd")
    before = len(list(descriptors.iterdir()))
    program = fabric.program(token)
    for _ in range(50):
        channel = program.handle(CmMessage.CHANNEL_CREATE)
        one = program.handle(CmMessage.ID_CREATE, cm.CmIdCreate(channel, CmPortSpace.TCP))
        bound = cm.CmBind(one)
        bound.source.port = 9000 + channel
        assert program.ask(CmMessage.BIND, bound)[0] == 0
        assert program.ask(CmMessage.LISTEN, cm.CmPair(one, 1))[0] == 0
    assert len(list(descriptors.iterdir())) > before + 100
    program.link.close()
    again = fabric.program(token)
    assert again.ask(CmMessage.CHANNEL_DESTROY, hca.HcaHandle(1))[0] == errno.EINVAL
    assert wait_until(lambda: len(list(descriptors.iterdir())) <= before + 3, 60)


def test_a_member_that_leaves_takes_its_programs_listeners_along(fabric):
    token = secrets.token_bytes(messages.TOKEN_BYTES)
    status, member = fabric.hello(hca.HcaMessage.JOIN, token)
    assert status == 0
    program = fabric.program(token)
    channel = program.handle(CmMessage.CHANNEL_CREATE)
    program.handle(CmMessage.ID_CREATE, cm.CmIdCreate(channel, CmPortSpace.TCP))
    member.link.close()
    assert program.is_hung_up()


def test_events_come_whole_through_the_pipe(fabric):
    program = fabric.program(fabric.member())
    program.send(CmMessage.CHANNEL_CREATE)
    status, answer, (fd,) = program.receive()
    assert status == 0
    channel = hca.HcaHandle.from_buffer_copy(answer).handle
    one = program.handle(CmMessage.ID_CREATE, cm.CmIdCreate(channel, CmPortSpace.TCP))
    assert program.ask(CmMessage.RESOLVE_ADDRESS, cm.CmBind(one))[0] == 0
    event = CmEvent.from_buffer_copy(os.read(fd, ctypes.sizeof(CmEvent)))
    assert (event.type, event.handle) == (Event.ADDR_RESOLVED, one)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.write(fd, b"x")
    os.close(fd)


def test_an_hcad_that_ends_is_ended_by_no_signal(tmp_path):
    """hcad ends when its last member has left; repeated SIGTERMs must not disturb that."""
    fabric = Fabric(tmp_path)
    fabric.member()
    for link in fabric.links:
        link.close()
    while fabric.process.poll() is None:
        fabric.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            fabric.process.wait(0.001)
    assert fabric.process.returncode == 0
