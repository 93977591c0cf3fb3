"""The query of a slice's socket, which anybody may have put there: only a whole answer is believed."""

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
    """Of a short name: sockets' paths are bounded."""
    with tempfile.TemporaryDirectory(prefix="q-", dir="/tmp") as name:
        yield Path(name)


@contextlib.contextmanager
def answering(directory: Path, answer: bytes | None) -> Iterator[list[bytes]]:
    """Serve one client: take its message and send this, or nothing; None leaves it waiting."""
    directory.mkdir()
    heard: list[bytes] = []
    done = threading.Event()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(directory / "s.sock"))
        listener.listen()
        listener.settimeout(30)  # who asks somebody else fails, and does not wait for ever

        def serve() -> None:
            client, _ = listener.accept()
            with client:
                heard.append(client.recv(4096))
                if answer is None:
                    done.wait(60)
                elif answer:
                    client.send(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield heard
        finally:
            done.set()
            thread.join()


def test_a_whole_answer_is_read(parent: Path) -> None:
    with answering(parent / "slice", header() + INFO) as heard:
        assert slices.query(parent / "slice").multiprocessors == 16
    (message,) = heard
    asked = Header.from_buffer_copy(message)
    assert (asked.magic, asked.type, asked.status) == (messages.MAGIC, MessageType.HELLO_QUERY, 0)
    hello = Hello.from_buffer_copy(message, ctypes.sizeof(Header))
    assert bytes(hello.token) == bytes(messages.TOKEN_BYTES)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", "hung up without an answer"),
        (header()[:-1], "hung up without an answer"),
        (header(status=201), "refused with status 201"),
        (header(status=201) + INFO, "refused with status 201"),
        (header(), "refused with status 0"),
        (header() + INFO[:-1], "refused with status 0"),
        (header() + INFO + b"\0", "refused with status 0"),
        (header(MessageType.HELLO_QUERY) + INFO, "refused with status 0"),
    ],
)
def test_another_answer_is_none(parent: Path, answer: bytes, words: str) -> None:
    directory = parent / "slice"
    with answering(directory, answer), pytest.raises(NotAnswered) as refused:
        slices.query(directory)
    assert str(refused.value) == f"{directory}/s.sock: {words}"


def test_who_says_nothing_is_not_waited_for(parent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 1 <= slices._TIMEOUT_SECONDS <= 10
    monkeypatch.setattr(slices, "_TIMEOUT_SECONDS", 0.05)
    with answering(parent / "slice", None), pytest.raises(NotAnswered, match="timed out"):
        slices.query(parent / "slice")


def test_all_slices_are_asked_by_name(parent: Path) -> None:
    assert slices.query_all(parent / "absent") == []
    (parent / "MIG-file").touch()
    (parent / "lost+found").mkdir()
    one = bytes(DeviceInfo(multiprocessors=1))
    last, first = parent / "MIG-b", parent / "MIG-a"
    with answering(last, header() + INFO), answering(first, header() + one):
        assert [info.multiprocessors for info in slices.query_all(parent)] == [1, 16]
    with pytest.raises(NotAnswered):  # nobody is there any more
        slices.query_all(parent)
