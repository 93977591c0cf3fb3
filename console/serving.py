"""Serves the console on loopback until it is interrupted."""

import asyncio
import contextlib
import ctypes
import errno
import gc
import secrets
import socket
import tempfile
import threading
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import uvicorn

from console.connections import Connection
from console.model.cluster import ClusterModel
from console.model.exporters import Exporters
from console.model.watches import Watches
from console.pages.app import Pages, make_app
from gpu_operator.kube.port import Source

_TOKEN_BYTES: Final = 32
_NAME_BYTES: Final = 16
_TRIES: Final = 16  # free ports of 127.0.0.1 that another process may use on ::1
_NO_IPV6: Final = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT)
_SHUTDOWN_S: Final = 1
_AGAIN_S: Final = 5.0
_M_MMAP_THRESHOLD: Final = -3  # <malloc.h>
_M_ARENA_MAX: Final = -8
_MMAP_BYTES: Final = 128 * 1024


class Server(uvicorn.Server):
    """A server that reports when it is ready, and leaves signals to the caller."""

    def __init__(self, app: Any) -> None:
        config = uvicorn.Config(
            app,
            http=Connection,
            log_level="warning",
            access_log=False,
            lifespan="off",
            server_header=False,
            proxy_headers=False,
            ws="none",
            h11_max_incomplete_event_size=32 * 1024,
            timeout_graceful_shutdown=_SHUTDOWN_S,
        )
        super().__init__(config)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no handlers: an interrupt cancels the caller's task."""
        yield


def listen(port: int) -> list[socket.socket]:
    """Return sockets that listen on both addresses of loopback only; 0 chooses a free port.

    Browsers resolve names below ``localhost`` to both addresses. If another process had the port on
    one of them, it would receive the token.

    Raises:
        OSError: the port is in use on one of the addresses.
    """
    for attempt in range(_TRIES):
        first = _bind(socket.AF_INET, "127.0.0.1", port)
        try:
            second = _bind(socket.AF_INET6, "::1", first.getsockname()[1])
        except OSError as err:
            if err.errno in _NO_IPV6:
                return [first]
            first.close()
            if port or err.errno != errno.EADDRINUSE or attempt == _TRIES - 1:
                raise
        else:
            return [first, second]
    raise AssertionError("unreachable")


def _bind(family: socket.AddressFamily, address: str, port: int) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener


def return_large_blocks() -> None:
    """Have malloc return freed blocks of 128 KiB and more to the system (mallopt(3)).

    By default glibc raises this limit to the largest block that was freed, so the lists of a large
    cluster, which are read once, would leave holes. All threads share one arena: each of several
    would keep holes of its own. Other C libraries have no such limit.
    """
    with contextlib.suppress(AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_THRESHOLD, _MMAP_BYTES)
        libc.mallopt(_M_ARENA_MAX, 1)


def trim_memory() -> None:
    """Return free pages of the heap to the system (malloc_trim(3)), if the C library can."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def new_token() -> str:
    """Return a new secret for the URL."""
    return secrets.token_urlsafe(_TOKEN_BYTES)


def new_host() -> str:
    """Return a new name that browsers resolve to loopback and that only this console has."""
    return f"tessera-{secrets.token_hex(_NAME_BYTES)}.localhost"


async def serve(
    source: Source,
    listeners: Sequence[socket.socket],
    cluster: str,
    token: str,
    *,
    namespace: str = "",
    exporters: Exporters | None = None,
    any_port: bool = False,
    on_ready: Callable[[str], None] = lambda url: None,
) -> None:
    """Follow the cluster and serve its pages until this task is cancelled.

    With ``any_port`` the Host header may name any port, as it does behind
    `kubectl port-forward`. ``on_ready`` receives the URL.
    """
    port, host = listeners[0].getsockname()[1], new_host()
    model = ClusterModel()
    pages = Pages(model, cluster, exporters)
    server = Server(make_app(pages, token, host, None if any_port else port))
    watches = asyncio.create_task(Watches(source, model, namespace).run())
    serving = asyncio.create_task(server.serve(sockets=list(listeners)))
    on_ready(f"http://{host}:{port}/?token={token}")
    warming = asyncio.create_task(_warm_up(model, pages))
    try:
        ended_tasks, _ = await asyncio.wait({watches, serving}, return_when=asyncio.FIRST_COMPLETED)
        for task in ended_tasks:
            task.result()
    finally:
        pages.is_over = True
        model.note("Connection")  # wakes the streams, which then end
        server.should_exit = True
        await asyncio.wait({serving}, timeout=2 * _SHUTDOWN_S)
        for task in (watches, serving, warming):
            task.cancel()
        await asyncio.gather(watches, serving, warming, return_exceptions=True)


async def _warm_up(model: ClusterModel, pages: Pages) -> None:
    """Render the maps of the fleet once the first lists are complete."""
    while not model.connection.is_complete:
        await model.wait(model.version, _AGAIN_S)
    await pages.warm_up()
    gc.collect()
    trim_memory()
    gc.freeze()  # collections over a large model would block the loop for a second


@contextlib.contextmanager
def browser_page(url: str) -> Iterator[None]:
    """Open the URL in the user's browser.

    The browser's command line is visible to other users of the machine, so it names a private file
    that leads to the URL, and not the URL with its token. Some browsers run until the user closes
    them, so a thread starts the browser.
    """
    with tempfile.TemporaryDirectory(prefix="tessera-console-") as folder:
        page = Path(folder) / "open.html"
        page.touch(mode=0o600)
        page.write_text(
            '<!doctype html><meta charset="utf-8"><title>Tessera</title>'
            f'<meta http-equiv="refresh" content="0;url={url}">',
            encoding="utf-8",
        )
        threading.Thread(target=webbrowser.open, args=(page.as_uri(),), daemon=True).start()
        yield
