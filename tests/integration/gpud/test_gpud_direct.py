"""GPUDirect RDMA in gpud and the worker: which device memory is exported, and until when."""

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import pytest

from support.processes.gpud_process import Gpud, RawClient, gpud, raw_client, wait_until
from vgpu_sim.hal import direct, messages
from vgpu_sim.hal.compute.address_map import APERTURE_BASES, DEVICE_OFFSET
from vgpu_sim.hal.compute.cuda import CudaError
from vgpu_sim.hal.direct import DirectGrant, ExportRequest
from vgpu_sim.hal.messages import Chunk, Header, MessageType

TOKEN = bytes(range(32))
ADDRESS = APERTURE_BASES[0] + DEVICE_OFFSET
CHUNK = 4 << 20


@dataclass
class Hcad:
    """The part of hcad that gpud uses: listens, and sends requests to each connection."""

    root: Path
    listener: socket.socket = field(default_factory=lambda: _seqpacket())
    link: socket.socket = field(default_factory=lambda: _seqpacket())
    requests: int = 0

    @property
    def place(self) -> Path:
        return self.root / direct.SOCKET_NAME

    def accept(self) -> bytes:
        """Wait for gpud; return the owner of the memory that it provides."""
        self.link.close()
        self.link, _ = self.listener.accept()
        self.link.settimeout(60)
        return self.link.recv(64)

    def ask(
        self, address: int, size: int, pid: int, skip: int, named: bytes
    ) -> tuple[int, list[int]]:
        self.requests += 1
        requested = ExportRequest(self.requests, pid or os.getpid(), address, size, skip, named)
        self.link.send(requested.encode())
        data, descriptors, _, _ = socket.recv_fds(self.link, 512, 4)
        request, status = direct.decode_answer(data)
        assert request == self.requests
        return status, descriptors


def _seqpacket() -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made.settimeout(60)
    return made


@contextlib.contextmanager
def hcad() -> Iterator[Hcad]:
    with tempfile.TemporaryDirectory(prefix="t-", dir="/tmp") as name:
        made = Hcad(Path(name))
        made.listener.bind(str(made.place))
        made.listener.listen(1)
        yield made
        made.listener.close()
        made.link.close()


@pytest.fixture(scope="module")
def node() -> Iterator[Gpud]:
    with hcad() as its, gpud("--hca-socket", str(its.place), token=TOKEN) as running:
        assert its.accept() == TOKEN
        running.hcad = its
        running.slice = running.make_slice()
        yield running
        assert "Traceback" not in running.log


@pytest.fixture
def program(node: Gpud) -> Iterator[RawClient]:
    with raw_client(node.slice["socket_dir"], TOKEN) as client:
        assert client.open().status == 0
        assert client.allocate(CHUNK) == 0
        yield client
    wait_until(lambda: not node.instance(node.slice["uuid"])["contexts"])


class Asker:
    """An exported range, until hcad closes it."""

    def __init__(
        self,
        node: Gpud,
        address: int = ADDRESS,
        size: int = 4096,
        pid: int = 0,
        skip: int = 0,
        named: bytes = b"",
    ) -> None:
        self.descriptors: list[int] = []
        status, ends = node.hcad.ask(address, size, pid, skip, named)
        self.grant = DirectGrant(status)
        self.socket = _seqpacket()
        if status == 0:
            self.socket.close()
            self.socket = socket.socket(fileno=ends[0])
            self.socket.settimeout(60)
            data, self.descriptors, _, _ = socket.recv_fds(self.socket, 64, 4)
            self.grant = DirectGrant.from_buffer_copy(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()
        for descriptor in self.descriptors:
            os.close(descriptor)


def free(client: RawClient) -> int:
    return say(client, MessageType.CHUNK_FREE, Chunk(DEVICE_OFFSET, CHUNK, 0, 0))


def say(client: RawClient, kind: MessageType, chunk: Chunk) -> int:
    assert client.sock is not None
    size = ctypes.sizeof(chunk)
    numbers = (messages.MAGIC, messages.PROTOCOL_VERSION, kind, 9, 0, size, 0)
    client.sock.send(bytes(Header(*numbers)) + bytes(chunk))
    return client._reply(MessageType(kind + 1))


def share(client: RawClient, offset: int, size: int) -> bytes:
    """Make the worker name a range by a descriptor; return the descriptor's content."""
    assert say(client, MessageType.RANGE_SHARE, Chunk(offset, size, 0, 0)) == 0
    return os.pread(client.descriptors[-1], direct.RANGE_BYTES, 0)


def test_the_memory_of_the_program_is_shown_sealed(node: Gpud, program: RawClient) -> None:
    with (
        Asker(node, ADDRESS + 8192) as asker,
        mmap.mmap(asker.descriptors[0], CHUNK) as shown,
        mmap.mmap(program.descriptors[-1], CHUNK) as own,
    ):
        assert (asker.grant.status, asker.grant.offset, asker.grant.chunk_bytes) == (0, 8192, CHUNK)
        shown[8192:8196] = b"moin"
        assert own[8192:8196] == b"moin"
        seals = fcntl.fcntl(asker.descriptors[0], fcntl.F_GET_SEALS)
        assert seals & fcntl.F_SEAL_SHRINK
        assert seals & fcntl.F_SEAL_SEAL


def test_freeing_takes_it_back_and_waits_for_that(node: Gpud, program: RawClient) -> None:
    with Asker(node) as asker:
        assert program.sock is not None
        exported = os.fstat(asker.descriptors[0])
        assert exported.st_blocks * 512 == CHUNK
        freed: list[int] = []
        thread = threading.Thread(target=lambda: freed.append(free(program)))
        thread.start()
        assert asker.socket.recv(1) == b""
        assert os.fstat(asker.descriptors[0]).st_blocks * 512 == CHUNK  # not before hcad closes it
        asker.socket.close()
        thread.join(10)
        assert freed == [0]
        assert os.fstat(asker.descriptors[0]).st_blocks == 0
    with Asker(node) as asker:
        assert asker.grant.status == errno.ENOENT


def test_what_a_descriptor_names_is_shown_to_its_own_process(
    node: Gpud, program: RawClient
) -> None:
    named = share(program, DEVICE_OFFSET + 8192, 8192)
    with Asker(node, 4096, named=named) as asker:
        assert (asker.grant.status, asker.grant.offset) == (0, 8192 + 4096)
    with Asker(node, 4096, 4097, named=named) as asker:
        assert (asker.grant.status, asker.descriptors) == (errno.ENOENT, [])
    with Asker(node, 0, pid=1, named=named) as asker:
        assert (asker.grant.status, asker.descriptors) == (errno.ESRCH, [])
    assert free(program) == 0
    assert program.allocate(CHUNK) == 0
    with Asker(node, 0, named=named) as asker:
        assert (asker.grant.status, asker.descriptors) == (errno.ENOENT, [])


def test_what_is_no_range_has_no_descriptor(node: Gpud, program: RawClient) -> None:
    for offset, size in ((DEVICE_OFFSET + 1, 4096), (DEVICE_OFFSET, 2 * CHUNK), (0, 4096)):
        chunk = Chunk(offset, size, 0, 0)
        assert say(program, MessageType.RANGE_SHARE, chunk) == CudaError.INVALID_VALUE


def test_the_end_of_the_context_takes_it_back_and_waits_for_that(
    node: Gpud, program: RawClient
) -> None:
    with Asker(node) as asker:
        assert asker.grant.status == 0
        assert program.sock is not None
        program.sock.shutdown(socket.SHUT_WR)  # as libcuda does, which then waits for the worker
        assert asker.socket.recv(1) == b""
        assert not select.select([program.sock], [], [], 0)[0]  # not before hcad closes it
        asker.socket.close()
        assert program.sock.recv(1) == b""


def test_every_context_of_a_program_can_be_queried(node: Gpud, program: RawClient) -> None:
    with raw_client(node.slice["socket_dir"], TOKEN) as other:
        assert other.open(context_index=1).status == 0
        assert other.allocate(CHUNK, number=1) == 0
        found = []
        for skip in range(3):
            with Asker(node, ADDRESS + (1 << 34), skip=skip) as asker:
                found.append(asker.grant.status)
        assert sorted(found) == sorted([errno.ENOENT, 0, errno.ESRCH])


@pytest.mark.parametrize(
    ("address", "size"),
    [
        (ADDRESS - 1, 2),
        (ADDRESS + CHUNK - 1, 2),
        (ADDRESS + CHUNK, 1),
        (0, 1),
        (ADDRESS, CHUNK + 1),
        ((1 << 64) - 1, 1),
    ],
)
def test_what_is_not_wholly_its_memory_is_not_shown(
    node: Gpud, program: RawClient, address: int, size: int
) -> None:
    with Asker(node, address, size) as asker:
        assert (asker.grant.status, asker.descriptors) == (errno.ENOENT, [])


def test_another_process_has_nothing_to_show(node: Gpud, program: RawClient) -> None:
    with Asker(node, pid=1) as asker:
        assert (asker.grant.status, asker.descriptors) == (errno.ESRCH, [])


@pytest.mark.parametrize(
    "data",
    [
        b"{}",
        b"x" * 600,
        b'{"type":"export","request":1,"pid":-1,"address":0,"bytes":1,"skip":0}',
        b'{"type":"export","request":1,"pid":1,"address":18446744073709551615,"bytes":2,"skip":0}',
        b'{"type":"export","request":1,"pid":true,"address":0,"bytes":1,"skip":0}',
        b'{"type":"export","request":1,"pid":1,"address":0,"bytes":0,"skip":0}',
        b'{"type":"export","request":1,"pid":1,"address":0,"bytes":1,"skip":1000000}',
        b'{"type":"fence","request":1,"pid":1,"address":0,"bytes":1,"skip":0}',
        b"[" * 500,
        b'{"type":"export","request":1,"pid":1,"address":0,"bytes":1,"skip":0,"range":"00"}',
        b'{"type":"export","request":1,"pid":1,"address":0,"bytes":1,"skip":0,"range":["00"]}',
        b'{"type":"export","request":1,"pid":1,"address":0,"bytes":1,"skip":0,"range":"'
        + b"x" * 128
        + b'"}',
    ],
)
def test_an_hcad_that_makes_no_sense_is_left_and_looked_for_again(node: Gpud, data: bytes) -> None:
    node.hcad.link.send(data)
    assert node.hcad.link.recv(1) == b""
    assert node.hcad.accept() == TOKEN


_STRANGER = """
import os, socket, sys
os.setuid(12345)
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
    listener.settimeout(60)
    listener.bind(sys.argv[1])
    listener.listen(1)
    print("ready", flush=True)
    link, _ = listener.accept()
    print(len(link.recv(64)), flush=True)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT RUN: needs root to change the user")
@pytest.mark.parametrize(("options", "received"), [((), 0), (("--hcad-user", "12345"), 32)])
def test_only_hcad_receives_data(options: tuple[str, ...], received: int) -> None:
    with tempfile.TemporaryDirectory(prefix="t-", dir="/tmp") as name:
        Path(name).chmod(0o777)
        place = f"{name}/{direct.SOCKET_NAME}"
        command = [sys.executable, "-c", _STRANGER, place]
        stranger = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert stranger.stdout is not None
        assert stranger.stdout.readline() == "ready\n"
        with gpud(*options, "--hca-socket", place, token=TOKEN):
            assert int(stranger.communicate(timeout=60)[0]) == received
