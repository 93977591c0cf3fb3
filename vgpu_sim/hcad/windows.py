"""Memory windows of a client: made here, bound and invalidated by requests."""

import errno
from dataclasses import dataclass

from vgpu_sim.fabric.engine import Engine, EngineWindow
from vgpu_sim.hal import hca
from vgpu_sim.hal.hca import HcaHandle
from vgpu_sim.hal.verbs import VerbsMwType
from vgpu_sim.hcad.checks import get, limit, refused
from vgpu_sim.hcad.domains import Domains
from vgpu_sim.hcad.numbers import Numbers


@dataclass(slots=True)
class _Window:
    engine: EngineWindow
    pd: int


class Windows(Domains):
    """A client's memory windows."""

    def __init__(
        self, engine: Engine, numbers: Numbers, gids: tuple[bytes, ...], memory_bytes: int
    ) -> None:
        """Begin with none. Raises OSError."""
        super().__init__(engine, numbers, gids, memory_bytes)
        self._windows: dict[int, _Window] = {}

    def create_window(self, wanted: hca.HcaMwCreate) -> HcaHandle:
        """Allocate a window; the handle is its first key. Raises OSError."""
        limit(self._windows, hca.HCA_MAX_MWS)
        get(self._pds, wanted.pd)
        if wanted.type not in tuple(VerbsMwType):
            raise refused(errno.EINVAL)
        key = self._numbers.new_key()
        try:
            made = self._engine.add_window(self._client, key, wanted)
        except OSError:
            self._numbers.free_key(key)
            raise
        self._windows[key] = _Window(made, wanted.pd)
        self._pds[wanted.pd] += 1
        return HcaHandle(key)

    def destroy_window(self, key: int) -> None:
        """Free a window, bound or not. Raises OSError."""
        window = get(self._windows, key)
        del self._windows[key]
        self._engine.remove_window(window.engine)
        self._numbers.free_key(key)
        self._pds[window.pd] -= 1
