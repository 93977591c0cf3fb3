"""The worker's channel to gpud: memory budget up, events and statistics up, fences down."""

import select
import socket
import time
from collections.abc import Callable
from typing import Any, Final

from vgpu_sim.hal import spawn

_ANSWER_TIMEOUT_S: Final = 10.0
_MAX_MESSAGE_BYTES: Final = 65536


class GpudGoneError(Exception):
    """gpud has closed the channel, or does not answer in time."""


class Channel:
    """One JSON message a packet. Not thread-safe: only the worker's main thread uses it.

    ``interrupt`` is a descriptor that ends a wait for an answer when it becomes readable (the
    context has faulted); ``on_fence`` gets the reason of a fence, and the CUresult that the
    GPU's failure asks for or 0, whenever one arrives; ``on_export``
    gets who asks for memory, the address and the size, and the range of a descriptor in which the
    address is an offset, or nothing.
    """

    def __init__(
        self,
        connection: socket.socket,
        interrupt: int,
        on_fence: Callable[[str, int], None],
        on_export: Callable[[socket.socket, int, int, bytes], None],
    ) -> None:
        self._connection = connection
        self._interrupt = interrupt
        self._on_fence = on_fence
        self._on_export = on_export
        self._requests = 0
        self._held_bytes = 0
        self.alive = True

    def fileno(self) -> int:
        return self._connection.fileno()

    def reserve(self, size: int) -> bool:
        """Ask for ``size`` bytes of the slice's budget; False when it is refused.

        Raises:
            GpudGoneError: when nobody answers.
        """
        answer = self._ask({"type": "reserve", "bytes": size}, "reserved")
        granted = answer.get("granted") is True
        self._held_bytes += size if granted else 0
        return granted

    def release(self, size: int) -> None:
        """Give budget back."""
        self._held_bytes -= size
        self._send({"type": "release", "bytes": size})

    def release_all(self) -> None:
        """Give back what is held: the process is about to end, and its memory with it."""
        if self._held_bytes:
            self.release(self._held_bytes)

    def memory(self) -> tuple[int, int]:
        """Return (free, total) bytes of the slice.

        Raises:
            GpudGoneError: when nobody answers.
        """
        answer = self._ask({"type": "memory"}, "memory")
        free, total = answer.get("free"), answer.get("total")
        if not isinstance(free, int) or not isinstance(total, int):
            raise GpudGoneError("gpud's answer has no sizes")
        return free, total

    def event(self, name: str, **details: Any) -> None:
        """Report something that the user should hear of."""
        self._send({"type": "event", "event": name, **details})

    def usage(self, **fields: Any) -> None:
        """Report a part of what the context has cost, at its end."""
        self._send({"type": "usage", **fields})

    def modelled(self, fields: dict[str, Any]) -> None:
        """Report a part of what a modelled clock has seen, at its end."""
        self._send({"type": "modelled", **fields})

    def stats(self, **counters: int | str) -> None:
        """Report the launch counters and the kernel that runs."""
        self._send({"type": "stats", **counters})

    def read(self) -> None:
        """Handle what has arrived while nobody waits for an answer."""
        self._receive()

    def _send(self, message: dict[str, Any]) -> None:
        """Send, waiting for room: gpud reads a worker that says much more slowly."""
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
        self._requests += 1
        self._send({**message, "request": self._requests})
        deadline = time.monotonic() + _ANSWER_TIMEOUT_S
        while self.alive and self._wait(select.POLLIN, deadline):
            answer = self._receive()
            if answer.get("type") == answer_type and answer.get("request") == self._requests:
                return answer
        raise GpudGoneError("gpud does not answer")

    def _wait(self, event: int, deadline: float) -> bool:
        """Wait until the connection is ready; False when time is up or the wait is interrupted."""
        poller = select.poll()
        poller.register(self._connection, event)
        poller.register(self._interrupt, select.POLLIN)
        left = max(0.0, deadline - time.monotonic())
        ready = [descriptor for descriptor, _ in poller.poll(left * 1000)]
        return bool(ready) and self._interrupt not in ready

    def _receive(self) -> dict[str, Any]:
        flags = socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
        descriptors: list[int] = []
        try:
            data, descriptors, _, _ = socket.recv_fds(
                self._connection, _MAX_MESSAGE_BYTES, 1, flags
            )
        except BlockingIOError:
            return {}
        except OSError:
            data = b""
        # Said, not found out: that would take system calls that are not allowed here.
        kind = (socket.AF_UNIX, socket.SOCK_SEQPACKET, 0)
        brought = [socket.socket(*kind, descriptor) for descriptor in descriptors]
        if not data:
            self.alive = False
            return {}
        try:
            message = spawn.decode(data)
        except ValueError:
            return {}
        if message["type"] == "fence":
            self._on_fence(str(message.get("reason", "")), int(message.get("error", 0)))
        if message["type"] == "export" and brought:
            place = int(message["address"]), int(message["bytes"])
            self._on_export(brought[0], *place, bytes.fromhex(message.get("range", "")))
        return message
