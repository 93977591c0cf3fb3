"""The connection manager of a running hcad: its clock, and what addresses mean on its fabric."""

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
    """A manager in an event loop.

    ``shared_loopback``: the loopback, and the addresses of this machine, mean the whole fabric, as
    programs that a user starts beside each other expect; otherwise a function's own.
    """

    def __init__(
        self, *, shared_loopback: bool = False, near: frozenset[bytes] = frozenset()
    ) -> None:
        """``near``: this machine's addresses (``local_addresses``)."""
        self.shared_loopback = shared_loopback
        self._near = near
        self._timer: asyncio.TimerHandle | None = None
        self.manager = Manager(time.monotonic, self._defer, self._wake)

    def ids(
        self, gids: tuple[bytes, ...], mtu: int = HCA_MAX_MTU, share: Share | None = None
    ) -> Ids:
        """Return the ids of a new client of the function that has these GIDs and this ibv_mtu.

        Raises:
            OSError: ENOMEM, its function has too much already.
        """
        shared = self.shared_loopback
        return Ids(self.manager, gids, self.is_near, shared_loopback=shared, mtu=mtu, share=share)

    def is_near(self, address: bytes) -> bool:
        """Tell whether an address is the loopback's, or one of this machine where those count."""
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
        loop = asyncio.get_running_loop()  # its clock is the manager's: the monotonic one
        self._timer = loop.call_at(when, self.manager.tick)


def local_addresses(proc: Path = Path("/proc/self/net")) -> frozenset[bytes]:
    """Return the addresses of this network namespace, 16 bytes each, IPv4 mapped.

    hcad asks before it stands behind its walls, where there are no files.
    """
    found: set[IPv6Address] = set()
    before = ""
    for line in _lines(proc / "fib_trie"):  # an address, then what it is
        if line.startswith("/32 host LOCAL"):
            found.add(IPv6Address(f"::ffff:{before}"))
        before = line.removeprefix("|-- ")
    for line in _lines(proc / "if_inet6"):
        found.add(IPv6Address(bytes.fromhex(line.split()[0])))
    return frozenset(address.packed for address in found)


def _lines(path: Path) -> list[str]:
    try:
        return [line.strip() for line in path.read_text(encoding="ascii").splitlines()]
    except OSError:
        return []  # a kernel without that protocol
