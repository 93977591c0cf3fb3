"""One extended resource as the kubelet sees it: devices, preferred allocation, allocation."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import grpc

from device_plugin.cdi import spec
from device_plugin.dp.allocations import Allocations
from device_plugin.inventory.model import Gpu, MigSlice
from device_plugin.proto import deviceplugin_pb2 as pb
from mig import planner
from mig.errors import MigError

HEALTHY = "Healthy"
UNHEALTHY = "Unhealthy"
_STREAM_POLL_S = 5.0  # how long a dead kubelet's stream may occupy a thread
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Offer:
    """A resource's slices at one moment, with the GPUs they lie on.

    ``withdrawn`` are not listed any more, but an allocation that is under way may still have them.
    """

    slices: tuple[MigSlice, ...]
    gpus: tuple[Gpu, ...]
    libraries_dir: str
    withdrawn: tuple[MigSlice, ...] = ()

    def devices(self) -> list[pb.Device]:
        """Return the list that the kubelet gets."""
        healthy = {gpu.uuid: gpu.health == HEALTHY for gpu in self.gpus}
        return [
            pb.Device(ID=s.uuid, health=HEALTHY if healthy.get(s.gpu_uuid) else UNHEALTHY)
            for s in self.slices
        ]


class DevicePlugin:
    """Serves one resource. ``_changed`` guards the offer and its generation."""

    def __init__(
        self,
        resource: str,
        prefix: str,
        use_cdi: bool,
        allocations: Allocations,
        refresh: Callable[[], None],
    ) -> None:
        self.resource = resource
        self._prefix = prefix
        self._use_cdi = use_cdi
        self._allocations = allocations
        self._refresh = refresh
        self._changed = threading.Condition()
        self._offer = Offer((), (), "")
        self._generation = 0
        self._streams = 0
        self._stopped = False

    def offer(self, offer: Offer) -> None:
        """Replace what is offered; open streams send the list at once if it differs."""
        with self._changed:
            before, self._offer = self._offer, offer
            if offer.devices() != before.devices():
                self._generation += 1
                self._changed.notify_all()

    def stop(self) -> None:
        """End open streams."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    @property
    def connected(self) -> bool:
        """Return whether a kubelet listens: without one no pod with a slice of this is admitted."""
        with self._changed:
            return self._streams > 0

    def GetDevicePluginOptions(  # noqa: N802 (kubelet API)
        self, request: pb.Empty, context: grpc.ServicerContext
    ) -> pb.DevicePluginOptions:
        return pb.DevicePluginOptions(get_preferred_allocation_available=True)

    def ListAndWatch(  # noqa: N802
        self, request: pb.Empty, context: grpc.ServicerContext
    ) -> Iterator[pb.ListAndWatchResponse]:
        """Send the whole list now and at every change, until the kubelet goes away."""
        context.add_callback(self._wake)
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
            _log.info("%s: %d devices to the kubelet", self.resource, len(offer.slices))
            yield pb.ListAndWatchResponse(devices=offer.devices())

    def _count(self, change: int) -> None:
        """Note that a kubelet came or went, and have it reported."""
        with self._changed:
            self._streams += change
        self._refresh()

    def GetPreferredAllocation(  # noqa: N802
        self, request: pb.PreferredAllocationRequest, context: grpc.ServicerContext
    ) -> pb.PreferredAllocationResponse:
        """Prefer slices that leave the largest placements free (advice to the kubelet)."""
        response = pb.PreferredAllocationResponse()
        for wanted in request.container_requests:
            chosen = prefer(
                self._current(),
                wanted.available_deviceIDs,
                wanted.must_include_deviceIDs,
                wanted.allocation_size,
            )
            response.container_responses.add(deviceIDs=chosen)
        return response

    def Allocate(  # noqa: N802
        self, request: pb.AllocateRequest, context: grpc.ServicerContext
    ) -> pb.AllocateResponse:
        """Describe how the slices get into the container."""
        offer = self._current()
        known = {s.uuid: s for s in (*offer.slices, *offer.withdrawn)}
        response = pb.AllocateResponse()
        for wanted in request.container_requests:
            gone = next((device for device in wanted.devices_ids if device not in known), None)
            gone = gone or self._allocations.allocate(wanted.devices_ids)
            if gone is not None:
                context.abort(
                    grpc.StatusCode.NOT_FOUND,
                    f"{self.resource}: no slice {gone} on this node any more",
                )
            slices = [known[device] for device in wanted.devices_ids]
            response.container_responses.append(self._container(offer, slices))
            _log.info("%s: allocated %s", self.resource, ", ".join(wanted.devices_ids))
        self._refresh()
        return response

    def PreStartContainer(  # noqa: N802
        self, request: pb.PreStartContainerRequest, context: grpc.ServicerContext
    ) -> pb.PreStartContainerResponse:
        return pb.PreStartContainerResponse()

    def _container(self, offer: Offer, slices: Sequence[MigSlice]) -> pb.ContainerAllocateResponse:
        response = pb.ContainerAllocateResponse()
        if self._use_cdi:
            for mig_slice in slices:
                response.cdi_devices.add(name=spec.device_name(self._prefix, mig_slice))
            return response
        mounts = [spec.slice_mount(s) for s in slices]
        for mount in (*mounts, *spec.library_mounts(offer.libraries_dir)):
            response.mounts.add(
                host_path=mount.host_path, container_path=mount.container_path, read_only=True
            )
        return response

    def _current(self) -> Offer:
        with self._changed:
            return self._offer

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()


def prefer(
    offer: Offer, available: Sequence[str], must_include: Sequence[str], size: int
) -> list[str]:
    """Choose ``size`` device ids so that the largest placements stay free.

    GPUs that are already in use are filled first; within a GPU the planner decides. An answer that
    cannot be given (the kubelet's view is newer than ours) is the kubelet's own order.
    """
    by_uuid = {s.uuid: s for s in offer.slices}
    chosen = [device for device in must_include if device in by_uuid]
    for gpu in _fullest_first(offer, available):
        missing = size - len(chosen)
        if missing <= 0:
            break
        free = [by_uuid[d] for d in available if d in by_uuid and by_uuid[d].gpu_uuid == gpu.uuid]
        fixed = [s for s in free if s.uuid in chosen]
        wanted = min(len(fixed) + missing, len(free))
        names = {s.instance: s.uuid for s in free}
        try:
            picked = planner.preferred(
                gpu.board,
                [s.instance for s in gpu.slices],
                [s.instance for s in free],
                [s.instance for s in fixed],
                wanted,
            )
        except MigError as err:
            _log.warning("no preference on %s: %s", gpu.uuid, err)
            return list(available)[:size]
        chosen += [names[i] for i in picked if names[i] not in chosen]
    return chosen[:size]


def _fullest_first(offer: Offer, available: Sequence[str]) -> list[Gpu]:
    free = set(available)
    return sorted(
        offer.gpus, key=lambda gpu: (-sum(s.uuid not in free for s in gpu.slices), gpu.index)
    )
