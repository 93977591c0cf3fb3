"""Calls from the reconcile loop's process into the one that serves the kubelet.

Both are of one image and one container, so objects are pickled; the key keeps others out.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any, Final, Never

from device_plugin.dp.kubelet_side import KubeletServer
from device_plugin.dp.offer import Offer
from device_plugin.errors import KubeletSideLost

_CALLS: Final = "calls"
_WAKES: Final = "wakes"
_METHODS: Final = frozenset(
    {
        *("update", "connected", "listed", "keep_only", "condemn", "spare", "pending", "all_ours"),
        "claimed",
    }
)
_AGAIN_S: Final = 0.05
_log = logging.getLogger(__name__)


class LinkServer:
    """Answers an agent's calls, and wakes it; an agent that comes takes over from the last."""

    def __init__(self, listener: Listener, server: KubeletServer, woken: threading.Event) -> None:
        self._listener = listener
        self._server = server
        self._woken = woken

    def run(self) -> None:
        """Accept agents until the listener is closed."""
        while True:
            try:
                connection = self._listener.accept()
                purpose = connection.recv()
            except (OSError, EOFError, AuthenticationError) as err:
                if isinstance(err, OSError) and err.errno is None:
                    return  # so multiprocessing says that it is closed
                _log.warning("the agent's link: %s", err)
                time.sleep(_AGAIN_S)  # descriptors may have run out: that takes a while to mend
                continue
            body = self._answer if purpose == _CALLS else self._wake
            threading.Thread(target=body, args=(connection,), daemon=True).start()

    def _answer(self, connection: Connection) -> None:
        self._server.agent_came()
        with contextlib.suppress(OSError, EOFError), connection:
            while True:
                method, arguments = connection.recv()
                connection.send(self._result(method, arguments))
        self._server.agent_went()

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
                self._woken.wait()
                self._woken.clear()
                connection.send(None)


class Link:
    """The agent's end: a ``KubeletSide``. Calls are made by the reconcile thread only.

    Every call raises KubeletSideLost when the other process is away; the next one tries again.
    """

    def __init__(self, address: Path, key: bytes) -> None:
        self._address = address
        self._key = key
        self._calls: Connection | None = None

    def follow(self, wake: Callable[[], None]) -> Never:
        """Call ``wake`` when the kubelet's side wants a pass, and whenever it has come back."""
        while True:
            with contextlib.suppress(OSError, EOFError), self._connect(_WAKES) as connection:
                wake()
                while True:
                    connection.recv()
                    wake()
            time.sleep(_AGAIN_S)

    def update(self, offers: Mapping[str, Offer]) -> None:
        self._call("update", dict(offers))

    def connected(self) -> frozenset[str]:
        return frozenset(self._call("connected"))

    def listed(self, uuids: Collection[str]) -> None:
        self._call("listed", tuple(uuids))

    def keep_only(self, uuids: Collection[str]) -> None:
        self._call("keep_only", tuple(uuids))

    def condemn(self, uuid: str) -> bool:
        return bool(self._call("condemn", uuid))

    def spare(self, uuid: str) -> None:
        self._call("spare", uuid)

    def pending(self) -> bool:
        return bool(self._call("pending"))

    def all_ours(self, held: Collection[str]) -> bool:
        return bool(self._call("all_ours", tuple(held)))

    def claimed(self, healths: Mapping[str, str]) -> None:
        self._call("claimed", dict(healths))

    def _connect(self, purpose: str) -> Connection:
        connection = Client(str(self._address), authkey=self._key)
        connection.send(purpose)
        return connection

    def _call(self, method: str, *arguments: Any) -> Any:
        try:
            if self._calls is None:
                self._calls = self._connect(_CALLS)
            self._calls.send((method, arguments))
            succeeded, result = self._calls.recv()
        except (OSError, EOFError, AuthenticationError) as err:
            if self._calls is not None:
                self._calls.close()
                self._calls = None
            raise KubeletSideLost(f"the process that serves the kubelet is away: {err!r}") from err
        if not succeeded:
            raise result
        return result
