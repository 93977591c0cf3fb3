"""A real hcad process, and clients that use its protocol over its socket."""

import ctypes
import os
import select
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from hca.contract import hca
from hca.contract.hca import HcaHello, HcaMessage
from hca.contract.verbs import VerbsQpType
from vgpu_sim.hal import messages
from vgpu_sim.hal.messages import Header
from vgpu_sim.system import python_process

ANSWER_SECONDS = 60.0


def start(
    directory: Path, *options: str, memory: int = 1 << 30, within: Sequence[str] = ()
) -> subprocess.Popen[bytes]:
    """Start hcad and wait until it serves; ``within`` is a command line that runs hcad's."""
    reading, writing = os.pipe()
    try:
        process = subprocess.Popen(
            [
                *within,
                *python_process.module_command(
                    "hca.daemon",
                    *("--directory", str(directory), "--ready-fd", str(writing)),
                    *("--memory", str(memory), *options),
                ),
            ],
            env=python_process.module_environment(),
            pass_fds=(writing,),
        )
        os.close(writing)
        poller = select.poll()
        poller.register(reading, select.POLLIN)
        assert poller.poll(ANSWER_SECONDS * 1000), "hcad does not start"
        assert os.read(reading, 1) == b"1", f"hcad ended with {process.wait()}"
    finally:
        os.close(reading)
    return process


@contextmanager
def running(directory: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run hcad during the block; end it by its pid."""
    process = start(directory, *options)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


class Connection:
    """A connection to hcad's socket; the caller chooses the messages."""

    def __init__(self, directory: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(ANSWER_SECONDS)
        self.socket.connect(str(directory / "hca.sock"))
        self.request = 0

    def ask(
        self, kind: int, payload: ctypes.Structure | None = None
    ) -> tuple[int, bytes, list[int]]:
        """Send a request; return the status, payload and descriptors of the reply."""
        self.send(kind, payload)
        data, fds, _flags, _address = socket.recv_fds(self.socket, 1 << 16, 8)
        assert data, "hcad has hung up"
        header = Header.from_buffer_copy(data)
        assert header.request == self.request
        return header.status, data[ctypes.sizeof(Header) :], fds

    def send(self, kind: int, payload: ctypes.Structure | None = None) -> None:
        """Send a request without waiting for the reply."""
        self.request += 1
        body = bytes(payload) if payload is not None else b""
        start_of = (messages.MAGIC, messages.PROTOCOL_VERSION, kind, self.request, 0, len(body))
        self.socket.send(bytes(Header(*start_of)) + body)

    def create(self, kind: int, payload: ctypes.Structure | None = None) -> int:
        """Request an object; return its handle, and close the descriptors of the reply."""
        status, body, fds = self.ask(kind, payload)
        for fd in fds:
            os.close(fd)
        if status:
            raise OSError(status, os.strerror(status))
        return hca.HcaHandle.from_buffer_copy(body).handle if body else 0

    def close(self) -> None:
        """Close the connection."""
        with suppress(OSError):
            self.socket.close()


def hello(token: bytes) -> HcaHello:
    """Return the first message of a client with this token."""
    return HcaHello(hca.HCA_VERSION, 0, (ctypes.c_uint8 * messages.TOKEN_BYTES)(*token))


def member(directory: Path, token: bytes) -> Connection:
    """Join the fabric; return the member's connection."""
    connection = Connection(directory)
    status, _body, _fds = connection.ask(HcaMessage.JOIN, hello(token))
    assert status == 0, os.strerror(status)
    return connection


def program(directory: Path, token: bytes) -> Connection:
    """Open a member's function; return the connection. Raises OSError."""
    connection = Connection(directory)
    try:
        status, _body, fds = connection.ask(HcaMessage.OPEN, hello(token))
    except BaseException:
        connection.close()
        raise
    for fd in fds:
        os.close(fd)
    if status:
        connection.close()
        raise OSError(status, os.strerror(status))
    return connection


def queue_pair(connection: Connection, depth: int = 1, entries: int = 1) -> Callable[[], int]:
    """Return a function that creates one more queue pair at each call."""
    pd = connection.create(HcaMessage.PD_CREATE)
    cq = connection.create(HcaMessage.CQ_CREATE, hca.HcaCqCreate(entries, 0))
    wanted = hca.HcaQpCreate(pd, cq, cq, VerbsQpType.RC, depth, depth, 0, 0)
    return lambda: connection.create(HcaMessage.QP_CREATE, wanted)


def region(connection: Connection) -> Callable[[], int]:
    """Return a function that registers one more page at each call."""
    pd = connection.create(HcaMessage.PD_CREATE)

    def make() -> int:
        wanted = hca.HcaSegmentCreate(hca.HCA_PAGE_BYTES)
        status, body, fds = connection.ask(HcaMessage.SEGMENT_CREATE, wanted)
        if status:
            raise OSError(status, "segment")
        os.pwrite(fds[0], bytes(hca.HCA_PAGE_BYTES), 0)
        os.close(fds[0])
        request = hca.HcaMrCreate(pd, 1, 0x1000, hca.HCA_PAGE_BYTES, 1)
        handle = hca.HcaHandle.from_buffer_copy(body).handle
        request.pieces[0] = hca.HcaPiece(handle, 0, 0, hca.HCA_PAGE_BYTES)
        return connection.create(HcaMessage.MR_CREATE, request)

    return make
