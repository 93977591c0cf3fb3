"""Protection domains of a client."""

import errno
from typing import Final

from hca.binding.engine import Engine
from hca.contract import hca
from hca.contract.hca import HcaHandle
from hca.daemon.common.handover_state import Luggage, Row
from hca.daemon.common.numbers import Numbers
from hca.daemon.objects.checks import get, limit, refused
from hca.daemon.objects.client import ClientPlace

_OBJECT_BYTES: Final = 256


class Domains(ClientPlace):
    """A client's protection domains."""

    def __init__(
        self, engine: Engine, numbers: Numbers, gids: tuple[bytes, ...], memory_bytes: int
    ) -> None:
        """Begin with none. Raises OSError."""
        super().__init__(engine, numbers, gids, memory_bytes)
        self._pds: dict[int, int] = {}
        """Protection domains, and how many objects each has."""

    def create_pd(self) -> HcaHandle:
        """Allocate a protection domain. Raises OSError."""
        limit(self._pds, hca.HCA_MAX_PDS)
        # Every client draws from the same numbers: in the engine they mean one domain each.
        self.share.take(0, 0, _OBJECT_BYTES)
        number = self._numbers.new_pd()
        self._pds[number] = 0
        return HcaHandle(number)

    def destroy_pd(self, handle: int) -> None:
        """Free one that nothing uses. Raises OSError."""
        if get(self._pds, handle):
            raise refused(errno.EBUSY)
        del self._pds[handle]
        self.share.give(0, 0, _OBJECT_BYTES)

    def save_pd(self, handle: int, luggage: Luggage) -> Row:
        """Write one for a successor."""
        del luggage
        return {"handle": handle}

    def load_pd(self, row: Row, luggage: Luggage) -> None:
        """Take over one of a predecessor's."""
        del luggage
        self.share.take(0, 0, _OBJECT_BYTES)
        self._pds[int(row["handle"])] = 0
