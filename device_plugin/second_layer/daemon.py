"""``tessera-linkd``: enforces the second layer, in the node's own network namespace.

It is a separate process because of its privileges: CAP_NET_ADMIN in the node's network
namespace, CAP_BPF for one classifier, and no other capability, no cluster token and no other
namespace. The node agent sends it tables on a socket; it reads nothing that a pod wrote. On
SIGTERM it removes its rules and classifiers. If it is killed, or if another linkd has taken over
its socket during an update, they stay until that linkd receives tables.
"""

import json
import logging
import os
import selectors
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click

from device_plugin.errors import SecondLayerError
from device_plugin.second_layer import kernel
from device_plugin.second_layer.links import Links
from device_plugin.second_layer.node import Node
from rdma import codec
from rdma.errors import RdmaError
from rdma.tables import NodeTables
from vgpu_sim.options import Given, command_line, option
from vgpu_sim.records import dataclass

SOCKET_NAME: Final = "links.sock"
# a quotation mark takes two characters in a JSON string
MAX_LINE_BYTES: Final = 2 * codec.MAX_BYTES
_SETTLE_S: Final = 0.02  # creating a pod's link causes several changes
_APART_S: Final = 0.25
_AGAIN_S: Final = 1.0
_LATEST_S: Final = 30.0  # even without a notification of a change
_READ_BYTES: Final = 1 << 16
_BACKLOG: Final = 4
_MOST_CLIENTS: Final = 4
_SEND_S: Final = 2.0
_log = logging.getLogger("tessera.linkd")


@dataclass(frozen=True, slots=True)
class Options:
    """The directory of linkd's socket; the node agent connects to the socket there."""

    directory: Path = option(option_default=Path("/run/tessera/links"))


@click.command()
@command_line(Options)
def main(given: Given) -> None:
    """Keep rules for the pods' links in force until SIGTERM, with a socket in DIRECTORY."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    node: Node | Absent
    try:
        namespace = kernel.Namespace()
        node = Node(namespace, Links(namespace))
    except (OSError, SecondLayerError) as err:
        _log.error("no second layer: %s", err)
        node = Absent(str(err))
    try:
        Server(given.make(Options).directory, node).run()
    except OSError as err:
        sys.exit(f"tessera-linkd: {err}")


class Absent:
    """Stands in for ``Node`` where the node cannot have a second layer: it refuses tables.

    If the process ended instead, the kubelet would restart it forever, although the condition is
    permanent.
    """

    generation = None
    is_settled = True

    def __init__(self, why: str) -> None:
        self._why = why

    def set_tables(self, tables: NodeTables) -> None:
        """Refuse the tables. Raises SecondLayerError."""
        del tables
        raise SecondLayerError(self._why)

    def reload_if_changed(self) -> None:
        """Do nothing, because no rules depend on the node's links."""

    def remove(self) -> None:
        """Do nothing, because there are no rules to remove."""

    def state(self) -> dict[str, Any]:
        """Return a state with the reason why the node has no second layer."""
        return {"generation": None, "links": 0, "able": False, "engine_only": self._why}

    def drops(self) -> dict[str, Any]:
        """Return an empty list of drops."""
        return {"totals": {}, "links": []}


class Server:
    """Serves requests of the agent and follows changes of links, in one thread."""

    def __init__(self, directory: Path, node: Node | Absent) -> None:
        """Initialize; listen in ``directory`` and subscribe to changes of links. Raises OSError."""
        self._node = node
        self._chosen = selectors.DefaultSelector()
        self._listener = _listen(directory / SOCKET_NAME)
        self._path = directory / SOCKET_NAME
        self._inode = self._path.stat().st_ino
        self._changes = kernel.open_change_socket()
        self._wake, woken = socket.socketpair()
        for wake_socket in (self._wake, woken):
            wake_socket.setblocking(False)
        signal.set_wakeup_fd(woken.fileno())
        self._woken = woken
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)  # ``run`` reads the signal from ``_wake``
        for ready, handler in (
            (self._listener, self._accept),
            (self._changes, self._changed),
        ):
            self._chosen.register(ready, selectors.EVENT_READ, handler)
        self._chosen.register(self._wake, selectors.EVENT_READ, None)
        self._lines: dict[socket.socket, bytearray] = {}
        self._followed_at = float("-inf")
        self._due_at = time.monotonic() + _LATEST_S

    def run(self) -> None:
        """Serve until SIGTERM, and then remove all rules, unless another linkd has taken over."""
        while True:
            ready = self._chosen.select(max(0.0, self._due_at - time.monotonic()))
            if any(key.fileobj is self._wake for key, _ in ready):
                break
            for key, _ in ready:
                key.data(key.fileobj)
            if time.monotonic() >= self._due_at:
                with suppress(SecondLayerError):  # logged, and tried again
                    self._node.reload_if_changed()
                self._followed_at = time.monotonic()
                again = _LATEST_S if self._node.is_settled else _AGAIN_S
                self._due_at = self._followed_at + again
        if self._has_successor():
            _log.info("the rules stay: another linkd serves")
            return
        try:
            self._node.remove()
        except SecondLayerError as err:
            sys.exit(f"tessera-linkd: rules may remain: {err}")
        finally:
            self._path.unlink(missing_ok=True)
        _log.info("no rule is left")

    def _has_successor(self) -> bool:
        """Return whether another linkd listens at the socket's path, as during an update."""
        try:
            return self._path.stat().st_ino != self._inode
        except FileNotFoundError:
            return False

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            client, _ = listener.accept()
            if len(self._lines) >= _MOST_CLIENTS or _user_of(client) != os.getuid():
                client.close()
                return
            client.setblocking(False)
            self._lines[client] = bytearray()
            self._chosen.register(client, selectors.EVENT_READ, self._read)

    def _changed(self, changes: socket.socket) -> None:
        # Limits the rate, so that a pod that keeps changing its link does not keep linkd busy.
        soon = max(time.monotonic() + _SETTLE_S, self._followed_at + _APART_S)
        self._due_at = min(self._due_at, soon)
        # ENOBUFS: too many changes; all links are read again
        with suppress(BlockingIOError, OSError):
            while changes.recv(_READ_BYTES):
                pass

    def _read(self, client: socket.socket) -> None:
        try:
            read = client.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            read = b""
        lines = self._lines[client]
        lines += read
        if not read or len(lines) > MAX_LINE_BYTES:
            self._drop(client)
            return
        while b"\n" in read:
            line, _, remaining_bytes = bytes(lines).partition(b"\n")
            reply = json.dumps(self._answer(line)).encode() + b"\n"
            lines[:] = read = remaining_bytes
            try:
                client.settimeout(_SEND_S)
                client.sendall(reply)
                client.setblocking(False)
            except OSError:
                self._drop(client)
                return

    def _drop(self, client: socket.socket) -> None:
        self._chosen.unregister(client)
        del self._lines[client]
        client.close()

    def _answer(self, line: bytes) -> dict[str, Any]:
        return answer(self._node, line)


def answer(node: Node | Absent, line: bytes) -> dict[str, Any]:
    """Return the answer to one request.

    ``line`` is the request as JSON, with ``id``, ``method`` and ``params``.
    """
    number = None
    try:
        request = json.loads(line)
        number, method, params = request["id"], request["method"], request["params"]
        if method == "tables":
            node.set_tables(codec.decode(params["document"]))
            return {"id": number, "result": node.state()}
        if method == "state":
            return {"id": number, "result": node.state()}
        if method == "drops":
            return {"id": number, "result": node.drops()}
        error = {"code": "invalid", "message": f"unknown method {str(method)[:40]!r}"}
    except SecondLayerError as err:
        error = {"code": "failed", "message": str(err)}
    except (RdmaError, ValueError, KeyError, TypeError, RecursionError) as err:
        error = {"code": "invalid", "message": f"invalid request: {err}"[:400]}
    return {"id": number, "error": error}


def _listen(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    old_umask = os.umask(0o177)
    try:
        listener.bind(str(path))
    finally:
        os.umask(old_umask)
    listener.listen(_BACKLOG)
    return listener


def _user_of(client: socket.socket) -> int:
    credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int.from_bytes(credentials[4:8], sys.byteorder)


if __name__ == "__main__":
    main()
