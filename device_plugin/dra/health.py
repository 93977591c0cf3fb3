"""Reports the health of claims' devices to the kubelet (KEP-4680)."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import grpc

from device_plugin.proto import drahealth_pb2 as pb
from facts.health import is_in_service

AGAIN_S: Final = 10.0  # the kubelet forgets a health that is not repeated within 30 s
SILENT_S: Final = 20.0  # as long as the device plugin continues without an agent
_MESSAGE_LENGTH: Final = 1024


class HealthService:
    """Serves ``NodeWatchResources``. ``_changed`` guards the newest update."""

    def __init__(self, pool: str, clock: Callable[[], float] = time.monotonic) -> None:
        """Initialize; ``pool`` is the node's name."""
        self._pool = pool
        self._clock = clock
        self._changed = threading.Condition()
        self._healths: Mapping[str, str] = {}
        self._updated_at: float | None = None
        self._generation = 0
        self._stopped = False

    def update(self, healths: Mapping[str, str]) -> None:
        """Replace the health of all devices.

        ``healths`` has the health of each device, by the device's name in the pool.
        """
        with self._changed:
            self._updated_at = self._clock()
            if healths != self._healths:
                self._healths = dict(healths)
                self._generation += 1
                self._changed.notify_all()

    def stop(self) -> None:
        """End the streams on which the kubelet receives health."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def NodeWatchResources(  # noqa: N802 (kubelet API)
        self, request: pb.NodeWatchResourcesRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.NodeWatchResourcesResponse]:
        """Send the health of all devices now, at every change, and periodically."""
        context.add_callback(self._wake)
        sent = -1
        while context.is_active():
            with self._changed:
                if sent == self._generation and not self._stopped:
                    self._changed.wait(AGAIN_S)
                if self._stopped or not context.is_active():
                    return
                sent, silent = self._generation, self._is_silent()
                healths = {} if silent else dict(self._healths)
            yield self._response(healths)

    def _is_silent(self) -> bool:
        return self._updated_at is None or self._clock() - self._updated_at >= SILENT_S

    def _response(self, healths: Mapping[str, str]) -> pb.NodeWatchResourcesResponse:
        response = pb.NodeWatchResourcesResponse()
        timestamp_s = int(time.time())
        for name, health in sorted(healths.items()):
            response.devices.add(
                device=pb.DeviceIdentifier(pool_name=self._pool, device_name=name),
                health=pb.HEALTHY if is_in_service(health) else pb.UNHEALTHY,
                last_updated_time=timestamp_s,
                message="" if health == "Healthy" else health[:_MESSAGE_LENGTH],
            )
        return response

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()
