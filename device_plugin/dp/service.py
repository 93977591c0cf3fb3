"""The device plugin service of one extended resource: its list of devices, and their allocation."""

import logging
import threading
from collections.abc import Callable, Iterator

import grpc

from device_plugin.dp.allocations import Allocations
from device_plugin.dp.offer import HEALTHY, EmptyOffer, Offer
from device_plugin.metrics import METRICS
from device_plugin.proto import deviceplugin_pb2 as pb

OPTIONS = pb.DevicePluginOptions(get_preferred_allocation_available=True)
_STREAM_POLL_S = 5.0  # longest time for which a dead kubelet's stream may occupy a thread
_log = logging.getLogger(__name__)


class DevicePlugin:
    """Serves one resource to the kubelet. ``_changed`` guards the offer and its generation."""

    def __init__(
        self,
        resource: str,
        use_cdi: bool,
        allocations: Allocations,
        refresh: Callable[[], None],
    ) -> None:
        self.resource = resource
        self._use_cdi = use_cdi
        self._allocations = allocations
        self._refresh = refresh
        self._changed = threading.Condition()
        self._offer: Offer = EmptyOffer()
        self._generation = 0
        self._streams = 0
        self._ended_streams = 0
        self._stopped = False

    def offer(self, offer: Offer) -> None:
        """Replace the offer; open streams send the new list at once if it differs."""
        with self._changed:
            old_offer, self._offer = self._offer, offer
            if offer.devices() != old_offer.devices():
                if self._streams:  # otherwise another process, or none, reports it to the kubelet
                    _count_health(old_offer, offer)
                self._generation += 1
                self._changed.notify_all()

    def warm_up(self) -> None:
        """Compute a preference once, as GetPreferredAllocation does."""
        offer = self._current()
        if ids := [device.ID for device in offer.devices() if device.health == HEALTHY]:
            offer.prefer(ids, (), 1, ())

    def stop(self) -> None:
        """End the streams on which the kubelet receives the list."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    @property
    def connected(self) -> bool:
        """Return whether a kubelet has an open ListAndWatch stream for the resource.

        A kubelet without such a stream rejects pods that request the resource.
        """
        with self._changed:
            return self._streams > 0

    @property
    def ended_streams(self) -> int:
        """Return how many ListAndWatch streams have ended so far."""
        with self._changed:
            return self._ended_streams

    def GetDevicePluginOptions(  # noqa: N802 (kubelet API)
        self, request: pb.Empty, context: grpc.ServicerContext
    ) -> pb.DevicePluginOptions:
        """Return the options once the locks are free that calls for pods take.

        The heartbeat of this process depends on an answer.
        """
        self._current()
        self._allocations.has_pending()
        return OPTIONS

    def ListAndWatch(  # noqa: N802
        self, request: pb.Empty, context: grpc.ServicerContext
    ) -> Iterator[pb.ListAndWatchResponse]:
        """Send the whole list of devices now and at every change, until the kubelet disconnects."""
        context.add_callback(self._wake)
        with METRICS.counting_kubelet_call("ListAndWatch"):
            self._count(+1)
        try:
            yield from self._lists(context)
        finally:
            self._count(-1)

    def _lists(self, context: grpc.ServicerContext) -> Iterator[pb.ListAndWatchResponse]:
        sent = -1
        while context.is_active():
            with self._changed:
                if self._stopped:
                    return
                if sent == self._generation:
                    self._changed.wait(_STREAM_POLL_S)
                    continue
                sent, offer = self._generation, self._offer
            devices = offer.devices()
            _log.info("%s: %d devices to the kubelet", self.resource, len(devices))
            yield pb.ListAndWatchResponse(devices=devices)

    def _count(self, change: int) -> None:
        """Record that a kubelet connected or disconnected, and request a pass that reports it."""
        with self._changed:
            self._streams += change
            self._ended_streams += change < 0
        self._refresh()

    def GetPreferredAllocation(  # noqa: N802
        self, request: pb.PreferredAllocationRequest, context: grpc.ServicerContext
    ) -> pb.PreferredAllocationResponse:
        """Return the device ids that ``Offer.prefer`` chooses."""
        with METRICS.counting_kubelet_call("GetPreferredAllocation"):
            return self._preferred(request)

    def _preferred(self, request: pb.PreferredAllocationRequest) -> pb.PreferredAllocationResponse:
        response = pb.PreferredAllocationResponse()
        for container_request in request.container_requests:
            chosen = self._current().prefer(
                container_request.available_deviceIDs,
                container_request.must_include_deviceIDs,
                container_request.allocation_size,
                self._allocations.unconfirmed_ids(),
            )
            response.container_responses.add(deviceIDs=chosen)
        return response

    def Allocate(  # noqa: N802
        self, request: pb.AllocateRequest, context: grpc.ServicerContext
    ) -> pb.AllocateResponse:
        """Return the mounts or CDI devices with which each container gets its devices."""
        with METRICS.counting_kubelet_call("Allocate"):
            response = self._allocate(request, context)
        METRICS.count_allocation(
            sum(
                len(container_request.devices_ids)
                for container_request in request.container_requests
            )
        )
        return response

    def _allocate(
        self, request: pb.AllocateRequest, context: grpc.ServicerContext
    ) -> pb.AllocateResponse:
        offer = self._current()
        allocatable_ids = offer.allocatable_ids()
        response = pb.AllocateResponse()
        for container_request in request.container_requests:
            ids = list(container_request.devices_ids)
            if problem := offer.problem(ids):
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{self.resource}: {problem}")
            missing_id = next((device for device in ids if device not in allocatable_ids), None)
            missing_id = missing_id or self._allocations.allocate(ids)
            if missing_id is not None:
                context.abort(
                    grpc.StatusCode.NOT_FOUND,
                    f"{self.resource}: no {offer.noun} {missing_id} on this node any more",
                )
            response.container_responses.append(offer.container(ids, self._use_cdi))
            _log.info("%s: allocated %s", self.resource, ", ".join(ids))
        self._refresh()
        return response

    def PreStartContainer(  # noqa: N802
        self, request: pb.PreStartContainerRequest, context: grpc.ServicerContext
    ) -> pb.PreStartContainerResponse:
        return pb.PreStartContainerResponse()

    def _current(self) -> Offer:
        with self._changed:
            return self._offer

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()


def _count_health(old_offer: Offer, new_offer: Offer) -> None:
    old_healths = {device.ID: device.health for device in old_offer.devices()}
    for device in new_offer.devices():
        if old_healths.get(device.ID, device.health) != device.health:
            METRICS.count_health_change(healthy=device.health == HEALTHY)
