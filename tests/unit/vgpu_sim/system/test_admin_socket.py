"""The administration socket: lines in, lines out, in order; malformed lines get an error."""

import asyncio
import contextlib
import json
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from vgpu_sim.system.admin_socket import server as server_module
from vgpu_sim.system.admin_socket.errors import NotFound
from vgpu_sim.system.admin_socket.events import EventBus
from vgpu_sim.system.admin_socket.server import AdminServer

Ask = Callable[[bytes], Awaitable[Any]]


@pytest.fixture
def path() -> Iterator[Path]:
    """A socket path with a short name: sockets' paths are limited."""
    with tempfile.TemporaryDirectory(prefix="a-", dir="/tmp") as name:
        yield Path(name) / "gpud.sock"


async def _echo(params: dict[str, Any]) -> dict[str, Any]:
    return {"given": params}


async def _refuse(_: dict[str, Any]) -> dict[str, Any]:
    raise NotFound("no such slice")


async def _defect(_: dict[str, Any]) -> dict[str, Any]:
    raise ZeroDivisionError("a defect")


OPERATIONS = {"echo": _echo, "refuse": _refuse, "defect": _defect}


def serving(path: Path, act: Callable[[Ask, EventBus], Awaitable[Any]]) -> Any:
    """Serve, and run ``act`` with a connection's request function and the event bus."""

    async def scenario() -> Any:
        events = EventBus()
        server = AdminServer(OPERATIONS, events)
        await server.open(path)
        reader, writer = await asyncio.open_unix_connection(str(path), limit=2 << 20)

        async def ask(line: bytes) -> Any:
            writer.write(line)
            answer = await asyncio.wait_for(reader.readline(), 60)
            return json.loads(answer) if answer else None

        try:
            return await act(ask, events)
        finally:
            await hang_up(writer)
            await server.close()
            await asyncio.sleep(0)  # transports close in the loop's next iteration

    return asyncio.run(scenario())


async def hang_up(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def request(number: object, method: object, **more: object) -> bytes:
    return json.dumps({"id": number, "method": method, **more}).encode() + b"\n"


def test_requests_are_answered_in_order_by_their_number(path: Path) -> None:
    async def act(ask: Ask, _: EventBus) -> list[Any]:
        both = request(1, "echo", params={"a": 1}) + request("two", "echo")
        return [await ask(both), await ask(b""), await ask(request(3, "refuse"))]

    assert serving(path, act) == [
        {"id": 1, "result": {"given": {"a": 1}}},
        {"id": "two", "result": {"given": {}}},
        {"id": 3, "error": {"code": "not_found", "message": "no such slice"}},
    ]
    assert not path.exists()


@pytest.mark.parametrize(
    ("line", "number", "words"),
    [
        (b"garbage\n", None, "not a line of JSON"),
        (b"\xff\n", None, "not a line of JSON"),
        (b"[" * 100_000 + b"\n", None, "not a line of JSON"),
        (b"[]\n", None, "a request must be an object"),
        (b"null\n", None, "a request must be an object"),
        (b"{}\n", None, "id must be a number or a string"),
        (request({}, "echo"), None, "id must be a number or a string"),
        (request(1, "echo", more=1), None, "a request must be {id, method, params}"),
        (request(1, 2), None, "a request must be {id, method, params}"),
        (request(1, "echo", params=[]), None, "a request must be {id, method, params}"),
        (request(7, "nothing"), 7, "known: defect, echo, refuse, subscribe"),
    ],
)
def test_what_is_malformed_is_answered_and_the_next_is_served(
    path: Path, line: bytes, number: object, words: str
) -> None:
    async def act(ask: Ask, _: EventBus) -> tuple[Any, Any]:
        return await ask(line), await ask(request(2, "echo"))

    refused, served = serving(path, act)
    assert refused["error"]["code"] == "invalid"
    assert words in refused["error"]["message"]
    assert refused["id"] in (number, None)
    assert served == {"id": 2, "result": {"given": {}}}


def test_only_its_own_user_may_connect(path: Path) -> None:
    modes: list[int] = []

    def look() -> None:
        modes.append(path.stat().st_mode & 0o777)

    async def act(ask: Ask, _: EventBus) -> None:
        look()

    serving(path, act)
    assert modes == [0o600]


def test_a_defect_costs_one_request(path: Path) -> None:
    async def act(ask: Ask, _: EventBus) -> tuple[Any, Any]:
        return await ask(request(1, "defect")), await ask(request(2, "echo"))

    failed, served = serving(path, act)
    assert failed["error"] == {"code": "internal", "message": "internal error: a defect"}
    assert "result" in served


@pytest.mark.parametrize(
    ("size", "served"), [(server_module.MAX_LINE_BYTES - 100, True), ((1 << 20) + 1, False)]
)
def test_an_endless_line_ends_the_connection(path: Path, size: int, served: bool) -> None:
    async def act(ask: Ask, _: EventBus) -> tuple[Any, Any]:
        line = request(1, "echo", params={"x": "x" * (size - 60)}) if served else b"x" * size
        first = await ask(line)
        return first, await ask(b"" if not served else request(2, "echo"))

    first, second = serving(path, act)
    assert ("result" in first) is served
    assert (second is not None) is served


def test_a_subscriber_gets_each_event_once(path: Path) -> None:
    async def act(ask: Ask, events: EventBus) -> list[Any]:
        answers = [await ask(request(n, "subscribe")) for n in (1, 2)]
        events.emit("fenced", pid=7)
        events.emit("context_ended", pid=8)
        return [*answers, await ask(b""), await ask(b"")]

    first, again, *received = serving(path, act)
    assert (first, again) == ({"id": 1, "result": {}}, {"id": 2, "result": {}})
    assert [(event["event"], event["pid"]) for event in received] == [
        ("fenced", 7),
        ("context_ended", 8),
    ]


def test_another_user_and_one_too_many_are_hung_up_on(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(ask: Ask, _: EventBus) -> list[Any]:
        assert "result" in await ask(request(1, "echo"))
        more = [await asyncio.open_unix_connection(str(path)) for _ in range(32)]
        answers = []
        for number, (reader, writer) in enumerate(more):
            writer.write(request(number, "echo"))
            try:
                answers.append(await asyncio.wait_for(reader.readline(), 60))
            except ConnectionError:
                answers.append(b"")
        for _, writer in more:
            await hang_up(writer)
        return answers

    answers = serving(path, act)
    assert [bool(answer) for answer in answers] == [True] * 31 + [False], "32 at a time"
    monkeypatch.setattr(server_module.os, "geteuid", lambda: 65432)

    async def stranger(ask: Ask, _: EventBus) -> Any:
        try:
            return await ask(request(1, "echo"))
        except ConnectionError:
            return None

    assert serving(path, stranger) is None
