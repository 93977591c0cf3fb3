"""A client's address handles: the destinations of its datagrams."""

import errno
from typing import Final

from hca.binding.engine import Engine, EngineAh
from hca.contract import hca, hca_objects
from hca.contract.hca import HcaHandle
from hca.daemon.common.handover_state import HandoverState, Row, from_base64, to_base64
from hca.daemon.common.numbers import Numbers
from hca.daemon.objects.checks import check_room, get, os_error
from hca.daemon.objects.domains import Domains
from vgpu_sim.records import dataclass

_OBJECT_BYTES: Final = 4096  # with its verdict, and the rows that count both directions


@dataclass(slots=True)
class _Path:
    engine: EngineAh
    pd: int
    wanted: bytes


class AddressHandles(Domains):
    """A client's address handles."""

    def __init__(
        self, engine: Engine, numbers: Numbers, gids: tuple[bytes, ...], memory_bytes: int
    ) -> None:
        """Add the client to the engine. It has no address handles yet. Raises OSError."""
        super().__init__(engine, numbers, gids, memory_bytes)
        self._paths: dict[int, _Path] = {}

    def create_ah(self, request: hca_objects.HcaAhCreate) -> HcaHandle:
        """Make an address handle with a global path, as RoCE paths always are. Raises OSError."""
        check_room(self._paths, hca.HCA_MAX_AHS)
        get(self._pds, request.pd)
        good = request.is_global == 1 and request.port == 1 and request.sgid_index < hca.HCA_GIDS
        if not good:
            raise os_error(errno.EINVAL)
        key = self._numbers.new_key()
        try:
            self._add_ah(key, request)
        except OSError:
            self._numbers.free_key(key)
            raise
        return HcaHandle(key)

    def _add_ah(self, key: int, request: hca_objects.HcaAhCreate) -> None:
        with self.share.charging(_OBJECT_BYTES):
            engine_ah = self._engine.add_ah(self._client, key, request)
            try:
                self._guard.authorize_path(engine_ah, request)
            except OSError:
                self._engine.remove_ah(engine_ah)
                raise
        self._paths[key] = _Path(engine_ah, request.pd, bytes(request))
        self._pds[request.pd] += 1

    def destroy_ah(self, key: int) -> None:
        """Remove an address handle; requests that name it fail from then on. Raises OSError."""
        path = get(self._paths, key)
        del self._paths[key]
        self._guard.forget_path(path.engine)
        self._engine.remove_ah(path.engine)
        self.share.refund(0, 0, _OBJECT_BYTES)
        self._numbers.free_key(key)
        self._pds[path.pd] -= 1

    def save_ah(self, key: int, handover_state: HandoverState) -> Row:
        """Return the address handle's record for a successor."""
        del handover_state
        return {"handle": key, "request": to_base64(self._paths[key].wanted)}

    def load_ah(self, row: Row, handover_state: HandoverState) -> None:
        """Restore a predecessor's address handle. Raises OSError, ValueError."""
        del handover_state
        key = int(row["handle"])
        self._numbers.adopt_key(key)
        self._add_ah(key, hca_objects.HcaAhCreate.from_buffer_copy(from_base64(row["request"])))
