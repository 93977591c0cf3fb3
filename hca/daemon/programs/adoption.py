"""Save and restore programs that opened their function with a predecessor of this hcad.

``handover`` describes the protocol between the two hcads.
"""

import socket

from hca.daemon.common.handover_state import HandoverState, Row
from hca.daemon.common.quotas import CLIENT_BYTES, CLIENT_DESCRIPTORS
from hca.daemon.objects.client_objects import AdoptedObjects, Objects
from hca.daemon.policy.guard import Guard
from hca.daemon.programs.opened_function import OpenedFunction
from hca.daemon.programs.programs import Programs, logger
from hca.daemon.programs.requests import Malformed
from vgpu_sim.system.foreign import ForeignSockets


class AdoptingPrograms(Programs):
    """Serves programs, including those that a predecessor served."""

    @staticmethod
    def _adopt(row: Row, handover_state: HandoverState) -> socket.socket:
        client = socket.socket(fileno=handover_state.take_descriptor(row["socket"]))
        client.setblocking(False)
        return client

    def _adopt_objects(
        self, function: OpenedFunction, saved: Row, handover_state: HandoverState
    ) -> Objects:
        objects = AdoptedObjects(
            self._engine,
            self._numbers,
            function.address.gids,
            self._memory_bytes,
            handover_state.take_descriptors(saved["descriptors"]),
            Guard(self.enforcer, function.party),
            function.mtu,
        )
        objects.share = function.share
        objects.providers = self.providers
        objects.wire_groups = self.wire_groups
        objects.bindings = self.cm.manager.bindings
        with function.share.suspending_limits():
            function.share.charge(CLIENT_DESCRIPTORS, 0, CLIENT_BYTES)
            objects.load(saved, handover_state)
        return objects

    async def _adopted_program(
        self, client: socket.socket, key: bytes, function: OpenedFunction, objects: Objects
    ) -> None:
        sockets = ForeignSockets("hca", self._refusing)
        try:
            with self._among_programs(key):
                await self._serve_requests(client, sockets, key, function, objects)
        except (Malformed, TimeoutError, OSError) as err:
            if self._log_quota.take():
                logger.info("client_dropped reason=%r", str(err) or "timeout")
        finally:
            sockets.close(client)
