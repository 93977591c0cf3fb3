"""A slice's socket: the number of silent connections that it keeps, and the choice of those to
close.
"""

import asyncio
import ctypes
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from support.rigs import a30_slice
from vgpu_sim.cli.clients.slices import hello_message
from vgpu_sim.gpud.model import Owner
from vgpu_sim.gpud.slices import replies, server as server_module
from vgpu_sim.gpud.slices.server import SliceServer
from vgpu_sim.hal import messages
from vgpu_sim.hal.compute.address_map import APERTURE_BASES
from vgpu_sim.hal.management.nvml import ManagementOperation, ManagementRequest
from vgpu_sim.hal.messages import DeviceInfo, Header, MessageType
from vgpu_sim.system import foreign, seqpacket

INSTANCE = a30_slice.make()
BASE = APERTURE_BASES[0]
HELD = 64  # as many as contexts: descriptors of gpud that strangers may occupy


@pytest.fixture
def directory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory with a short name, since sockets' paths are limited. Silent clients are not
    closed.
    """
    foreign.prepare_waking()
    monkeypatch.setattr(server_module, "HELLO_TIMEOUT_SECONDS", 600.0)
    with tempfile.TemporaryDirectory(prefix="s-", dir="/tmp") as name:
        yield Path(name) / "slice"


class Undecided:
    """An admission that never decides."""

    async def authorize(self, *_: object) -> Owner:
        await asyncio.Event().wait()
        raise AssertionError("no admission is decided")


def serving(directory: Path) -> SliceServer:
    """A server that grants no context."""
    undecided, never = cast(Any, Undecided()), cast(Any, None)
    return SliceServer(INSTANCE.uuid, directory, lambda _: INSTANCE, never, undecided, never)


def connect(directory: Path) -> socket.socket:
    client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    client.connect(str(directory / server_module.SOCKET_NAME))
    client.setblocking(False)
    return client


def test_of_too_many_silent_connections_the_oldest_go(directory: Path) -> None:
    async def scenario() -> None:
        server = serving(directory)
        server.open(0o600, 0o700)
        clients = [connect(directory) for _ in range(HELD + 3)]
        try:
            for client in clients[:3]:
                await asyncio.wait_for(seqpacket.wait_until_readable(client.fileno()), 60)
                assert client.recv(1) == b""
            for _ in range(100):  # the last one takes the place of the third
                await asyncio.sleep(0)
            assert len(server._serving) == HELD
            for client in clients[3:]:
                with pytest.raises(BlockingIOError):
                    client.recv(1)
        finally:
            for client in clients:
                client.close()
            await server.close(remove_directory=True)

    asyncio.run(scenario())
    assert not directory.exists()


def test_while_all_wait_for_an_answer_no_other_is_let_in(directory: Path) -> None:
    """A client that has sent its request is not dropped in favour of one that has not."""

    async def scenario() -> None:
        server = serving(directory)
        server.open(0o600, 0o700)
        clients = [connect(directory) for _ in range(HELD)]
        try:
            for client in clients:
                client.send(hello_message(MessageType.HELLO_CONTEXT, aperture_base=BASE))
            for _ in range(10_000):
                if len(server._serving) == HELD and not server._silent:
                    break
                await asyncio.sleep(0.001)
            clients += [connect(directory) for _ in range(2)]
            for client in clients[HELD:]:
                await asyncio.wait_for(seqpacket.wait_until_readable(client.fileno()), 60)
                assert client.recv(1) == b""
            assert len(server._serving) == HELD
            for client in clients[:HELD]:
                with pytest.raises(BlockingIOError):
                    client.recv(1)
        finally:
            for client in clients:
                client.close()
            await server.close(remove_directory=True)

    asyncio.run(scenario())


class Answers:
    """Answers NVML; records how many requests it gets at once."""

    def __init__(self) -> None:
        self.requested = self._now = self.most = 0

    async def answer_slice_request(self, *_: object) -> bytes:
        self.requested += 1
        self._now += 1
        self.most = max(self.most, self._now)
        await asyncio.sleep(0.001)
        self._now -= 1
        return bytes(8192)


QUESTION = bytes(
    Header(
        *(messages.MAGIC, messages.PROTOCOL_VERSION, MessageType.MANAGEMENT, 1, 0),
        *(ctypes.sizeof(ManagementRequest), 0),
    )
) + bytes(ManagementRequest(1, messages.PROTOCOL_VERSION, ManagementOperation.REPORT))


class Listed:
    """An admission that reports whether clients belong to the slice's holder."""

    def __init__(self) -> None:
        self.holds = False

    async def is_holder(self, *_: object) -> bool:
        return self.holds


def answering(directory: Path, answers: Answers, listed: Listed) -> SliceServer:
    never = cast(Any, None)
    return SliceServer(
        *(INSTANCE.uuid, directory, lambda _: INSTANCE, lambda *_: DeviceInfo()),
        *(cast(Any, listed), never),
        answers=answers,
    )


@pytest.mark.parametrize(
    "question", [QUESTION, hello_message(MessageType.HELLO_QUERY)], ids=["report", "query"]
)
def test_unread_replies_are_limited(
    directory: Path, monkeypatch: pytest.MonkeyPatch, question: bytes
) -> None:
    """The kernel charges them to gpud, however many sockets a tenant keeps."""
    monkeypatch.setattr(replies, "TIMEOUT_SECONDS", 600.0)

    async def scenario() -> None:
        listed = Listed()
        server = answering(directory, Answers(), listed)
        server.open(0o600, 0o700)
        most = replies.MAX_UNREAD
        clients: list[socket.socket] = []

        async def ask(count: int) -> list[socket.socket]:
            """Return this many clients that have sent a request; only the last may have no reply
            yet.
            """
            asking = [connect(directory) for _ in range(count)]
            clients.extend(asking)
            for client in asking:
                client.send(question)
            for client in asking[:-1]:
                await asyncio.wait_for(seqpacket.wait_until_readable(client.fileno()), 60)
            return asking

        try:
            strangers = await ask(most + 2)
            await asyncio.wait_for(seqpacket.wait_until_readable(strangers[-1].fileno()), 60)
            ends = [client.recv(1, socket.MSG_PEEK) for client in strangers]
            assert ends.count(b"") == 2, "hung up on"
            listed.holds = True
            holders = await ask(most + 1)
            for _ in range(100):
                await asyncio.sleep(0.001)
            waiting = [client for client in holders if not is_answered(client)]
            assert (len(waiting), server._pending) == (1, 1), "the others keep no client out"
            done = next(client for client in holders if client not in waiting)
            assert done.recv(16384)
            assert done.recv(1) == b""
            await asyncio.wait_for(seqpacket.wait_until_readable(waiting[0].fileno()), 60)
            waiting += await ask(1)
            next(client for client in holders if client not in (done, *waiting)).close()
            await asyncio.wait_for(seqpacket.wait_until_readable(waiting[1].fileno()), 60)
            assert waiting[1].recv(16384)
        finally:
            for client in clients:
                client.close()
            await server.close(remove_directory=True)

    asyncio.run(scenario())


def is_answered(client: socket.socket) -> bool:
    try:
        return bool(client.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False


def test_one_slice_has_one_lookup_of_processes_at_a_time(directory: Path) -> None:
    """Slices share the threads of the lookup, which also admit other slices' clients."""
    answers = Answers()

    async def scenario() -> None:
        server = answering(directory, answers, Listed())
        server.open(0o600, 0o700)
        clients = [connect(directory) for _ in range(8)]
        for client in clients:
            client.send(QUESTION)
        for client in clients:
            await asyncio.wait_for(seqpacket.wait_until_readable(client.fileno()), 60)
            client.close()
        await server.close(remove_directory=True)

    asyncio.run(scenario())
    assert (answers.requested, answers.most) == (8, 1)


def test_nothing_of_a_slice_is_left_when_it_is_closed(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the kernel cannot refuse descriptors, a slice has a thread of its own."""
    monkeypatch.setattr(foreign, "refuse_descriptors", lambda _: False)
    before = set(threading.enumerate())

    async def scenario() -> set[threading.Thread]:
        server = serving(directory)
        server.open(0o600, 0o700)
        with connect(directory) as client:
            client.send(b"x")  # no hello: disconnected
            await asyncio.wait_for(seqpacket.wait_until_readable(client.fileno()), 60)
        made = set(threading.enumerate()) - before
        await server.close(remove_directory=True)
        return made

    made = asyncio.run(scenario())
    assert made
    for thread in made:
        thread.join(60)
        assert not thread.is_alive()


def test_its_socket_and_directory_have_the_modes_that_it_is_given(directory: Path) -> None:
    path = directory / server_module.SOCKET_NAME

    def modes() -> list[int]:
        return [entry.stat().st_mode & 0o777 for entry in (directory, path)]

    async def scenario() -> list[int]:
        server = serving(directory)
        server.open(0o666, 0o711)
        found = modes()
        await server.close(remove_directory=False)
        return found

    assert asyncio.run(scenario()) == [0o711, 0o666]
    assert list(directory.iterdir()) == []


def test_a_path_that_no_socket_can_have_is_refused(directory: Path) -> None:
    """sun_path has 108 bytes, the last one a NUL."""
    longest = 107 - len(server_module.SOCKET_NAME) - 1
    too_long = directory / ("x" * (longest - len(str(directory)) - 1 + 1))

    async def scenario() -> None:
        with pytest.raises(ValueError, match="longer than 107 bytes"):
            serving(too_long).open(0o600, 0o700)
        server = serving(too_long.with_name(too_long.name[1:]))
        server.open(0o600, 0o700)
        await server.close(remove_directory=True)

    asyncio.run(scenario())
