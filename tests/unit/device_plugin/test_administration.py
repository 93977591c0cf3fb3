"""The client of a daemon's administration socket."""

import fcntl
import json
import resource
import socket
import threading
from pathlib import Path

import pytest

from device_plugin.backends.administration import Administration
from device_plugin.errors import DaemonError, DaemonUnreachable

HIGH = 1100  # beyond what select() knows


class Echo(Administration):
    """A client whose connection has a high descriptor, as in a process with many."""

    daemon, refused, unreachable = "echo", DaemonError, DaemonUnreachable

    def _connect(self) -> socket.socket:
        low = super()._connect()
        with low:
            high = socket.socket(fileno=fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, HIGH))
            high.settimeout(low.gettimeout())
            return high


@pytest.fixture
def many_descriptors():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2 * HIGH:
        pytest.skip(f"{hard} descriptors are all that this process may have")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * HIGH), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _answer(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection, connection.makefile("rwb", buffering=0) as lines:
        for line in lines:
            reply = {"id": json.loads(line)["id"], "result": {"heard": True}}
            lines.write(json.dumps(reply).encode() + b"\n")


def test_a_connection_is_used_again_whatever_its_descriptors_number(
    tmp_path: Path, many_descriptors: None
) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        listener.listen()
        server = threading.Thread(target=_answer, args=(listener,), daemon=True)
        server.start()
        client = Echo(tmp_path / "socket")
        assert [client.call("hear") for _ in range(2)] == [{"heard": True}] * 2
        client.close()
        server.join(30)
        assert not server.is_alive()  # one connection was enough
