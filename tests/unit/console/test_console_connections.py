"""Connections that send no request do not keep others from the console."""

import asyncio
import contextlib
import subprocess
import sys
import threading
import webbrowser
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from console import connections, serving


async def answer_ok(scope: Any, receive: Any, send: Any) -> None:
    headers = [(b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"ok"})


@contextlib.asynccontextmanager
async def open_server() -> AsyncIterator[int]:
    listeners = serving.listen(0)
    server = serving.Server(answer_ok)
    running = asyncio.create_task(server.serve(sockets=listeners))
    try:
        yield listeners[0].getsockname()[1]
    finally:
        server.should_exit = True
        await running


async def fetch_status(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    text = await asyncio.wait_for(reader.read(), 5)
    writer.close()
    return text[:12]


def test_many_connections_without_a_request_do_not_exclude_a_browser() -> None:
    async def use() -> None:
        async with open_server() as port:
            idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(300)]
            assert await fetch_status(port) == b"HTTP/1.1 200"
            ended = [reader for reader, _ in idle if reader.at_eof() or reader.exception()]
            assert len(ended) >= 300 - connections.MOST_WAITING
            for _, writer in idle:
                writer.close()

    asyncio.run(use())


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: a\r\n"])
def test_a_connection_without_a_whole_request_is_closed(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 0.1)

    async def use() -> None:
        async with open_server() as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            with contextlib.suppress(ConnectionResetError):
                assert await asyncio.wait_for(reader.read(), 5) == b""
            writer.close()
            assert await fetch_status(port) == b"HTTP/1.1 200"

    asyncio.run(use())


def test_a_browser_that_does_not_return_does_not_block(monkeypatch: pytest.MonkeyPatch) -> None:
    opened, closed = threading.Event(), threading.Event()
    text = ""

    def browse(url: str) -> bool:
        nonlocal text
        text = Path(unquote(urlsplit(url).path)).read_text()
        opened.set()
        return closed.wait(20)

    monkeypatch.setattr(webbrowser, "open", browse)
    with serving.browser_page("http://a.localhost:1/?token=t"):
        assert opened.wait(10)
        assert not closed.is_set()
    closed.set()
    assert "url=http://a.localhost:1/?token=t" in text


def test_a_port_that_another_process_has_on_one_address_is_refused() -> None:
    first, *others = serving.listen(0)
    port = first.getsockname()[1]
    if not others:
        pytest.skip("this machine has no IPv6 loopback address")
    first.close()
    with pytest.raises(OSError, match="in use"):  # ::1 is still in use
        serving.listen(port)
    others[0].close()


_FREED_BLOCKS = """
import ctypes
from console.serving import return_large_blocks

libc = ctypes.CDLL(None)
libc.malloc.argtypes, libc.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
return_large_blocks()
libc.free(libc.malloc(4 << 20))  # glibc would now serve 4 MiB from its heap
address = libc.malloc(1 << 20)
areas = [line.split() for line in open("/proc/self/maps")]
bounds = [(*(int(end, 16) for end in area[0].split("-")), area[-1]) for area in areas]
print(*(name for low, high, name in bounds if low <= address < high))
"""


def test_large_blocks_do_not_stay_in_the_heap() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _FREED_BLOCKS], capture_output=True, text=True, check=True
    )
    assert "[heap]" not in ran.stdout
    assert ran.stdout.strip()
