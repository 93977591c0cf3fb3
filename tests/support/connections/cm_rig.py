"""Clients of the connection manager on one fabric in this process, with a clock that tests set."""

import ctypes
import itertools
import os
from collections import deque
from collections.abc import Callable, Iterator

from hca.binding.addresses import address_of
from hca.contract import cm
from hca.contract.cm import CmEvent, CmEventType as Event, CmPortSpace
from hca.daemon.cm.identifiers import Ids
from hca.daemon.cm.manager import Manager

LOOPBACK = bytes(10) + b"\xff\xff" + bytes((127, 0, 0, 1))


def gid(index: int) -> bytes:
    """Return the GID that connections of the function at ``index`` use."""
    return address_of(index).gids[1]


class Fabric:
    """Functions on one fabric; ``run`` delivers their messages."""

    def __init__(self) -> None:
        self.now = 100.0
        self.queue: deque[Callable[[], None]] = deque()
        self.manager = Manager(lambda: self.now, self.queue.append, lambda when: None)
        self.asking, self.answering = itertools.count(17, 2), itertools.count(18, 2)

    def run(self) -> None:
        """Deliver every message."""
        while self.queue:
            self.queue.popleft()()

    def later(self, seconds: float) -> None:
        """Let time pass, and deliver every message."""
        self.now += seconds
        self.manager.tick()
        self.run()


class Client:
    """A program of a function, with one event channel."""

    def __init__(
        self,
        fabric: Fabric,
        index: int,
        *,
        shared: bool = True,
        gids: tuple[bytes, bytes] | None = None,
    ) -> None:
        self.fabric = fabric
        own = gids or address_of(index).gids
        self.gids, self.gid = own, own[1]
        self.ids = Ids(
            *(fabric.manager, own, lambda address: address == LOOPBACK),
            shared_loopback=shared,
        )
        self.channel, self.fd = self.new_channel()

    def new_channel(self) -> tuple[int, int]:
        """Make a channel; return its handle and its reading end, which does not block."""
        made, fd = self.ids.create_channel()
        os.set_blocking(fd, False)
        return made.handle, fd

    def id(self, space: int = CmPortSpace.TCP, channel: int = 0) -> int:
        """Make an id."""
        return self.ids.create_id(cm.CmIdCreate(channel or self.channel, space)).handle

    def bind(self, one: int, port: int, address: bytes = bytes(16), reuse: int = 0) -> cm.CmRoute:
        """Bind an id."""
        wanted = cm.CmBind(one, reuse)
        ctypes.memmove(wanted.source.address, address, 16)
        wanted.source.port = port
        return self.ids.bind(wanted)

    def listener(self, port: int, backlog: int = 0, space: int = CmPortSpace.TCP) -> int:
        """Make an id that listens."""
        one = self.id(space)
        self.bind(one, port)
        self.ids.listen(cm.CmPair(one, backlog))
        return one

    def resolve(self, one: int, address: bytes, port: int) -> CmEvent:
        """Resolve an address; return the resulting event."""
        wanted = cm.CmBind(one)
        ctypes.memmove(wanted.destination.address, address, 16)
        wanted.destination.port = port
        self.ids.resolve_address(wanted)
        return self.event()

    def new_routed_id(self, address: bytes, port: int, space: int = CmPortSpace.TCP) -> int:
        """Make an id that is ready to connect."""
        one = self.id(space)
        assert self.resolve(one, address, port).type == Event.ADDR_RESOLVED
        self.ids.resolve_route(one)
        assert self.event().type == Event.ROUTE_RESOLVED
        return one

    def queue_pair(self, numbers: Iterator[int]) -> int:
        """Register a queue pair with the next of these numbers for the function; return the
        number.
        """
        number = next(numbers)
        self.fabric.manager.bindings.add_queue_pair(number, self.gids, lambda: None)
        return number

    def connect(self, one: int, data: bytes = b"", qpn: int | None = None, **values: int) -> None:
        """Request a connection for queue pair ``qpn``; None: for a new one."""
        qpn = self.queue_pair(self.fabric.asking) if qpn is None else qpn
        self.ids.connect(parameters(one, data, qpn, **values))
        self.fabric.run()

    def accept(self, one: int, data: bytes = b"", qpn: int | None = None, **values: int) -> None:
        """Accept a request with queue pair ``qpn``; None: with a new one."""
        qpn = self.queue_pair(self.fabric.answering) if qpn is None else qpn
        self.ids.accept(parameters(one, data, qpn, **values))
        self.fabric.run()

    def reject(self, one: int, data: bytes = b"") -> None:
        """Reject a request."""
        no = cm.CmReject(one, len(data))
        ctypes.memmove(no.data, data, len(data))
        self.ids.reject(no)
        self.fabric.run()

    def events(self, fd: int = -1) -> list[CmEvent]:
        """Read and return all events."""
        found = []
        try:
            while raw := os.read(self.fd if fd < 0 else fd, ctypes.sizeof(CmEvent)):
                found.append(CmEvent.from_buffer_copy(raw))
        except BlockingIOError:
            pass
        return found

    def event(self, fd: int = -1) -> CmEvent:
        """Read and return the only event."""
        (one,) = self.events(fd)
        return one

    def types(self) -> list[int]:
        """Read all events; return their types."""
        return [event.type for event in self.events()]

    def close(self) -> None:
        """End the program."""
        self.ids.close()
        os.close(self.fd)
        self.fabric.run()


def parameters(one: int, data: bytes = b"", qpn: int = 17, **values: int) -> cm.CmConnect:
    """Return parameters of a connection; private data may be longer than permitted."""
    wanted = cm.CmConnect(one, qpn, data_bytes=len(data), **values)
    ctypes.memmove(wanted.data, data, min(len(data), cm.CM_MAX_DATA))
    return wanted
