"""Who may connect with whom: what the connection manager asks before it hands a request on."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from hca.contract.cm import CmPortSpace
from hca.daemon.cm.messages import MOST_DATA, Reason, Rej


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that a policy denies; the requester reads ``reason`` in the private data."""

    reason: str

    @property
    def code(self) -> int:
        """Return the reason of the REJ: the consumer's own."""
        return Reason.CONSUMER_DEFINED

    @property
    def data(self) -> bytes:
        """Return the private data of the REJ."""
        return self.reason.encode()[: MOST_DATA[Rej]]


@dataclass(frozen=True, slots=True)
class Service:
    """What a connection was asked for: an RDMA-CM port and its space, as ``rdma.tables.Flow``.

    ``is_server``: this side served it.
    """

    port: int
    space: str
    is_server: bool = False


MayConnect = Callable[[str, str, int, str], Refusal | None]
"""Source, destination (addresses as text, IPv4 where mapped), port, space; None: it may."""


def allow_all(source: str, destination: str, port: int, space: str) -> None:
    """Deny nothing: where there are no policies."""
    del source, destination, port, space


@lru_cache(maxsize=1024)
def service_of(service_id: int, *, is_server: bool = False) -> Service:
    """Return what a service id of RDMA-CM names: space * 65,536 + port."""
    number = service_id >> 16
    known = number in list(CmPortSpace)
    space = CmPortSpace(number).name if known else f"{number:#x}"
    return Service(service_id & 0xFFFF, space, is_server)
