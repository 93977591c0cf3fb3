"""An HTTP server for probes and metrics, for few short connections from the cluster."""

import http.server
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from vgpu_sim.records import dataclass

MAX_CONNECTIONS = 64
_TIMEOUT_S = 5


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a GET request."""

    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"


def text(status: int, words: str) -> Answer:
    """Return an answer in plain text."""
    return Answer(status, words.encode())


def exposition(metrics: Collector, accept: str) -> Answer:
    """Return metrics in the format that the Accept header requests: Prometheus's or OpenMetrics."""
    try:
        encode, content_type = choose_encoder(accept)
    except ValueError:  # the version is invalid
        encode, content_type = choose_encoder("")
    # The library's encoder uses only ``collect`` of a registry.
    return Answer(200, encode(metrics), content_type)  # type: ignore[arg-type,unused-ignore]


class _Server(http.server.ThreadingHTTPServer):
    """An HTTP server with one thread for each connection.

    Beyond a limit, a new connection closes the oldest one. Every pod of the cluster can connect,
    and an idle connection must not block others.
    """

    request_queue_size = 128

    def __init__(self, port: int, handler: type[http.server.BaseHTTPRequestHandler]) -> None:
        self._open: dict[socket.socket, None] = {}
        self._lock = threading.Lock()
        super().__init__(("", port), handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open[request] = None
            if len(self._open) > MAX_CONNECTIONS:
                with suppress(OSError):
                    next(iter(self._open)).shutdown(socket.SHUT_RDWR)
                del self._open[next(iter(self._open))]
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a broken connection."""


def server(port: int, answer: Callable[[str, str], Answer]) -> http.server.ThreadingHTTPServer:
    """Return a server bound to ``port`` (0: any) on all addresses.

    ``answer`` is called, on any thread, with a GET request's path (without the query) and its
    Accept header.

    Raises:
        OSError: the port is taken.
    """

    class Handler(http.server.BaseHTTPRequestHandler):
        timeout = _TIMEOUT_S

        def do_GET(self) -> None:
            response = answer(self.path.partition("?")[0], self.headers.get("Accept", ""))
            self.send_response(response.status)
            self.send_header("Content-Type", response.content_type)
            self.send_header("Content-Length", str(len(response.body)))
            self.end_headers()
            self.wfile.write(response.body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    return _Server(port, Handler)
