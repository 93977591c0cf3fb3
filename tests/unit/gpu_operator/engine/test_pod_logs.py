"""Logs of containers over HTTP: the request, the account's token, and refusals."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from gpu_operator import errors
from gpu_operator.kube import connection
from gpu_operator.kube.logs import PodLogs


def read(tmp_path: Path, pod: str, **options: Any) -> tuple[str, list[Any]]:
    requests: list[Any] = []

    async def answer(request: web.Request) -> web.Response:
        requests.append((request.path, dict(request.query), request.headers.get("Authorization")))
        if pod == "gone":
            document = {"kind": "Status", "message": "pods gone not found"}
            return web.json_response(document, status=404)
        return web.Response(body=b"a line\n\xff")

    async def run() -> str:
        application = web.Application()
        application.router.add_get("/{path:.*}", answer)
        runner = web.AppRunner(application)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        parts = {
            "current-context": "m",
            "contexts": [{"name": "m", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
            "users": [{"name": "u", "user": {"token": "abc"}}],
        }
        file = tmp_path / "config"
        file.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **parts}))
        client, _ = await connection.kubeconfig_client(file, None)
        try:
            return await PodLogs(client).read("space", pod, "agent", lines=7, **options)
        finally:
            await client.close()
            await runner.cleanup()

    return asyncio.run(run()), requests


def test_the_last_lines_are_requested(tmp_path: Path) -> None:
    text, requests = read(tmp_path, "p", previous=True)
    assert text == "a line\n\N{REPLACEMENT CHARACTER}"
    query = {"container": "agent", "tailLines": "7", "timestamps": "true", "previous": "true"}
    query["limitBytes"] = str(4 << 20)
    assert requests == [("/api/v1/namespaces/space/pods/p/log", query, "Bearer abc")]


def test_a_refusal_has_the_servers_message(tmp_path: Path) -> None:
    with pytest.raises(errors.NotFound, match="log of space/gone: pods gone not found"):
        read(tmp_path, "gone")
