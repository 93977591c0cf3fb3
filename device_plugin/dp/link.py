"""Calls from the reconcile loop's process to the processes that serve the kubelet or stand by.

All run the same image in one pod, so objects are pickled; a key authenticates the agent. Neither
side waits for the other without limit: a process that is stopped or starved keeps its connections.
"""

import contextlib
import logging
import socket
import struct
import threading
import time
from collections.abc import Callable, Collection, Mapping
from multiprocessing import AuthenticationError
from multiprocessing.connection import (
    Connection,
    Listener,
    answer_challenge,
    deliver_challenge,
)
from pathlib import Path
from typing import Any, Final, Never

from device_plugin.dp.kubelet_side import KubeletServer
from device_plugin.dp.offer import Offer
from device_plugin.errors import KubeletSideLost, KubeletSideSilent

_CALLS: Final = "calls"
_WAKES: Final = "wakes"
_METHODS: Final = frozenset(
    {
        "update",
        "connected_resources",
        "confirm_listed",
        "keep_only",
        "forbid",
        "allow",
        "has_pending",
        "all_ours",
        "report_claim_health",
    }
)
_AGAIN_S: Final = 0.05
_SIGN_S: Final = 1.0
_REPLY_S: Final = 5.0
_SILENT: Final = (
    "the process that serves the kubelet does not answer: it hangs, or gets too little CPU time"
)
AGENT_SILENT_S: Final = 60.0  # the supervisor kills an agent that hangs earlier
_log = logging.getLogger(__name__)


class LinkServer:
    """Serves the agent's requests, in the process that serves the kubelet.

    Answers the agent's calls, and wakes the agent when a pass of the reconcile loop is needed. A
    new agent replaces the last one.
    """

    def __init__(self, listener: Listener, server: KubeletServer, woken: threading.Event) -> None:
        self._listener = listener
        self._server = server
        self._woken = woken

    def run(self) -> None:
        """Accept connections of agents until the listener is closed."""
        while True:
            try:
                connection = self._listener.accept()
                purpose = connection.recv()
            except (OSError, EOFError, AuthenticationError) as err:
                if isinstance(err, OSError) and err.errno is None:
                    return  # multiprocessing reports a closed listener with this error
                _log.warning("cannot accept the agent's connection: %s", err)
                time.sleep(_AGAIN_S)  # descriptors may be exhausted, which takes a while to pass
                continue
            body = self._answer if purpose == _CALLS else self._wake
            threading.Thread(target=body, args=(connection,), daemon=True).start()

    def _answer(self, connection: Connection) -> None:
        self._server.on_agent_connect()
        with contextlib.suppress(OSError, EOFError), connection:
            while connection.poll(AGENT_SILENT_S):
                method, arguments = connection.recv()
                connection.send(self._result(method, arguments))
        self._server.on_agent_disconnect()

    def _result(self, method: str, arguments: tuple[Any, ...]) -> tuple[bool, Any]:
        if method not in _METHODS:
            return False, ValueError(f"no such call: {method}")
        try:
            return True, getattr(self._server, method)(*arguments)
        except OSError as err:  # the only error that these calls document
            return False, err

    def _wake(self, connection: Connection) -> None:
        with contextlib.suppress(OSError), connection:
            while True:
                pass_is_due = self._woken.wait(_SIGN_S)
                if pass_is_due:  # it may be set just after the wait has timed out
                    self._woken.clear()
                connection.send(pass_is_due)  # False is a sign of life only


class Link:
    """The agent's connection to the process that serves the kubelet, as a ``KubeletSide``.

    Only the reconcile thread makes calls. A call raises KubeletSideLost if the other process
    does not answer; the next call connects again.
    """

    def __init__(self, address: Path, key: bytes) -> None:
        self._address = address
        self._key = key
        self._calls: Connection | None = None
        self._is_silent = False

    def follow(self, wake: Callable[[], None]) -> Never:
        """Call ``wake`` when the process that serves the kubelet requests a pass of the reconcile
        loop.

        Also call ``wake`` after each reconnection, and when the process is silent: between two
        passes no call would notice it before the supervisor has replaced the process.
        """
        while True:
            try:
                with self._connect(_WAKES) as connection:
                    self._is_silent = False
                    wake()
                    while True:
                        if connection.recv():
                            wake()
            except BlockingIOError:
                self._is_silent = True
                wake()
            except (OSError, EOFError, AuthenticationError):
                self._is_silent = False
            time.sleep(_AGAIN_S)

    def update(self, offers: Mapping[str, Offer]) -> None:
        self._call("update", dict(offers))

    def connected_resources(self) -> frozenset[str]:
        return frozenset(self._call("connected_resources"))

    def confirm_listed(self, uuids: Collection[str]) -> None:
        self._call("confirm_listed", tuple(uuids))

    def keep_only(self, uuids: Collection[str]) -> None:
        self._call("keep_only", tuple(uuids))

    def forbid(self, uuid: str) -> bool:
        return bool(self._call("forbid", uuid))

    def allow(self, uuid: str) -> None:
        self._call("allow", uuid)

    def has_pending(self) -> bool:
        return bool(self._call("has_pending"))

    def all_ours(self, held_uuids: Collection[str]) -> bool:
        return bool(self._call("all_ours", tuple(held_uuids)))

    def report_claim_health(self, healths: Mapping[str, str]) -> None:
        self._call("report_claim_health", dict(healths))

    def _connect(self, purpose: str) -> Connection:
        with socket.socket(socket.AF_UNIX) as client:
            for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
                client.setsockopt(socket.SOL_SOCKET, option, _timeval(_REPLY_S))
            client.connect(str(self._address))
            connection = Connection(client.detach())
        try:
            # As multiprocessing's Client, which would wait without limit.
            answer_challenge(connection, self._key)
            deliver_challenge(connection, self._key)
            connection.send(purpose)
        except BaseException:
            connection.close()
            raise
        return connection

    def _call(self, method: str, *arguments: Any) -> Any:
        if self._is_silent:
            raise KubeletSideSilent(_SILENT)
        try:
            if self._calls is None:
                self._calls = self._connect(_CALLS)
            self._calls.send((method, arguments))
            succeeded, result = self._calls.recv()
        except (OSError, EOFError, AuthenticationError) as err:
            if self._calls is not None:
                self._calls.close()
                self._calls = None
            if isinstance(err, BlockingIOError):
                raise KubeletSideSilent(_SILENT) from err
            raise KubeletSideLost(
                f"lost the connection to the process that serves the kubelet: {err!r}"
            ) from err
        if not succeeded:
            raise result
        return result


def _timeval(seconds: float) -> bytes:
    """Return a ``struct timeval`` for setsockopt."""
    return struct.pack("ll", int(seconds), int(seconds % 1 * 1_000_000))
