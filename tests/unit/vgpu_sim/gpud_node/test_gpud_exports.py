"""gpud passes hcad's requests for device memory to the workers of the named program."""

import asyncio
import contextlib
import errno
import json
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from vgpu_sim.gpud.contexts import exports as module
from vgpu_sim.gpud.contexts.exports import Exports, HcaOptions
from vgpu_sim.gpud.contexts.index import Context
from vgpu_sim.hal import direct
from vgpu_sim.hal.direct import ExportRequest
from vgpu_sim.system import seqpacket
from vgpu_sim.system.peers import Peer

TOKEN = bytes(range(16))
PROGRAM = 70


class Worker:
    """A context of a program, and its worker's end of the channel."""

    def __init__(self, pid: int = PROGRAM, *, fenced: bool = False, connected: bool = True) -> None:
        self.channel, self.end = seqpacket.pair()
        self.channel.setblocking(False)  # non-blocking, like gpud's ends of workers' channels
        self.context = cast(
            "Context",
            SimpleNamespace(
                client=Peer(pid, 1000), fenced=fenced, channel=self.channel if connected else None
            ),
        )

    def receive_message(self) -> tuple[dict[str, Any], list[int]] | None:
        """Receive a message and its descriptors, or return None."""
        self.end.setblocking(False)
        try:
            data, descriptors, _, _ = socket.recv_fds(self.end, 4096, 4)
        except BlockingIOError:
            return None
        return json.loads(data), descriptors

    def close(self) -> None:
        """Close both ends."""
        self.channel.close()
        self.end.close()


@pytest.fixture
def workers() -> Iterator[list[Worker]]:
    made: list[Worker] = []
    yield made
    for one in made:
        one.close()


class Hcad:
    """Listens as hcad does."""

    def __init__(self, path: Path) -> None:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(path))
        self._listener.listen()
        self._listener.setblocking(False)
        self._link: socket.socket | None = None

    async def accept(self) -> bytes:
        """Wait for gpud; return its first message."""
        if self._link is not None:
            self._link.close()
        loop = asyncio.get_running_loop()
        self._link, _ = await loop.sock_accept(self._listener)
        self._link.setblocking(False)
        return await loop.sock_recv(self._link, 4096)

    async def send(self, data: bytes) -> None:
        """Send arbitrary data."""
        assert self._link is not None
        await asyncio.get_running_loop().sock_sendall(self._link, data)

    async def receive(self) -> bytes:
        """Return gpud's next message, empty if it has disconnected."""
        assert self._link is not None
        return await asyncio.get_running_loop().sock_recv(self._link, 4096)

    async def ask(self, request: ExportRequest) -> tuple[int, int, list[int]]:
        """Send a request; return the answer's number, status and descriptors."""
        await self.send(request.encode())
        assert self._link is not None
        await seqpacket.wait_until_readable(self._link.fileno())
        data, descriptors, _, _ = socket.recv_fds(self._link, 4096, 4)
        return (*direct.decode_answer(data), descriptors)

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()
        if self._link is not None:
            self._link.close()


def request(pid: int = PROGRAM, skip: int = 0, **more: Any) -> ExportRequest:
    return ExportRequest(
        **{"request": 5, "address": 0x1000, "size": 64, **more}, pid=pid, skip=skip
    )


Scenario = Callable[[Hcad], Awaitable[None]]


@pytest.fixture
def serve(
    tmp_path: Path, workers: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> Callable[[Scenario], None]:
    """Run a scenario concurrently with the exports of ``workers``."""
    monkeypatch.setattr(module, "LOOK_AGAIN_SECONDS", 0)

    def run(scenario: Scenario, user: int | None = None) -> None:
        async def both() -> None:
            path = tmp_path / direct.SOCKET_NAME
            exports = Exports(HcaOptions(path, user, token=TOKEN), [one.context for one in workers])
            hcad = Hcad(path)
            exports.open()
            try:
                async with asyncio.timeout(20):
                    await scenario(hcad)
            finally:
                await exports.close()
                hcad.close()

        asyncio.run(both())

    return run


def test_the_first_message_to_hcad_names_the_owner_of_the_memory(serve) -> None:
    async def scenario(hcad: Hcad) -> None:
        assert await hcad.accept() == TOKEN

    serve(scenario)


def test_one_end_goes_to_the_worker_and_the_other_to_hcad(serve, workers: list[Worker]) -> None:
    workers.append(Worker())

    async def scenario(hcad: Hcad) -> None:
        await hcad.accept()
        named = bytes(range(direct.RANGE_BYTES))
        requested = request(request=9, address=0x2000, size=128, range=named)
        number, status, mine = await hcad.ask(requested)
        assert (number, status, len(mine)) == (9, 0, 1)
        came = workers[0].receive_message()
        assert came is not None
        message, its = came
        assert message == {
            "type": "export",
            "address": 0x2000,
            "bytes": 128,
            "range": named.hex(),
        }
        assert len(its) == 1
        with socket.socket(fileno=mine[0]) as one, socket.socket(fileno=its[0]) as other:
            other.send(b"the worker's answer")
            assert one.recv(64) == b"the worker's answer"
            other.close()
            assert one.recv(64) == b""  # no third process keeps the worker's end

    serve(scenario)


@pytest.mark.parametrize(
    ("skip", "chosen"), [(0, 1), (1, 4), (2, None), (direct.MOST_PASSED_OVER, None)]
)
def test_only_contexts_of_the_program_that_can_answer_are_passed_over(
    serve, workers: list[Worker], skip: int, chosen: int | None
) -> None:
    workers += [
        Worker(PROGRAM + 1),
        Worker(),
        Worker(fenced=True),
        Worker(connected=False),
        Worker(),
        Worker(0),
    ]

    async def scenario(hcad: Hcad) -> None:
        await hcad.accept()
        _, status, mine = await hcad.ask(request(skip=skip))
        assert (status, len(mine)) == ((errno.ESRCH, 0) if chosen is None else (0, 1))
        for place, worker in enumerate(workers):
            came = worker.receive_message()
            assert (came is not None) == (place == chosen), place
            for descriptor in mine if came is not None else ():
                os.close(descriptor)
            for descriptor in came[1] if came is not None else ():
                os.close(descriptor)

    serve(scenario)


def test_a_program_that_gpud_cannot_see_is_none(serve, workers: list[Worker]) -> None:
    """All processes of PID namespaces that gpud cannot see have the pid 0."""
    workers.append(Worker(0))

    async def scenario(hcad: Hcad) -> None:
        await hcad.accept()
        assert await hcad.ask(request(pid=0)) == (5, errno.ESRCH, [])
        assert workers[0].receive_message() is None

    serve(scenario)


@pytest.mark.parametrize("trouble", ["it does not read", "it has ended"])
def test_a_worker_that_cannot_take_it_costs_an_answer_and_the_next_is_served(
    serve, workers: list[Worker], trouble: str
) -> None:
    workers += [Worker(), Worker()]
    if trouble == "it has ended":
        workers[0].end.close()
    else:
        with contextlib.suppress(BlockingIOError):
            while workers[0].channel.send(b"x" * 1024):
                pass

    async def scenario(hcad: Hcad) -> None:
        await hcad.accept()
        assert await hcad.ask(request()) == (5, errno.ESRCH, [])
        number, status, mine = await hcad.ask(request(request=6, skip=1))
        assert (number, status, len(mine)) == (6, 0, 1)
        os.close(mine[0])

    serve(scenario)


@pytest.mark.parametrize(
    "nonsense",
    [
        b"{",
        b"[" * direct.MAX_MESSAGE_BYTES,
        request().encode().replace(b"export", b"import"),
        request(skip=direct.MOST_PASSED_OVER + 1).encode(),
        request(size=0).encode(),
        request(address=(1 << 64) - 63).encode(),
        request().encode().ljust(direct.MAX_MESSAGE_BYTES + 1),
    ],
    ids=["no JSON", "deep", "another", "skip", "empty", "beyond", "long"],
)
def test_what_hcad_does_not_send_ends_the_connection_and_the_next_one_works(
    serve, workers: list[Worker], nonsense: bytes
) -> None:
    workers.append(Worker())

    async def scenario(hcad: Hcad) -> None:
        await hcad.accept()
        await hcad.send(nonsense)
        assert await hcad.receive() == b""
        assert workers[0].receive_message() is None
        assert await hcad.accept() == TOKEN
        _, status, mine = await hcad.ask(request())
        assert (status, len(mine)) == (0, 1)
        os.close(mine[0])

    serve(scenario)


@pytest.mark.parametrize(
    "good",
    [
        request(skip=direct.MOST_PASSED_OVER),
        request(address=(1 << 64) - 64),
        request(size=1),
    ],
    ids=["skip", "end", "one byte"],
)
def test_requests_at_their_limits_are_answered(serve, good: ExportRequest) -> None:
    async def scenario(hcad: Hcad) -> None:
        await hcad.accept()
        await hcad.send(good.encode().ljust(direct.MAX_MESSAGE_BYTES))
        assert direct.decode_answer(await hcad.receive()) == (5, errno.ESRCH)

    serve(scenario)


@pytest.mark.parametrize(
    ("user", "listener", "trusted"),
    [
        (None, 0, True),
        (None, 400, True),  # gpud's own
        (None, 500, False),
        (500, 500, True),
        (500, 501, False),
        (500, 0, True),
        (500, 400, True),
    ],
)
def test_only_users_that_may_be_hcad_are_given_the_token(
    serve, monkeypatch: pytest.MonkeyPatch, user: int | None, listener: int, trusted: bool
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 400)
    monkeypatch.setattr(module, "peer_of", lambda _: Peer(1, listener))

    async def scenario(hcad: Hcad) -> None:
        assert await hcad.accept() == (TOKEN if trusted else b"")

    serve(scenario, user)


def test_hcad_that_was_not_there_is_found_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_AGAIN_SECONDS", 0)

    async def scenario() -> None:
        path = tmp_path / direct.SOCKET_NAME
        exports = Exports(HcaOptions(path, None, token=TOKEN), [])
        await exports.close()  # does nothing: it was not started
        exports.open()
        for _ in range(5):
            await asyncio.sleep(0)
        hcad = Hcad(path)
        async with asyncio.timeout(20):
            assert await hcad.accept() == TOKEN
            await exports.close()
            assert await hcad.receive() == b""
        hcad.close()

    asyncio.run(scenario())
