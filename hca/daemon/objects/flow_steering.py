"""Which frames a client's raw packet queue pairs get.

Policy is not asked here: the engine does for each frame, of both its ends.
"""

import errno
from dataclasses import dataclass
from typing import Final

from hca.binding.engine import Engine, EngineSteer
from hca.contract import hca_frames
from hca.contract.hca import HcaHandle
from hca.contract.verbs import VerbsQpType
from hca.daemon.common.handover_state import Luggage, Row, data, text
from hca.daemon.common.numbers import Numbers
from hca.daemon.objects.checks import check_range, get, limit, refused
from hca.daemon.objects.multicast_groups import Groups

_OBJECT_BYTES: Final = 4096


@dataclass(slots=True)
class _Steer:
    engine: EngineSteer
    targets: frozenset[int]
    wanted: bytes


class Steering(Groups):
    """A client's rules for frames: what verbs call flows."""

    def __init__(
        self, engine: Engine, numbers: Numbers, gids: tuple[bytes, ...], memory_bytes: int
    ) -> None:
        """Begin with none. Raises OSError."""
        super().__init__(engine, numbers, gids, memory_bytes)
        self._steers: dict[int, _Steer] = {}

    def create_steer(self, wanted: hca_frames.HcaSteerCreate) -> HcaHandle:
        """Have frames that match go to queue pairs of this client. Raises OSError."""
        limit(self._steers, hca_frames.HCA_MAX_STEERS)
        handle = self._handle()
        self._add_steer(handle, wanted)
        return HcaHandle(handle)

    def _add_steer(self, handle: int, wanted: hca_frames.HcaSteerCreate) -> None:
        check_range(wanted.target_count, 1, hca_frames.HCA_STEER_TARGETS)
        numbers = wanted.targets[: wanted.target_count]
        pairs = [get(self._qps, number) for number in numbers]
        if any(qp.type != VerbsQpType.RAW_PACKET for qp in pairs):
            raise refused(errno.EINVAL)
        with self.share.paying(_OBJECT_BYTES):
            self._guard.take_steer()
            try:
                made = self._engine.add_steer(wanted, [qp.engine for qp in pairs])
            except OSError:
                self._guard.give_steer()
                raise
        self._steers[handle] = _Steer(made, frozenset(numbers), bytes(wanted))

    def destroy_steer(self, handle: int) -> None:
        """Remove a rule. Raises OSError."""
        self._engine.remove_steer(get(self._steers, handle).engine)
        del self._steers[handle]
        self._guard.give_steer()
        self.share.give(0, 0, _OBJECT_BYTES)

    def destroy_qp(self, number: int) -> None:
        """Remove a queue pair, and the rules that name it. Raises OSError."""
        get(self._qps, number)
        for handle in [h for h, steer in self._steers.items() if number in steer.targets]:
            self.destroy_steer(handle)
        super().destroy_qp(number)

    def save_steer(self, handle: int, luggage: Luggage) -> Row:
        """Write one for a successor."""
        del luggage
        return {"handle": handle, "request": text(self._steers[handle].wanted)}

    def load_steer(self, row: Row, luggage: Luggage) -> None:
        """Take over one of a predecessor's. Raises OSError, ValueError, KeyError."""
        del luggage
        wanted = hca_frames.HcaSteerCreate.from_buffer_copy(data(row["request"]))
        self._add_steer(int(row["handle"]), wanted)
