"""The agent's probes: ``/healthz`` (the loop turns) and ``/readyz`` (it gets somewhere)."""

import http.server
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from device_plugin.agent.loop import Pulse

STALE_AFTER_S = 120.0
MAX_CONNECTIONS = 64


def judge(path: str, pulse: Pulse, now: float) -> tuple[int, str]:
    """Return the HTTP status and text for a probe.

    A loop that cannot reach gpud or the API server is alive: a restart would not help it.
    """
    match path:
        case "/healthz" | "/livez":
            moment, what = pulse.began, "begun"
        case "/readyz":
            moment, what = pulse.succeeded, "succeeded"
        case _:
            return 404, "probes: /healthz, /readyz\n"
    if moment is None:
        return 503, f"no pass has {what} yet\n"
    age_s = now - moment
    if age_s > STALE_AFTER_S:
        return 503, f"no pass has {what} for {age_s:.0f} s\n"
    return 200, "ok\n"


class _Server(http.server.ThreadingHTTPServer):
    """A thread for each connection, of which there are few: the oldest makes way for a new one.

    Every pod of the cluster can connect, and one that says nothing must keep nobody out.
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
        """A connection that breaks off is nobody's concern."""


def server(
    port: int, pulse: Pulse, clock: Callable[[], float] = time.monotonic
) -> http.server.ThreadingHTTPServer:
    """Return a server for the probes, bound to ``port`` (0: any) on all addresses.

    Raises:
        OSError: the port is taken.
    """

    class Handler(http.server.BaseHTTPRequestHandler):
        timeout = 5

        def do_GET(self) -> None:
            status, text = judge(self.path, pulse, clock())
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    return _Server(port, Handler)
