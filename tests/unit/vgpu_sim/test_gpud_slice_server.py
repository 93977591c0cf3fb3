"""A slice's socket: how many connections that say nothing it holds, and which it gives up."""

import asyncio
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import a30_slice
import pytest

from vgpu_sim.cli.clients.slices import hello_message
from vgpu_sim.gpud.model import Owner
from vgpu_sim.gpud.slices import server as server_module
from vgpu_sim.gpud.slices.server import SliceServer
from vgpu_sim.hal.address_map import APERTURE_BASES
from vgpu_sim.hal.messages import MessageType
from vgpu_sim.system import foreign, seqpacket

INSTANCE = a30_slice.make()
BASE = APERTURE_BASES[0]
HELD = 64  # as many as contexts: descriptors of gpud that strangers may use up


@pytest.fixture
def directory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Of a short name, since sockets' paths are bounded. Nobody is hung up on for being silent."""
    foreign.prepare_waking()
    monkeypatch.setattr(server_module, "HELLO_TIMEOUT_SECONDS", 600.0)
    with tempfile.TemporaryDirectory(prefix="s-", dir="/tmp") as name:
        yield Path(name) / "slice"


class Undecided:
    """Whether a client may have a context: that takes its time."""

    async def authorize(self, *_: object) -> Owner:
        await asyncio.Event().wait()
        raise AssertionError("nobody decides")


def serving(directory: Path) -> SliceServer:
    """A server that nobody gets a context from."""
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
                await asyncio.wait_for(seqpacket.readable(client.fileno()), 60)
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
    """Who has said what it wants is not given up for somebody who has not."""

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
                await asyncio.wait_for(seqpacket.readable(client.fileno()), 60)
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


def test_nothing_of_a_slice_is_left_when_it_is_closed(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the kernel lets nobody refuse descriptors a slice has a thread of its own."""
    monkeypatch.setattr(foreign, "refuse_descriptors", lambda _: False)
    before = set(threading.enumerate())

    async def scenario() -> set[threading.Thread]:
        server = serving(directory)
        server.open(0o600, 0o700)
        with connect(directory) as client:
            client.send(b"x")  # no hello: hung up on
            await asyncio.wait_for(seqpacket.readable(client.fileno()), 60)
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
