"""The connection manager of a running hcad: its clock, and what addresses mean on its fabric."""

import asyncio
import socket
import time
from collections.abc import Callable
from ipaddress import IPv6Address

from vgpu_sim.hcad import cm_private
from vgpu_sim.hcad.cm_ids import Ids
from vgpu_sim.hcad.cm_manager import Manager


class CmServer:
    """A manager in an event loop.

    ``shared_loopback``: the loopback, and the addresses of this machine, mean the whole fabric, as
    programs that a user starts beside each other expect; otherwise a function's own.
    """

    def __init__(self, *, shared_loopback: bool = False) -> None:
        self.shared_loopback = shared_loopback
        self._timer: asyncio.TimerHandle | None = None
        self.manager = Manager(time.monotonic, self._defer, self._wake)

    def ids(self, gids: tuple[bytes, ...]) -> Ids:
        """Return the ids of a new client of the function that has these GIDs."""
        return Ids(self.manager, gids, self.is_near, shared_loopback=self.shared_loopback)

    def is_near(self, address: bytes) -> bool:
        """Tell whether an address is the loopback's, or one of this machine where those count."""
        whole = IPv6Address(address)
        if (whole.ipv4_mapped or whole).is_loopback:
            return True
        return self.shared_loopback and _is_of_this_machine(address)

    @staticmethod
    def _defer(call: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(call)

    def _wake(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()  # its clock is the manager's: the monotonic one
        self._timer = loop.call_at(when, self.manager.tick)


def _is_of_this_machine(address: bytes) -> bool:
    """Tell whether a socket could be bound to it."""
    if address == bytes(16):
        return False
    family = socket.AF_INET if cm_private.is_mapped(address) else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as probe:
        try:
            probe.bind((cm_private.text(address), 0))
        except OSError:
            return False
    return True
