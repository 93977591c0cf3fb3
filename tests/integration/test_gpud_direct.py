"""GPUDirect RDMA, gpud's and the worker's part: who is shown a device's memory, and until when."""

import ctypes
import errno
import fcntl
import mmap
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Self

import pytest
from gpud_process import Gpud, RawClient, gpud, raw_client, wait_until

from vgpu_sim.hal import direct, messages
from vgpu_sim.hal.address_map import APERTURE_BASES, DEVICE_OFFSET
from vgpu_sim.hal.direct import DirectGrant
from vgpu_sim.hal.messages import Chunk, Header, MessageType

TOKEN = bytes(range(32))
ADDRESS = APERTURE_BASES[0] + DEVICE_OFFSET
CHUNK = 4 << 20


@pytest.fixture(scope="module")
def node() -> Iterator[Gpud]:
    with gpud(token=TOKEN) as running:
        running.slice = running.make_slice()
        yield running
        assert "Traceback" not in running.log


@pytest.fixture
def program(node: Gpud) -> Iterator[RawClient]:
    with raw_client(node.slice["socket_dir"], TOKEN) as client:
        assert client.open().status == 0
        assert client.allocate(CHUNK) == 0
        yield client


class Asker:
    """What hcad does: asks for a range and keeps the connection."""

    def __init__(
        self, node: Gpud, address: int = ADDRESS, size: int = 4096, pid: int = 0, skip: int = 0
    ) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(10)
        self.socket.connect(str(node.run_dir / direct.SOCKET_NAME))
        self.socket.send(direct.encode_request(pid or os.getpid(), address, size, skip))
        data, self.descriptors, _, _ = socket.recv_fds(self.socket, 64, 4)
        self.grant = DirectGrant.from_buffer_copy(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()
        for descriptor in self.descriptors:
            os.close(descriptor)


def free(client: RawClient) -> int:
    assert client.sock is not None
    chunk = Chunk(DEVICE_OFFSET, CHUNK, 0, 0)
    size = ctypes.sizeof(chunk)
    numbers = (messages.MAGIC, messages.PROTOCOL_VERSION, MessageType.CHUNK_FREE, 9, 0, size, 0)
    client.sock.send(bytes(Header(*numbers)) + bytes(chunk))
    return client._reply(MessageType.CHUNK_FREED)


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
        lent = os.fstat(asker.descriptors[0])
        assert lent.st_blocks * 512 == CHUNK
        freed: list[int] = []
        thread = threading.Thread(target=lambda: freed.append(free(program)))
        thread.start()
        assert asker.socket.recv(1) == b""
        assert os.fstat(asker.descriptors[0]).st_blocks * 512 == CHUNK  # not before we let go
        asker.socket.close()
        thread.join(10)
        assert freed == [0]
        assert os.fstat(asker.descriptors[0]).st_blocks == 0
    with Asker(node) as asker:
        assert asker.grant.status == errno.ENOENT


def test_the_end_of_the_context_takes_it_back(node: Gpud, program: RawClient) -> None:
    with Asker(node) as asker:
        assert asker.grant.status == 0
        program.close()
        assert asker.socket.recv(1) == b""


def test_every_context_of_a_program_can_be_asked(node: Gpud, program: RawClient) -> None:
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
        b'{"type":"export","pid":-1,"address":0,"bytes":1,"skip":0}',
        b'{"type":"export","pid":1,"address":18446744073709551615,"bytes":2,"skip":0}',
        b'{"type":"export","pid":true,"address":0,"bytes":1,"skip":0}',
        b'{"type":"export","pid":1,"address":0,"bytes":0,"skip":0}',
        b'{"type":"export","pid":1,"address":0,"bytes":1,"skip":1000000}',
        b'{"type":"fence","pid":1,"address":0,"bytes":1,"skip":0}',
        b"[" * 500,
    ],
)
def test_what_nobody_of_ours_asks_is_invalid(node: Gpud, data: bytes) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asker:
        asker.settimeout(10)
        asker.connect(str(node.run_dir / direct.SOCKET_NAME))
        asker.send(data)
        assert DirectGrant.from_buffer_copy(asker.recv(64)).status == errno.EINVAL


_STRANGER = """
import os, socket, sys
from vgpu_sim.hal import direct
os.setuid(12345)
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asker:
    asker.settimeout(10)
    asker.connect(sys.argv[1])
    asker.send(direct.encode_request(int(sys.argv[2]), int(sys.argv[3]), 4096, 0))
    print(int.from_bytes(asker.recv(64)[:4], "little"))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT RUN: needs root to be somebody else")
@pytest.mark.parametrize(("options", "status"), [((), errno.EPERM), (("--hcad-user", "12345"), 0)])
def test_only_hcad_is_heard(options: tuple[str, ...], status: int) -> None:
    with gpud(*options, token=TOKEN) as node:
        node.root.chmod(0o711)
        with raw_client(node.make_slice()["socket_dir"], TOKEN) as client:
            assert client.open().status == 0
            assert client.allocate(CHUNK) == 0
            place = str(node.run_dir / direct.SOCKET_NAME)
            command = [sys.executable, "-c", _STRANGER, place, str(os.getpid()), str(ADDRESS)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            assert int(done.stdout) == status


def test_askers_that_say_nothing_do_not_keep_others_from_asking(
    node: Gpud, program: RawClient
) -> None:
    silent = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(40)]
    try:
        for one in silent:
            one.connect(str(node.run_dir / direct.SOCKET_NAME))
        with Asker(node) as asker:
            assert asker.grant.status == 0
    finally:
        for one in silent:
            one.close()
    wait_until(lambda: _asks(node))


def _asks(node: Gpud) -> bool:
    with Asker(node, pid=1) as asker:
        return bool(asker.grant.status == errno.ESRCH)
