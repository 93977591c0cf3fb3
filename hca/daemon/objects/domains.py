"""Protection domains of a client."""

import errno
from typing import Final

from hca.binding.engine import Engine
from hca.contract import hca
from hca.contract.hca import HcaHandle
from hca.daemon.common.handover_state import HandoverState, Row
from hca.daemon.common.numbers import Numbers
from hca.daemon.objects.checks import check_room, get, os_error
from hca.daemon.objects.client import ClientPlace

_OBJECT_BYTES: Final = 256


class Domains(ClientPlace):
    """A client's protection domains."""

    def __init__(
        self, engine: Engine, numbers: Numbers, gids: tuple[bytes, ...], memory_bytes: int
    ) -> None:
        """Add the client to the engine. It has no protection domains yet. Raises OSError."""
        super().__init__(engine, numbers, gids, memory_bytes)
        self._pds: dict[int, int] = {}
        """The number of objects in each protection domain."""

    def create_pd(self) -> HcaHandle:
        """Allocate a protection domain. Raises OSError."""
        check_room(self._pds, hca.HCA_MAX_PDS)
        # Numbers are unique over all clients, as the engine identifies domains by number alone.
        self.share.charge(0, 0, _OBJECT_BYTES)
        number = self._numbers.new_pd()
        self._pds[number] = 0
        return HcaHandle(number)

    def destroy_pd(self, handle: int) -> None:
        """Free a protection domain that contains no objects. Raises OSError."""
        if get(self._pds, handle):
            raise os_error(errno.EBUSY)
        del self._pds[handle]
        self.share.refund(0, 0, _OBJECT_BYTES)

    def save_pd(self, handle: int, handover_state: HandoverState) -> Row:
        """Return the protection domain's record for a successor."""
        del handover_state
        return {"handle": handle}

    def load_pd(self, row: Row, handover_state: HandoverState) -> None:
        """Restore a protection domain from a predecessor's record."""
        del handover_state
        self.share.charge(0, 0, _OBJECT_BYTES)
        self._pds[int(row["handle"])] = 0
