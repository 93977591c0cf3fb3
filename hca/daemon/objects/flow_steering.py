"""Rules that steer frames to a client's raw packet queue pairs.

A rule needs no policy evaluation, because the engine checks sender and receiver of each frame.
"""

import errno
from typing import Final

from hca.binding.engine import Engine, EngineSteer
from hca.contract import hca_frames
from hca.contract.hca import HcaHandle
from hca.contract.verbs import VerbsQpType
from hca.daemon.common.handover_state import HandoverState, Row, from_base64, to_base64
from hca.daemon.common.numbers import Numbers
from hca.daemon.objects.checks import check_range, check_room, get, os_error
from hca.daemon.objects.multicast_groups import MulticastGroups
from vgpu_sim.records import dataclass

_OBJECT_BYTES: Final = 4096


@dataclass(slots=True)
class _Steer:
    engine: EngineSteer
    targets: frozenset[int]
    wanted: bytes


class FlowSteering(MulticastGroups):
    """A client's steering rules, which the verbs API calls flows."""

    def __init__(
        self, engine: Engine, numbers: Numbers, gids: tuple[bytes, ...], memory_bytes: int
    ) -> None:
        """Add the client to the engine. It has no steering rules yet. Raises OSError."""
        super().__init__(engine, numbers, gids, memory_bytes)
        self._steers: dict[int, _Steer] = {}

    def create_steer(self, request: hca_frames.HcaSteerCreate) -> HcaHandle:
        """Add a rule that steers matching frames to queue pairs of this client. Raises OSError."""
        check_room(self._steers, hca_frames.HCA_MAX_STEERS)
        handle = self._handle()
        self._add_steer(handle, request)
        return HcaHandle(handle)

    def _add_steer(self, handle: int, request: hca_frames.HcaSteerCreate) -> None:
        check_range(request.target_count, 1, hca_frames.HCA_STEER_TARGETS)
        numbers = request.targets[: request.target_count]
        pairs = [get(self._qps, number) for number in numbers]
        if any(qp.type != VerbsQpType.RAW_PACKET for qp in pairs):
            raise os_error(errno.EINVAL)
        with self.share.charging(_OBJECT_BYTES):
            self._guard.charge_steering_rule()
            try:
                engine_steer = self._engine.add_steer(request, [qp.engine for qp in pairs])
            except OSError:
                self._guard.release_steering_rule()
                raise
        self._steers[handle] = _Steer(engine_steer, frozenset(numbers), bytes(request))

    def destroy_steer(self, handle: int) -> None:
        """Remove a steering rule. Raises OSError."""
        self._engine.remove_steer(get(self._steers, handle).engine)
        del self._steers[handle]
        self._guard.release_steering_rule()
        self.share.refund(0, 0, _OBJECT_BYTES)

    def destroy_qp(self, number: int) -> None:
        """Remove a queue pair, and the steering rules that name it. Raises OSError."""
        get(self._qps, number)
        for handle in [h for h, steer in self._steers.items() if number in steer.targets]:
            self.destroy_steer(handle)
        super().destroy_qp(number)

    def save_steer(self, handle: int, handover_state: HandoverState) -> Row:
        """Return the steering rule's record for a successor."""
        del handover_state
        return {"handle": handle, "request": to_base64(self._steers[handle].wanted)}

    def load_steer(self, row: Row, handover_state: HandoverState) -> None:
        """Restore a predecessor's steering rule. Raises OSError, ValueError, KeyError."""
        del handover_state
        request = hca_frames.HcaSteerCreate.from_buffer_copy(from_base64(row["request"]))
        self._add_steer(int(row["handle"]), request)
