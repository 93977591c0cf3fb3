"""The worker's channel to gpud. It carries reservations, events and statistics to gpud, and fences
from gpud.
"""

import array
import select
import socket
import time
from collections.abc import Callable
from typing import Any, Final

from vgpu_sim.hal.compute import spawn

_ANSWER_TIMEOUT_S: Final = 10.0
_MAX_MESSAGE_BYTES: Final = 65536
_SUCCESSOR_S: Final = 10.0  # how long a request waits for the next gpud


class GpudGoneError(Exception):
    """gpud has closed the channel, or does not answer in time."""


class Channel:
    """The worker's end of its channel to gpud; each packet is one JSON message. Not thread-safe:
    only the worker's main thread uses it.

    ``interrupt`` is a descriptor that becomes readable when the context has faulted. A wait for an
    answer then ends. ``on_fence`` is called when a fence arrives. Its arguments are the fence's
    reason, and the CUresult if the GPU failed, else 0.

    ``on_share`` is called when another worker opens shared memory. Its arguments are the connection
    to that worker and the memory's key.

    ``on_export`` is called when hcad requests memory. Its arguments are hcad's connection, the
    address and size of the memory, and bytes. The bytes are empty unless hcad requests a part of a
    shared range. In that case they are the content of the range's descriptor, and the address is an
    offset in the range.

    gpud's first message carries the reconnect socket. A gpud process that is started later sends
    a new connection on this socket.
    """

    def __init__(
        self,
        connection: socket.socket,
        interrupt: int,
        on_fence: Callable[[str, int], None],
        on_export: Callable[[socket.socket, int, int, bytes], None],
        on_share: Callable[[socket.socket, str], None] = lambda *_: None,
    ) -> None:
        self._connection = connection
        self._interrupt = interrupt
        self._on_fence = on_fence
        self._on_export = on_export
        self._on_share = on_share
        self._passed: socket.socket | None = None
        self._reconnect: socket.socket | None = None
        self.on_reconnected: Callable[[], None] = lambda: None
        """Called when a later gpud has connected while a request waited for its answer; the
        function must call ``resume``.
        """
        self._sandbox: dict[str, bool] = {}
        self._requests = 0
        self._held_bytes = 0
        self._allocations = 0
        self.alive = True

    def fileno(self) -> int:
        return self._connection.fileno()

    def descriptors(self) -> set[int]:
        """Return the descriptors that the main loop must poll: the connection and the reconnect
        socket.
        """
        live = {self._connection.fileno()} if self.alive else set()
        return live if self._reconnect is None else {*live, self._reconnect.fileno()}

    def reserve(self, size: int) -> bool:
        """Request ``size`` bytes of the slice's budget; return False if gpud refuses.

        Raises:
            GpudGoneError: gpud does not answer.
        """
        answer = self._ask({"type": "reserve", "bytes": size}, "reserved")
        granted = answer.get("granted") is True
        self._held_bytes += size if granted else 0
        self._allocations += granted
        return granted

    def release(self, size: int) -> None:
        """Release ``size`` bytes of reserved memory."""
        self._held_bytes -= size
        self._send({"type": "release", "bytes": size})

    def release_all(self) -> None:
        """Release all reserved memory, because the process is about to end."""
        if self._held_bytes > 0:
            self.release(self._held_bytes)

    def offer(self, key: str, share: int, size: int) -> int:
        """Offer a chunk to other workers; return its share, or 0 if gpud refuses.

        Raises:
            GpudGoneError: gpud does not answer.
        """
        answer = self._ask({"type": "offer", "key": key, "share": share, "bytes": size}, "offered")
        return int(answer.get("share", 0))

    def withdraw(self, key: str) -> None:
        """Withdraw a key of an offered chunk."""
        self._send({"type": "withdraw", "key": key})

    def open(self, key: str) -> tuple[int, int, socket.socket | None]:
        """Request memory that another worker offers. Return its share (0: there is none), its size,
        and a connection to that worker.

        Raises:
            GpudGoneError: gpud does not answer.
        """
        self._passed = None
        answer = self._ask({"type": "open", "key": key}, "opened")
        passed, self._passed = self._passed, None
        return int(answer.get("share", 0)), int(answer.get("bytes", 0)), passed

    def leave(self, share: int) -> tuple[bool, bool]:
        """Leave shared memory (0: all). Return whether gpud knows it, and whether no other worker
        holds it. A gpud that is late is assumed to know it, because it will act on the request.
        """
        try:
            answer = self._ask({"type": "leave", "share": share}, "left")
        except GpudGoneError:
            return self.alive, False
        return answer.get("known") is True, answer.get("last") is True

    def memory(self) -> tuple[int, int]:
        """Return the free memory and the total memory of the slice, in bytes.

        Raises:
            GpudGoneError: gpud does not answer.
        """
        answer = self._ask({"type": "memory"}, "memory")
        free, total = answer.get("free"), answer.get("total")
        if not isinstance(free, int) or not isinstance(total, int):
            raise GpudGoneError("gpud's answer lacks the sizes of memory")
        return free, total

    def start(self, sandbox: dict[str, bool]) -> None:
        """Report to gpud that the context is ready to serve, and which sandbox mechanisms are
        active.
        """
        self._sandbox = sandbox
        self._receive()  # the reconnect socket, even if gpud ends before it sends anything else
        self.report_event("started", sandbox=sandbox)

    def accept_reconnect(self) -> bool:
        """Accept the connection that a restarted gpud has sent; return False if there is none."""
        if self._reconnect is None:
            return False
        connection = self._receive_connection(self._reconnect)
        if connection is None:
            return False
        self._connection.close()
        self._connection, self.alive = connection, True
        return True

    def resume(self, **counters: int | str) -> None:
        """Report to a restarted gpud the state that it needs: how much memory is reserved, the
        counters, and the sandbox mechanisms.
        """
        account = {"held_bytes": self._held_bytes, "allocations": self._allocations}
        self._send({"type": "resume", "sandbox": self._sandbox, **account, **counters})

    @staticmethod
    def _receive_connection(reconnect: socket.socket) -> socket.socket | None:
        try:
            _, descriptors = receive_now(reconnect)
        except OSError:
            return None
        return _socket_of(socket.SOCK_SEQPACKET, descriptors[0]) if descriptors else None

    def report_event(self, name: str, **details: Any) -> None:
        """Report an event to gpud, which shows it to the user."""
        self._send({"type": "event", "event": name, **details})

    def report_usage(self, **fields: Any) -> None:
        """Report a part of the context's usage to gpud, when the context ends."""
        self._send({"type": "usage", **fields})

    def report_modelled(self, fields: dict[str, Any]) -> None:
        """Report a part of the modelled clock's records to gpud, when the context ends."""
        self._send({"type": "modelled", **fields})

    def report_stats(self, **counters: int | str) -> None:
        """Report the launch counters and the running kernel to gpud."""
        self._send({"type": "stats", **counters})

    def close(self) -> None:
        """Close the channel's connection and its reconnect socket."""
        self._connection.close()
        if self._reconnect is not None:
            self._reconnect.close()

    def read(self) -> None:
        """Handle messages that arrive while no request waits for an answer."""
        self._receive()

    def _send(self, message: dict[str, Any]) -> None:
        """Send a message, waiting while the socket is full: gpud throttles a worker that sends too
        much.
        """
        data = spawn.encode(message)
        deadline = time.monotonic() + _ANSWER_TIMEOUT_S
        while self.alive:
            try:
                self._connection.send(data, socket.MSG_DONTWAIT)
            except BlockingIOError:
                self.alive = self._wait(select.POLLOUT, deadline)
            except OSError:
                self.alive = False
            else:
                return

    def _ask(self, message: dict[str, Any], answer_type: str) -> dict[str, Any]:
        deadline = time.monotonic() + _SUCCESSOR_S
        while True:
            try:
                return self._ask_once(message, answer_type)
            except GpudGoneError:
                if not self._wait_for_successor(deadline):
                    raise

    def _wait_for_successor(self, deadline: float) -> bool:
        """Wait until a later gpud connects; return False on timeout."""
        if self.alive or self._reconnect is None:
            return False
        poller = select.poll()
        poller.register(self._reconnect, select.POLLIN)
        poller.register(self._interrupt, select.POLLIN)
        timeout_s = max(0.0, deadline - time.monotonic())
        ready = [descriptor for descriptor, _ in poller.poll(timeout_s * 1000)]
        if not ready or self._interrupt in ready or not self.accept_reconnect():
            return False
        self.on_reconnected()
        return True

    def _ask_once(self, message: dict[str, Any], answer_type: str) -> dict[str, Any]:
        self._requests += 1
        self._send({**message, "request": self._requests})
        deadline = time.monotonic() + _ANSWER_TIMEOUT_S
        while self.alive and self._wait(select.POLLIN, deadline):
            answer = self._receive()
            if answer.get("type") == answer_type and answer.get("request") == self._requests:
                return answer
        raise GpudGoneError("gpud does not answer")

    def _wait(self, event: int, deadline: float) -> bool:
        """Wait until the connection is ready; return False on timeout or interruption."""
        poller = select.poll()
        poller.register(self._connection, event)
        poller.register(self._interrupt, select.POLLIN)
        timeout_s = max(0.0, deadline - time.monotonic())
        ready = [descriptor for descriptor, _ in poller.poll(timeout_s * 1000)]
        return bool(ready) and self._interrupt not in ready

    def _receive(self) -> dict[str, Any]:
        descriptors: list[int] = []
        try:
            data, descriptors = receive_now(self._connection)
        except BlockingIOError:
            return {}
        except OSError:
            data = b""
        if not data:
            self.alive = False
            return {}
        try:
            message = spawn.decode(data)
        except ValueError:
            return {}
        if message["type"] == "fence":
            self._on_fence(str(message.get("reason", "")), int(message.get("error", 0)))
        if message["type"] == "reconnect" and descriptors:
            self._reconnect = _socket_of(socket.SOCK_DGRAM, descriptors[0])
        if message["type"] == "left":  # perhaps late
            self._held_bytes -= int(message.get("bytes", 0))
        if message["type"] == "charged":
            self._held_bytes += int(message.get("bytes", 0))
        if message["type"] == "opened" and descriptors:
            self._passed = _socket_of(socket.SOCK_SEQPACKET, descriptors[0])
        if message["type"] == "export" and descriptors and message.get("key"):
            self._on_share(_socket_of(socket.SOCK_SEQPACKET, descriptors[0]), message["key"])
        elif message["type"] == "export" and descriptors:
            address, size_bytes = int(message["address"]), int(message["bytes"])
            asker = _socket_of(socket.SOCK_SEQPACKET, descriptors[0])
            serialized_range = bytes.fromhex(message.get("range", ""))
            self._on_export(asker, address, size_bytes, serialized_range)
        return message


def receive_now(sock: socket.socket) -> tuple[bytes, list[int]]:
    """Receive a message and up to one descriptor without waiting (``recv_fds`` ignores its flags).

    Raises OSError; BlockingIOError if there is no message.
    """
    flags = socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
    descriptors = array.array("i")
    room = socket.CMSG_LEN(descriptors.itemsize)
    data, ancillary, _, _ = sock.recvmsg(_MAX_MESSAGE_BYTES, room, flags)
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(content[: descriptors.itemsize])
    return data, descriptors.tolist()


def _socket_of(kind: socket.SocketKind, descriptor: int) -> socket.socket:
    """Return a socket object of the given kind: detecting the kind takes forbidden system calls."""
    return socket.socket(socket.AF_UNIX, kind, 0, descriptor)
