"""The client of a daemon's administration socket."""

import fcntl
import json
import resource
import select
import socket
import threading
import time
from pathlib import Path

import pytest

from device_plugin.backends.administration import Administration
from device_plugin.backends.presence import Presence
from device_plugin.errors import DaemonError, DaemonUnreachable
from support.processes.no_replies import NO_REPLIES

HIGH = 1100  # select() supports no descriptors beyond this


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
            reply = {"id": json.loads(line)["id"], "result": {"echoed": True}}
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
        assert [client.call("echo") for _ in range(2)] == [{"echoed": True}] * 2
        client.close()
        server.join(30)
        assert not server.is_alive()  # one connection was enough


class Plain(Administration):
    """A client of a daemon named ``echo``."""

    daemon, refused, unreachable = "echo", DaemonError, DaemonUnreachable


ANSWERS = [b"", b'{"id": 1, "res', *NO_REPLIES]


@pytest.mark.parametrize("answer", ANSWERS, ids=repr)
def test_a_call_that_failed_leaves_nothing_for_the_next_one(tmp_path: Path, answer: bytes) -> None:
    """The next call has a new connection, on which no late answer to the failed one comes."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        listener.listen()

        def serve() -> None:
            first, _ = listener.accept()
            with first:
                first.recv(4096)
                if answer:
                    first.sendall(answer)
                first.shutdown(socket.SHUT_WR)
                _answer(listener)

        server = threading.Thread(target=serve, daemon=True)
        server.start()
        client = Plain(tmp_path / "socket")
        with pytest.raises(DaemonUnreachable):
            client.call("echo")
        assert client._connection is None
        assert client.call("echo") == {"echoed": True}
        client.close()
        server.join(30)
        assert not server.is_alive()


def test_a_daemon_that_was_started_again_costs_no_call(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        listener.listen()

        def serve() -> None:
            for _ in range(2):
                connection, _ = listener.accept()
                with connection, connection.makefile("rb") as lines:
                    requested = json.loads(next(lines))
                    connection.sendall(b'{"id": %d, "result": {}}\n' % requested["id"])

        server = threading.Thread(target=serve, daemon=True)
        server.start()
        client = Plain(tmp_path / "socket")
        for _ in range(2):
            assert client.call("echo") == {}
            assert client._connection is not None
            # the daemon has closed the connection
            assert select.select([client._connection], [], [], 30)[0]
        server.join(30)
        client.close()


def test_a_request_to_a_daemon_that_hangs_ends_when_the_daemon_counts_as_lost(
    tmp_path: Path,
) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        listener.listen()  # the kernel accepts the connection
        presence = Presence(1.5)
        client = Echo(tmp_path / "socket", presence=presence)
        begin = time.monotonic()
        with pytest.raises(DaemonUnreachable, match="timed out"):
            client.call("echo")
        assert presence.is_lost
        assert 1.4 <= time.monotonic() - begin < 10


def test_the_time_of_requests_depends_on_the_daemons_last_answer() -> None:
    now = [0.0]
    presence = Presence(20.0, lambda: now[0])
    limits = []
    for now[0] in (0.0, 6.0, 19.5, 20.0, 100.0):
        limits.append((presence.time_limit_s(), presence.is_lost))
    assert limits == [(15.0, False), (14.0, False), (1.0, False), (5.0, True), (5.0, True)]
    presence.record_answer()
    assert not presence.is_lost
