"""`tessera run --ui`: a page about the run, on loopback behind a token, until the program ends."""

import contextlib
import http.client
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.processes.tessera_run import EXAMPLES

TESSERA = Path(sys.executable).with_name("tessera")
WAITS = """
import subprocess, sys
subprocess.run([sys.executable, sys.argv[1], sys.argv[2]], check=True, stdout=subprocess.DEVNULL)
print("computed", flush=True)
sys.stdin.read()
"""
PROGRAM = Path(__file__).parents[2] / "support" / "scripts" / "timed_vecadd.py"


def get(url: str, cookie: str, path: str = "/") -> tuple[int, str]:
    host, _, port = url.removeprefix("http://").partition("/")[0].rpartition(":")
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=20)
    headers = {"Host": f"{host}:{port}"} | ({"Cookie": cookie} if cookie else {})
    with contextlib.closing(connection):
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def test_a_run_has_a_page_with_its_gpu_kernels_and_causes() -> None:
    program = (sys.executable, "-c", WAITS, str(PROGRAM), str(EXAMPLES / "vecadd.ptx"))
    options = ("--board", "h100-80gb", "--clock", "modelled", "--ui")
    with subprocess.Popen(
        [TESSERA, "run", *options, "--", *program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdin is not None
        assert run.stdout is not None
        assert run.stderr is not None
        url = ""
        while not url:
            url = "".join(re.findall(r"http://\S+", run.stderr.readline()))
        assert re.match(r"http://tessera-[0-9a-f]{32}\.localhost:[0-9]+/\?token=", url)
        cookie = f"tessera-console={url.partition('token=')[2]}"
        assert run.stdout.readline() == "computed\n"
        assert get(url, "")[0] == 401
        text, end = "", time.monotonic() + 30
        while "vecadd" not in text or "memory not hidden" not in text:
            assert time.monotonic() < end, text
            status, text = get(url, cookie)
            assert status == 200
            time.sleep(0.2)
        assert "NVIDIA H100 80GB HBM3" in text
        assert get(url, cookie, "/performance/copy?bytes=4096")[0] == 200
        assert get(url, cookie, "/why")[0] == 404
        run.stdin.close()
        assert run.wait(30) == 0
        with pytest.raises(OSError, match="refused"):
            get(url, cookie)
        assert "Traceback" not in run.stderr.read()
