"""``tessera-linkd``: enforces the second layer, in the node's own network namespace.

It is a separate process because of its privileges: CAP_NET_ADMIN in the node's network
namespace, CAP_BPF for one classifier, and no other capability, no cluster token and no other
namespace. The node agent sends it tables on a socket; it reads nothing that a pod wrote. On
SIGTERM it removes its rules and classifiers. If it is killed, or if another linkd waits for its
turn during an update, they stay until that linkd receives tables.
"""

import json
import logging
import os
import selectors
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
from device_plugin.second_layer.turn import Stop, Turn
from rdma import codec
from rdma.errors import RdmaError
from rdma.tables import NodeTables
from vgpu_sim.options import Given, command_line, option
from vgpu_sim.records import dataclass
from vgpu_sim.system import socket_paths

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
    ready_file: Path | None = option(
        default=None,
        help="Created when this linkd serves, or is the next one and waits for the other to end.",
    )


@click.command()
@command_line(Options)
def main(given: Given) -> None:
    """Keep rules for the pods' links in force until SIGTERM, with a socket in DIRECTORY."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    options = given.make(Options)
    ready_file = options.ready_file
    stop = Stop()
    try:
        if ready_file is not None:
            ready_file.unlink(missing_ok=True)  # of an earlier process of the container
        node = _find_node()
        turn = Turn(options.directory)
        if not turn.wait(stop, lambda: _announce(ready_file)):
            _log.info("another linkd keeps its turn")
            return
        Server(options.directory, node, turn, stop).run()
    except OSError as err:
        sys.exit(f"tessera-linkd: {err}")
    finally:
        if ready_file is not None:
            ready_file.unlink(missing_ok=True)


def _find_node() -> "Node | Absent":
    try:
        namespace = kernel.Namespace()
        return Node(namespace, Links(namespace))
    except (OSError, SecondLayerError) as err:
        _log.error("no second layer: %s", err)
        return Absent(str(err))


def _announce(ready_file: Path | None) -> None:
    if ready_file is not None:
        ready_file.write_text("ready\n", encoding="ascii")


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

    def __init__(self, directory: Path, node: Node | Absent, turn: Turn, stop: Stop) -> None:
        """Initialize; listen in ``directory`` and subscribe to changes of links. Raises OSError."""
        self._node = node
        self._turn = turn
        self._stop = stop.socket
        self._chosen = selectors.DefaultSelector()
        self._path = directory / SOCKET_NAME
        self._listen()
        self._changes = kernel.open_change_socket()
        self._chosen.register(self._changes, selectors.EVENT_READ, self._changed)
        self._chosen.register(self._stop, selectors.EVENT_READ, None)
        self._lines: dict[socket.socket, bytearray] = {}
        self._followed_at = float("-inf")
        self._due_at = time.monotonic() + _LATEST_S

    def run(self) -> None:
        """Serve until SIGTERM, and then remove all rules, unless another linkd takes over."""
        while True:
            timeout_s = min(self._due_at - time.monotonic(), _AGAIN_S)
            ready = self._chosen.select(max(0.0, timeout_s))
            if any(key.fileobj is self._stop for key, _ in ready):
                break
            for key, _ in ready:
                key.data(key.fileobj)
            serves = self._keep_path()
            if time.monotonic() >= self._due_at:
                if serves:
                    with suppress(SecondLayerError):  # logged, and tried again
                        self._node.reload_if_changed()
                self._followed_at = time.monotonic()
                again = _LATEST_S if self._node.is_settled else _AGAIN_S
                self._due_at = self._followed_at + again
        if not self._keep_path() or self._turn.pass_on():
            _log.info("the rules stay: another linkd serves")
            return
        try:
            self._node.remove()
        except SecondLayerError as err:
            sys.exit(f"tessera-linkd: rules may remain: {err}")
        finally:
            self._path.unlink(missing_ok=True)
        _log.info("no rule is left")

    def _listen(self) -> None:
        self._listener = _listen(self._path)
        self._inode = self._path.stat().st_ino
        self._chosen.register(self._listener, selectors.EVENT_READ, self._accept)

    def _keep_path(self) -> bool:
        """Return whether the path leads to this linkd; listen there again if it leads to none.

        Earlier versions know no turn: one that starts takes the path, and enforces; one that ends
        removes it.
        """
        with suppress(FileNotFoundError):
            if self._path.stat().st_ino == self._inode:
                return True
        if socket_paths.is_served(self._path, socket.SOCK_STREAM):
            return False
        _log.warning("listening again: %s was removed", self._path)
        self._chosen.unregister(self._listener)
        self._listener.close()
        self._listen()
        return True

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
