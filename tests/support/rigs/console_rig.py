"""A console of a synthetic cluster, and requests to its application without a socket."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.console.synthetic import SyntheticCluster
from console.model.cluster import ClusterModel
from console.model.watches import Watches
from console.pages.app import Pages, make_app

TOKEN = "secret-of-this-test"
PORT = 8123
HOST = "tessera-of-this-test.localhost"


@dataclass
class Answer:
    """The response to a request."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def text(self) -> str:
        return self.body.decode()


@dataclass
class Console:
    """An application and the cluster that it shows."""

    cluster: SyntheticCluster
    model: ClusterModel
    app: Callable[..., Any]
    pages: Pages

    async def request(
        self,
        path: str,
        *,
        method: str = "GET",
        query: str = "",
        body: bytes = b"",
        cookie: str | None = TOKEN,
        header_cookie: str = "",
        host: str | None = f"{HOST}:{PORT}",
        **headers: str,
    ) -> Answer:
        """Send one request to the application."""
        sent = [
            (name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()
        ]
        if host is not None:
            sent.append((b"host", host.encode()))
        if cookie is not None:
            sent.append((b"cookie", f"tessera-console={cookie}".encode()))
        if header_cookie:
            sent.append((b"cookie", header_cookie.encode()))
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "scheme": "http",
            "headers": sent,
            "server": ("127.0.0.1", PORT),
            "client": ("127.0.0.1", 4000),
        }
        answer = Answer()
        parts = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive() -> dict[str, Any]:
            return next(parts, {"type": "http.disconnect"})

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                answer.headers = {k.decode(): v.decode() for k, v in message["headers"]}
            else:
                answer.body += message.get("body", b"")

        await self.app(scope, receive, send)
        return answer

    async def settle(self) -> None:
        """Let the watches deliver everything that the cluster has reported."""
        for _ in range(20):
            await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def open_console(cluster: SyntheticCluster, namespace: str = "") -> AsyncIterator[Console]:
    """Follow a cluster until its first lists are complete."""
    model = ClusterModel()
    pages = Pages(model, "test cluster")
    watching = asyncio.create_task(Watches(cluster, model, namespace, retry_s=0.01).run())
    try:
        async with asyncio.timeout(20):
            while True:
                if model.connection.is_complete:
                    break
                await asyncio.sleep(0.001)
        yield Console(cluster, model, make_app(pages, TOKEN, HOST, PORT), pages)
    finally:
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
