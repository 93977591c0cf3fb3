"""The console of the cluster: the pages of `tessera ui` show what kubectl shows."""

import http.client
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support.cluster.kubectl import Cluster, until

TESSERA = Path(sys.executable).with_name("tessera")
_COOKIE = re.compile(r"(tessera-console=[^;]+);")


class Console:
    """A running `tessera ui`, and requests with its cookie."""

    def __init__(self, url: str) -> None:
        self._parts = urlsplit(url)
        self._cookie = ""
        self._cookie = self.request(f"/?{self._parts.query}")[1]

    def request(self, path: str) -> tuple[int, str, str]:
        """Return status, cookie and text of a page."""
        connection = http.client.HTTPConnection("127.0.0.1", self._parts.port, timeout=30)
        headers = {"Host": self._parts.netloc, "Cookie": self._cookie}
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        found = _COOKIE.match(answer.headers.get("Set-Cookie", ""))
        connection.close()
        return answer.status, found[1] if found else "", text

    def text(self, path: str) -> str:
        """Return a page that exists."""
        status, _, text = self.request(path)
        assert status == 200, text
        return text


@pytest.fixture
def console() -> Iterator[Console]:
    command = [TESSERA, "ui", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = Console(line.strip().rpartition(" ")[2])
            end = time.monotonic() + 60
            while "still loading" in found.text("/") and time.monotonic() < end:
                time.sleep(0.5)
            yield found
        finally:
            process.terminate()


def test_the_pages_show_the_cluster(
    whole_cluster: Cluster, namespace: Cluster, console: Console
) -> None:
    text = console.text("/")
    slices = whole_cluster.slices()
    assert slices
    for one in slices:
        assert f"node-{one['node']}" in text
    first = slices[0]
    assert first["profile"] in console.text(f"/gpus/{first['gpu']}")
    assert console.text(f"/slices/{first['uuid']}")
    for path in ("/why", "/layout", "/rdma", "/events"):
        assert "cannot be read" not in console.text(path)


def test_a_pod_that_no_node_can_hold_is_explained(namespace: Cluster, console: Console) -> None:
    container = {
        "name": "c",
        "image": "none",
        "resources": {"limits": {"gpu.tessera.dev/mig-7g.80gb": "9"}},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "too-much"},
        "spec": {"containers": [container]},
    }
    namespace.apply(pod)
    where = f"/why/{namespace.namespace}/too-much"
    until(lambda: console.request(where)[0] == 200, 60)
    until(lambda: "Insufficient" in console.text(where), 60)
    assert "does not have this resource" in console.text(where)
