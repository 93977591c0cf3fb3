"""Run the connection manager in hcad's event loop, and decide what local addresses mean."""

import asyncio
import time
from collections.abc import Callable
from ipaddress import IPv6Address
from pathlib import Path

from hca.contract.hca import HCA_MAX_MTU
from hca.daemon.cm.identifiers import Ids
from hca.daemon.cm.manager import Manager
from hca.daemon.common.quotas import Share


class CmServer:
    """A connection manager in an event loop.

    If ``shared_loopback`` is set, a program that connects to a loopback address or to one of
    this machine's addresses reaches any function of the fabric that serves the port. Programs
    that a user starts on one machine expect this. Otherwise, a program that connects to a
    loopback address reaches its own function.
    """

    def __init__(
        self, *, shared_loopback: bool = False, near: frozenset[bytes] = frozenset()
    ) -> None:
        """Make the connection manager; ``near`` are this machine's addresses (from
        ``local_addresses``).
        """
        self.shared_loopback = shared_loopback
        self._near = near
        self._timer: asyncio.TimerHandle | None = None
        self.manager = Manager(time.monotonic, self._defer, self._wake)

    def new_ids(
        self, gids: tuple[bytes, ...], mtu: int = HCA_MAX_MTU, share: Share | None = None
    ) -> Ids:
        """Return an empty set of communication ids for a new client.

        ``gids`` and ``mtu`` are those of the client's function; ``mtu`` is an ibv_mtu.

        Raises:
            OSError: ENOMEM if the function's quota is used up.
        """
        shared = self.shared_loopback
        return Ids(self.manager, gids, self.is_near, shared_loopback=shared, mtu=mtu, share=share)

    def is_near(self, address: bytes) -> bool:
        """Return whether an address is a loopback address.

        On a shared loopback, the result is also true for this machine's other addresses.
        """
        whole = IPv6Address(address)
        if (whole.ipv4_mapped or whole).is_loopback:
            return True
        return self.shared_loopback and address in self._near

    @staticmethod
    def _defer(call: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(call)

    def _wake(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()  # has the manager's clock: the monotonic one
        self._timer = loop.call_at(when, self.manager.tick)


def local_addresses(proc: Path = Path("/proc/self/net")) -> frozenset[bytes]:
    """Return the addresses of this network namespace as 16 bytes each, with IPv4 addresses mapped.

    hcad calls this before it enters its sandbox, in which it cannot read the files below
    ``proc``.
    """
    addresses: set[IPv6Address] = set()
    previous_line = ""
    for line in _lines(proc / "fib_trie"):  # an address, then a line with its kind
        if line.startswith("/32 host LOCAL"):
            addresses.add(IPv6Address(f"::ffff:{previous_line}"))
        previous_line = line.removeprefix("|-- ")
    for line in _lines(proc / "if_inet6"):
        addresses.add(IPv6Address(bytes.fromhex(line.split()[0])))
    return frozenset(address.packed for address in addresses)


def _lines(path: Path) -> list[str]:
    try:
        return [line.strip() for line in path.read_text(encoding="ascii").splitlines()]
    except OSError:
        return []  # the kernel lacks this protocol
