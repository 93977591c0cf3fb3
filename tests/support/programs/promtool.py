"""Prometheus and promtool; tests that need them are skipped with a message if they are missing."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

_INSTALL = "Debian: apt-get install prometheus"


def _find(program: str) -> str:
    """Return the path in TESSERA_<PROGRAM>, or that of the program on PATH."""
    found = os.environ.get(f"TESSERA_{program.upper()}") or shutil.which(program)
    if not found:
        pytest.skip(f"NOT RUN: no {program} ({_INSTALL})")
    return found


def promtool(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run promtool."""
    command = [_find("promtool"), *arguments]
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=60, check=False
    )


@contextlib.contextmanager
def prometheus(directory: Path, scrapes: list[dict[str, Any]]) -> Iterator[Callable[[str], Any]]:
    """Run Prometheus on ``scrape_configs``; yield a function that evaluates an expression."""
    program = _find("prometheus")
    config = {"global": {"scrape_interval": "1s"}, "scrape_configs": scrapes}
    (directory / "prometheus.yml").write_text(json.dumps(config))  # JSON is also YAML
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    command = [
        program,
        f"--config.file={directory / 'prometheus.yml'}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]

    def ask(expression: str) -> Any:
        query = urllib.parse.urlencode({"query": expression})
        address = f"http://127.0.0.1:{port}/api/v1/query?{query}"
        with urllib.request.urlopen(address, timeout=20) as reply:
            return json.load(reply)["data"]["result"]

    with (directory / "log").open("wb") as log:
        running = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield ask
    finally:
        running.terminate()
        running.wait(20)
