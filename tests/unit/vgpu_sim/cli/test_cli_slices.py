"""Queries of slice sockets, which are untrusted: only a complete answer is accepted."""

import contextlib
import ctypes
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from vgpu_sim.cli.clients import slices
from vgpu_sim.cli.clients.slices import NotAnswered
from vgpu_sim.hal import messages
from vgpu_sim.hal.messages import DeviceInfo, Header, Hello, MessageType

INFO = bytes(DeviceInfo(multiprocessors=16))


def header(kind: MessageType = MessageType.DEVICE_INFO, status: int = 0) -> bytes:
    return bytes(Header(messages.MAGIC, messages.PROTOCOL_VERSION, kind, 1, status, len(INFO), 0))


@pytest.fixture
def parent() -> Iterator[Path]:
    """A folder with a short name, since sockets' paths are bounded."""
    with tempfile.TemporaryDirectory(prefix="q-", dir="/tmp") as name:
        yield Path(name)


@contextlib.contextmanager
def answering(directory: Path, answer: bytes | None) -> Iterator[list[bytes]]:
    """Serve one client: receive its message and send ``answer``; None sends nothing."""
    directory.mkdir()
    received: list[bytes] = []
    done = threading.Event()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(directory / "s.sock"))
        listener.listen()
        listener.settimeout(30)  # a second query fails instead of waiting forever

        def serve() -> None:
            client, _ = listener.accept()
            with client:
                received.append(client.recv(4096))
                if answer is None:
                    done.wait(60)
                elif answer:
                    client.send(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield received
        finally:
            done.set()
            thread.join()


def test_a_whole_answer_is_read(parent: Path) -> None:
    with answering(parent / "slice", header() + INFO) as received:
        assert slices.query(parent / "slice").multiprocessors == 16
    (message,) = received
    request = Header.from_buffer_copy(message)
    assert (request.magic, request.type, request.status) == (
        messages.MAGIC,
        MessageType.HELLO_QUERY,
        0,
    )
    hello = Hello.from_buffer_copy(message, ctypes.sizeof(Header))
    assert bytes(hello.token) == bytes(messages.TOKEN_BYTES)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", "closed without an answer"),
        (header()[:-1], "closed without an answer"),
        (header(status=201), "refused with status 201"),
        (header(status=201) + INFO, "refused with status 201"),
        (header(), "refused with status 0"),
        (header() + INFO[:-1], "refused with status 0"),
        (header() + INFO + b"\0", "refused with status 0"),
        (header(MessageType.HELLO_QUERY) + INFO, "refused with status 0"),
    ],
)
def test_an_invalid_answer_is_refused(parent: Path, answer: bytes, words: str) -> None:
    directory = parent / "slice"
    with answering(directory, answer), pytest.raises(NotAnswered) as refused:
        slices.query(directory)
    assert str(refused.value) == f"{directory}/s.sock: {words}"


def test_a_silent_socket_times_out(parent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 1 <= slices._TIMEOUT_SECONDS <= 10
    monkeypatch.setattr(slices, "_TIMEOUT_SECONDS", 0.05)
    with answering(parent / "slice", None), pytest.raises(NotAnswered, match="timed out"):
        slices.query(parent / "slice")


def test_all_slices_are_queried_in_order_of_name(parent: Path) -> None:
    assert slices.query_all(parent / "absent") == []
    (parent / "MIG-file").touch()
    (parent / "lost+found").mkdir()
    one = bytes(DeviceInfo(multiprocessors=1))
    last, first = parent / "MIG-b", parent / "MIG-a"
    with answering(last, header() + INFO), answering(first, header() + one):
        assert [info.multiprocessors for info in slices.query_all(parent)] == [1, 16]
    with pytest.raises(NotAnswered):  # no process listens any more
        slices.query_all(parent)
