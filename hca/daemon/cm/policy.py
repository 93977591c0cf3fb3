"""The policy check that the connection manager makes before it passes a request on."""

from collections.abc import Callable
from functools import lru_cache

from hca.contract.cm import CmPortSpace
from hca.daemon.cm.messages import MOST_DATA, Reason, Rej
from vgpu_sim.records import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """The refusal of a request by policy; the requester finds ``reason`` in the REJ's private
    data.
    """

    reason: str

    @property
    def code(self) -> int:
        """Return the reason code of the REJ: "consumer defined"."""
        return Reason.CONSUMER_DEFINED

    @property
    def data(self) -> bytes:
        """Return the private data of the REJ."""
        return self.reason.encode()[: MOST_DATA[Rej]]


@dataclass(frozen=True, slots=True)
class Service:
    """The service of a connection: an RDMA-CM port and its space, as in ``rdma.tables.Flow``.

    ``is_server`` is set if this side of the connection received the connection request.
    """

    port: int
    space: str
    is_server: bool = False


MayConnect = Callable[[str, str, int, str], Refusal | None]
"""A policy check, which returns None to permit a request.

Its arguments are source and destination (as text; IPv4 if mapped), port and port space.
"""


def allow_all(source: str, destination: str, port: int, space: str) -> None:
    """Permit every request. An hcad without policies uses this function."""
    del source, destination, port, space


@lru_cache(maxsize=1024)
def service_of(service_id: int, *, is_server: bool = False) -> Service:
    """Return the service that an RDMA-CM service id stands for; the id is port space * 65,536 +
    port.
    """
    number = service_id >> 16
    is_known_space = number in list(CmPortSpace)
    space = CmPortSpace(number).name if is_known_space else f"{number:#x}"
    return Service(service_id & 0xFFFF, space, is_server)
