"""The probes' port is open to every pod: an idle connection must not block another."""

import contextlib
import socket
import threading
import time
import urllib.request

from device_plugin import serving
from device_plugin.agent import health
from device_plugin.agent.passes import Pulse

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
        assert time.monotonic() - began < 45  # 100 if a full queue makes clients retry
        deadline = time.monotonic() + 3
        while threading.active_count() > before + serving.MAX_CONNECTIONS + 1:
            assert time.monotonic() < deadline, threading.active_count()
            time.sleep(0.01)
    server.shutdown()
    server.server_close()


def test_an_answer_ends_its_connection_and_frees_its_place() -> None:
    """Connections come one after the other, so the limit of open ones is never reached."""
    server = serving.server(0, lambda path, accept: serving.text(200, f"{path} {accept}"))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        with socket.create_connection(server.server_address, timeout=10) as waiting:
            for turn in range(serving.MAX_CONNECTIONS + 2):
                with socket.create_connection(server.server_address, timeout=10) as one:
                    one.sendall(b"GET /%d?x=1 HTTP/1.0\r\nAccept: a/b\r\n\r\n" % turn)
                    said = b""
                    while part := one.recv(4096):  # until the server closes the connection
                        said += part
                assert said.endswith(b"\r\n\r\n/%d a/b" % turn)
            waiting.sendall(b"GET /last HTTP/1.0\r\n\r\n")
            assert waiting.recv(4096).startswith(b"HTTP/1.0 200")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_oldest_connection_makes_way_for_one_too_many() -> None:
    server = serving.server(0, lambda path, accept: serving.text(200, ""))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        with contextlib.ExitStack() as silent:

            def connect() -> socket.socket:
                made = socket.create_connection(server.server_address, timeout=10)
                return silent.enter_context(made)

            first, second, *_ = [connect() for _ in range(serving.MAX_CONNECTIONS)]
            first.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                assert first.recv(1), "it had to go although there was room"
            first.settimeout(10)
            connect()
            assert first.recv(1) == b""
            second.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert second.recv(4096).startswith(b"HTTP/1.0 200")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
