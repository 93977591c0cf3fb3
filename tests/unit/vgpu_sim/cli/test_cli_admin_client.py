"""The command line's client of an administration socket, against daemons that send invalid replies."""

import socket
import threading
from pathlib import Path

import pytest

from support.processes.no_replies import NO_REPLIES
from vgpu_sim.cli.clients.admin import AdminClient, AdminRefused
from vgpu_sim.system.json_lines import MAX_LINE_BYTES

NAME = "socket"


def client_of(folder: Path, answer: bytes) -> AdminClient:
    """Return a client of a daemon that reads a request, sends this answer and closes."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / NAME))
    listener.listen()

    def serve() -> None:
        with listener, listener.accept()[0] as connection:
            connection.recv(4096)
            connection.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()
    return AdminClient(folder, timeout_seconds=30, name=NAME)


@pytest.mark.parametrize(
    "answer", [*NO_REPLIES, b"x" * (MAX_LINE_BYTES + 1)], ids=lambda answer: repr(answer[:50])
)
def test_an_invalid_reply_is_a_lost_connection(tmp_path: Path, answer: bytes) -> None:
    with client_of(tmp_path, answer) as client:
        with pytest.raises(ConnectionAbortedError, match="administration socket"):
            client.call("inventory")
        with pytest.raises(OSError, match="Bad file descriptor"):
            client.call("inventory")


def test_a_daemon_that_closes_is_a_lost_connection(tmp_path: Path) -> None:
    with client_of(tmp_path, b"") as client, pytest.raises(ConnectionResetError):
        client.call("inventory")


def test_events_before_a_reply_are_kept_and_an_error_is_raised(tmp_path: Path) -> None:
    error = b'{"id": 1, "error": {"code": "busy", "message": "in use"}}'
    with client_of(tmp_path, b'{"event": "gpu_changed"}\n' + error + b"\n") as client:
        with pytest.raises(AdminRefused, match="in use") as refused:
            client.call("remove")
        assert refused.value.code == "busy"
        assert client.queued_events() == [{"event": "gpu_changed"}]
