"""An HTTP server on the loopback interface with a test's answers: a stand-in for the API server."""

import http.server
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True, slots=True)
class Request:
    """One received request; ``body`` is its decoded JSON."""

    method: str
    path: str
    query: dict[str, str]
    content_type: str
    body: Any


@dataclass(frozen=True, slots=True)
class Answer:
    """A status with a JSON document, or with a text of another type; ``location`` redirects."""

    status: int = 200
    document: Any = None
    text: str = ""
    location: str = ""


class HttpStub:
    """Answers each request with ``answer``; ``requests`` are all requests received, in order."""

    def __init__(self, answer: Callable[[Request], Answer]) -> None:
        self.requests: list[Request] = []
        self._answer = answer
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._serving = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Self:
        self._serving.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._serving.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        stub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # one segment per answer: two would wait for the acknowledgement

            def handle_any(self) -> None:
                url = urlsplit(self.path)
                text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                request = Request(
                    self.command,
                    url.path,
                    dict(parse_qsl(url.query)),
                    self.headers.get("Content-Type", ""),
                    json.loads(text) if text else None,
                )
                stub.requests.append(request)
                answer = stub._answer(request)
                body = answer.text or json.dumps(answer.document)
                self.send_response(answer.status)
                kind = "text/plain" if answer.text else "application/json"
                self.send_header("Content-Type", kind)
                if answer.location:
                    self.send_header("Location", answer.location)
                self.send_header("Content-Length", str(len(body.encode())))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            setattr(Handler, f"do_{method}", Handler.handle_any)
        return Handler
