"""The probes' port is open to every pod of the cluster: who says nothing keeps nobody out."""

import contextlib
import socket
import threading
import time
import urllib.request

from device_plugin import serving
from device_plugin.agent import health
from device_plugin.agent.loop import Pulse

SILENT = 600


def test_silent_connections_neither_pile_up_nor_keep_the_kubelet_out() -> None:
    pulse = Pulse(began=time.monotonic())
    server = health.server(0, pulse)
    port = server.server_address[1]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    before = threading.active_count()
    began = time.monotonic()
    with contextlib.ExitStack() as silent:
        for _ in range(SILENT):
            sock = silent.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
            sock.send(b"G")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=3) as answer:
            assert answer.status == 200
        assert time.monotonic() - began < 45  # 100 where a full queue makes clients try again
        deadline = time.monotonic() + 3
        while threading.active_count() > before + serving.MAX_CONNECTIONS + 1:
            assert time.monotonic() < deadline, threading.active_count()
            time.sleep(0.01)
    server.shutdown()
    server.server_close()
