"""Messages are answered in order, and no message is received without an answer."""

import asyncio
import socket
from collections.abc import Callable, Coroutine

import pytest

from hca.daemon.programs.exchange import Exchange, Rest
from vgpu_sim.system import seqpacket
from vgpu_sim.system.seqpacket import Packet

LIMIT = 64


def play(
    act: Callable[[socket.socket, socket.socket, asyncio.Event], Coroutine[None, None, None]],
) -> None:
    async def whole() -> None:
        ours, theirs = seqpacket.pair()
        for one in (ours, theirs):
            one.setblocking(False)
        serving = asyncio.Event()
        serving.set()
        with ours, theirs:
            async with asyncio.timeout(60):
                await act(ours, theirs, serving)

    asyncio.run(whole())


async def receive(sock: socket.socket) -> bytes:
    return await asyncio.get_running_loop().sock_recv(sock, LIMIT)


def test_what_comes_is_answered_until_the_other_side_hangs_up() -> None:
    async def act(ours: socket.socket, theirs: socket.socket, serving: asyncio.Event) -> None:
        def respond(packet: Packet) -> None:
            ours.send(packet.data.upper())

        running = asyncio.create_task(Exchange(ours, LIMIT, respond, serving).run())
        for word in (b"one", b"two"):
            theirs.send(word)
        assert [await receive(theirs), await receive(theirs)] == [b"ONE", b"TWO"]
        theirs.shutdown(socket.SHUT_WR)
        await running

    play(act)


def test_what_takes_longer_is_waited_for_before_the_next() -> None:
    async def act(ours: socket.socket, theirs: socket.socket, serving: asyncio.Event) -> None:
        ready = asyncio.Event()

        def respond(packet: Packet) -> Rest | None:
            async def later() -> None:
                await ready.wait()
                ours.send(b"late")

            if packet.data == b"slow":
                return later
            ours.send(b"quick")
            return None

        running = asyncio.create_task(Exchange(ours, LIMIT, respond, serving).run())
        theirs.send(b"slow")
        theirs.send(b"next")
        for _ in range(10):
            await asyncio.sleep(0)
        with pytest.raises(BlockingIOError):
            theirs.recv(LIMIT)
        ready.set()
        assert [await receive(theirs), await receive(theirs)] == [b"late", b"quick"]
        theirs.shutdown(socket.SHUT_WR)
        await running

    play(act)


def test_without_a_server_a_message_stays_in_the_socket() -> None:
    """A successor of hcad receives it from the socket."""

    async def act(ours: socket.socket, theirs: socket.socket, serving: asyncio.Event) -> None:
        exchange = Exchange(ours, LIMIT, lambda packet: None, serving)
        running = asyncio.create_task(exchange.run())
        await asyncio.sleep(0)
        serving.clear()
        theirs.send(b"for the next reader")
        for _ in range(10):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert ours.recv(LIMIT) == b"for the next reader"

    play(act)


def test_what_an_answer_raises_ends_the_exchange() -> None:
    async def act(ours: socket.socket, theirs: socket.socket, serving: asyncio.Event) -> None:
        def respond(packet: Packet) -> None:
            raise ValueError("no message")

        theirs.send(b"x")
        with pytest.raises(ValueError, match="no message"):
            await Exchange(ours, LIMIT, respond, serving).run()

    play(act)
