"""gpud's events over a real socket: reconnections, refreshed holders, and limited floods."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from device_plugin.agent.events import EventFollower
from device_plugin.agent.holding import View
from device_plugin.backends.gpud import Gpud
from device_plugin.errors import GpudError, GpudUnreachable, PodResourcesError
from device_plugin.inventory.model import HolderPod
from support.processes.endless import endless

FLOOD = 2000


class Subscription:
    """gpud's end of a connection, operated by the test."""

    def __init__(self, path: Path) -> None:
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(path))
        self._server.listen()
        self._server.settimeout(60)

    def accept(self) -> socket.socket:
        connection, _ = self._server.accept()
        connection.settimeout(60)
        request = json.loads(connection.makefile().readline())
        assert request["method"] == "subscribe"
        connection.sendall(b'{"id":0,"result":{}}\n')
        return connection

    def close(self) -> None:
        self._server.close()


class Recorder:
    """Stands in for ``Holders`` and for ``Notices``; records the calls."""

    def __init__(self) -> None:
        self.refreshed = 0
        self.pokes = 0
        self.reported: list[str] = []
        self._at = 0.0

    def refresh(self) -> None:
        self.refreshed += 1
        self._at = time.monotonic()
        raise PodResourcesError("the kubelet restarts")  # must not end the thread

    def age_s(self) -> float:
        return time.monotonic() - self._at

    def last_view(self) -> View:
        return View({"MIG-1": (HolderPod("team", "train", "known"),)}, complete=True)

    def pod(self, uid: str) -> Any:
        return object() if uid == "known" else None

    def post(self, pod: object, reason: str, message: str) -> bool:
        self.reported.append(message)
        return True

    def poke(self) -> None:
        self.pokes += 1


@pytest.fixture
def gpud(tmp_path: Path) -> Iterator[Subscription]:
    made = Subscription(tmp_path / "gpud.sock")
    yield made
    made.close()


def until(condition: Any) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_every_connection_begins_with_holders_and_a_flood_is_few_lists(
    tmp_path: Path, gpud: Subscription
) -> None:
    recorder = Recorder()
    follower = EventFollower(Gpud(tmp_path / "gpud.sock"), recorder, recorder, recorder.poke)  # type: ignore[arg-type]
    with endless(follower.run):
        with gpud.accept() as connection:
            until(lambda: recorder.refreshed == 1)
            wanted = b'{"event":"holders_wanted","instance":"MIG-1","pod_uid":"x"}\n'
            begin = time.monotonic()
            connection.sendall(wanted * FLOOD)
            until(lambda: recorder.pokes == FLOOD + 1)
            assert recorder.refreshed <= 2 + (time.monotonic() - begin) / 0.25
            for uid in ("known", "stranger"):
                event = {"event": "fault", "pod_uid": uid, "kernel": uid, "message": "m"}
                connection.sendall(json.dumps(event).encode() + b"\n")
            until(lambda: recorder.reported)
        before = recorder.refreshed
        with gpud.accept():  # gpud was restarted
            until(lambda: recorder.refreshed == before + 1)
    assert recorder.reported == ["kernel known: m"]


def test_a_gpud_of_another_version_or_none_is_an_error_not_a_crash(
    tmp_path: Path, gpud: Subscription
) -> None:
    def answer() -> None:
        connection, _ = gpud._server.accept()
        with connection:
            number = json.loads(connection.makefile().readline())["id"]
            connection.sendall(json.dumps({"id": number, "result": {"gpus": 1}}).encode() + b"\n")

    thread = threading.Thread(target=answer)
    thread.start()
    client = Gpud(tmp_path / "gpud.sock")
    with pytest.raises(GpudError, match="another version"):
        client.inventory()
    thread.join()
    gpud.close()
    with pytest.raises(GpudUnreachable):
        client.inventory()
    with pytest.raises(GpudUnreachable):
        next(Gpud(tmp_path / "absent.sock").events())
