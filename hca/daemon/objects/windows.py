"""A client's memory windows: this module allocates them; work requests bind and invalidate them."""

import errno
from typing import Final

from hca.binding.engine import Engine, EngineWindow
from hca.contract import hca, hca_engine, hca_objects
from hca.contract.hca import HcaHandle
from hca.contract.verbs import VerbsMwType
from hca.daemon.common.handover_state import HandoverState, Row, from_base64, to_base64
from hca.daemon.common.numbers import Numbers
from hca.daemon.objects.checks import check_room, get, os_error
from hca.daemon.objects.domains import Domains
from vgpu_sim.records import dataclass

_OBJECT_BYTES: Final = 1024


@dataclass(slots=True)
class _Window:
    engine: EngineWindow
    pd: int
    wanted: bytes


class Windows(Domains):
    """A client's memory windows."""

    def __init__(
        self, engine: Engine, numbers: Numbers, gids: tuple[bytes, ...], memory_bytes: int
    ) -> None:
        """Add the client to the engine. It has no memory windows yet. Raises OSError."""
        super().__init__(engine, numbers, gids, memory_bytes)
        self._windows: dict[int, _Window] = {}

    def create_window(self, request: hca_objects.HcaMwCreate) -> HcaHandle:
        """Allocate a memory window. Raises OSError.

        The returned handle is also the window's first key.
        """
        check_room(self._windows, hca.HCA_MAX_MWS)
        get(self._pds, request.pd)
        if request.type not in tuple(VerbsMwType):
            raise os_error(errno.EINVAL)
        key = self._numbers.new_key()
        try:
            self._add_window(key, request)
        except OSError:
            self._numbers.free_key(key)
            raise
        return HcaHandle(key)

    def _add_window(self, key: int, request: hca_objects.HcaMwCreate) -> EngineWindow:
        with self.share.charging(_OBJECT_BYTES):
            engine_window = self._engine.add_window(self._client, key, request)
        self._windows[key] = _Window(engine_window, request.pd, bytes(request))
        self._pds[request.pd] += 1
        return engine_window

    def destroy_window(self, key: int) -> None:
        """Free a memory window, even if it is bound to a region. Raises OSError."""
        window = get(self._windows, key)
        del self._windows[key]
        self._engine.remove_window(window.engine)
        self.share.refund(0, 0, _OBJECT_BYTES)
        self._numbers.free_key(key)
        self._pds[window.pd] -= 1

    def save_window(self, key: int, handover_state: HandoverState) -> Row:
        """Return the memory window's record for a successor; the engine must be suspended
        (``Engine.suspend``).
        """
        del handover_state
        window = self._windows[key]
        progress = to_base64(bytes(self._engine.save_window(window.engine)))
        return {"handle": key, "request": to_base64(window.wanted), "progress": progress}

    def load_window(self, row: Row, handover_state: HandoverState) -> None:
        """Restore a predecessor's memory window; the engine must be suspended (``Engine.suspend``).

        Raises OSError, ValueError.
        """
        del handover_state
        key = int(row["handle"])
        progress = hca_engine.HcaSavedWindow.from_buffer_copy(from_base64(row["progress"]))
        self._numbers.adopt_key(key)
        engine_window = self._add_window(
            key, hca_objects.HcaMwCreate.from_buffer_copy(from_base64(row["request"]))
        )
        self._engine.load_window(engine_window, progress)
