"""Lists the devices that the kubelet has assigned to pods, with a pause between Lists.

The pause is necessary because the kubelet limits the rate of Lists. The API has no pod UIDs;
they come from the names of the kubelet's log directories (``<namespace>_<name>_<uid>``), which
exist before any container of the pod starts. The API has no devices of ordinary init containers
either: those of the device plugin come from the kubelet's checkpoint, those of claims from the
claims' reservations.
"""

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import grpc

from device_plugin.errors import PodResourcesError
from device_plugin.inventory import claims
from device_plugin.inventory.model import CLAIM, HolderPod
from device_plugin.metrics import METRICS
from device_plugin.podresources.birth import birth_time_ns
from device_plugin.podresources.checkpoint import Allocation, Checkpoint
from device_plugin.proto import podresources_pb2 as pb, podresources_pb2_grpc as pb_grpc
from vgpu_sim.records import dataclass

_MIN_INTERVAL_S = 0.05  # the kubelet allows about 100 requests a second, for all clients together
_TIMEOUT_S = 10.0
_MAX_MESSAGE_BYTES = 16 << 20
_HEX = "[0-9a-f]"
_POD_UID = re.compile(rf"{_HEX}{{8}}(-{_HEX}{{4}}){{3}}-{_HEX}{{12}}|{_HEX}{{32}}", re.ASCII)
SLICE = ("MIG-", "GPU-")  # prefixes of the ids of slices and of whole GPUs
_DEVICE = re.compile(
    rf"(MIG|GPU|HCA)-{_HEX}{{8}}(-{_HEX}{{4}}){{3}}-{_HEX}{{12}}(::[0-9]{{1,3}})?", re.ASCII
)


@dataclass(frozen=True, slots=True)
class Listing:
    """One answer of the kubelet to the call List.

    ``holders`` has, by device id, the pods that hold the device; a pod's UID is empty while it is
    not known. ``given`` has, by device id, the resource under which a pod got the device. After a
    change of prefix or strategy, the device may be offered under another resource. ``pod_names``
    has the names of all pods that the kubelet runs, with devices or without. ``complete`` is
    false if the pods of a prepared claim are not known.
    """

    holders: dict[str, tuple[HolderPod, ...]]
    given: dict[str, str]
    pod_names: frozenset[str]
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Reservation:
    """A prepared claim: its slices, and the UIDs of the pods for which it is reserved.

    ``pod_uids`` is None while the reservation is not known.
    """

    claim_uid: str
    slices: frozenset[str]
    pod_uids: frozenset[str] | None


class PodResources:
    """A client of ``pod-resources/kubelet.sock``. Thread-safe (``_lock``)."""

    def __init__(
        self,
        socket: Path,
        pod_logs: Path,
        clock: Callable[[], float] = time.monotonic,
        checkpoint: Checkpoint | None = None,
        reservations: Callable[[], Sequence[Reservation]] = lambda: (),
    ) -> None:
        """Initialize; ``reservations`` returns the claims that are prepared on this node."""
        self._target = f"unix:{socket}"
        self._pod_logs = pod_logs
        self._checkpoint = checkpoint
        self._reservations = reservations
        self._clock = clock
        self._lock = threading.Lock()
        self._last = float("-inf")

    def list(self) -> Listing:
        """Return the pods that hold slices or HCA functions, even under a former resource name.

        Raises:
            PodResourcesError: the kubelet did not answer (it may be restarting).
        """
        with self._lock:
            self._pause()
            # Before the List: the kubelet frees no device of a pod that the List still has.
            allocations = self._checkpoint.allocations() if self._checkpoint is not None else ()
            reservations = self._reservations()
            try:
                with METRICS.counting_kubelet_call("List"):
                    response = self._ask()
            finally:
                self._last = self._clock()
        uids = self._pod_uids()
        active = {
            uid: (pod.namespace, pod.name)
            for pod in response.pod_resources
            if (uid := uids.get((pod.namespace, pod.name)))
        }
        holders = _by_device(response, uids)
        resources_by_device = {
            device: name
            for pod in response.pod_resources
            for device, (name, _) in _devices(pod).items()
            if device.startswith(SLICE)
        }
        _add_init_containers(allocations, active, holders, resources_by_device)
        _add_reserved(reservations, active, holders)
        return Listing(
            {device: tuple(pods) for device, pods in holders.items()},
            resources_by_device,
            frozenset(pod.name for pod in response.pod_resources),
            all(reservation.pod_uids is not None for reservation in reservations),
        )

    def allocatable(self) -> dict[str, tuple[str, ...]]:
        """Return the ids of the healthy devices of each resource, from any plugin.

        Raises:
            PodResourcesError: the kubelet did not answer.
        """
        with self._lock:
            self._pause()
            try:
                with METRICS.counting_kubelet_call("GetAllocatableResources"):
                    request = pb.AllocatableResourcesRequest()
                    response = self._call("GetAllocatableResources", request)
            finally:
                self._last = self._clock()
        ids_by_resource: dict[str, tuple[str, ...]] = {}
        for container_devices in response.devices:
            earlier_ids = ids_by_resource.get(container_devices.resource_name, ())
            ids_by_resource[container_devices.resource_name] = (
                *earlier_ids,
                *container_devices.device_ids,
            )
        return ids_by_resource

    def _pause(self) -> None:
        pause = self._last + _MIN_INTERVAL_S - self._clock()
        if pause > 0:
            time.sleep(pause)

    def _ask(self) -> pb.ListPodResourcesResponse:
        return cast(pb.ListPodResourcesResponse, self._call("List", pb.ListPodResourcesRequest()))

    def _call(self, method: str, request: Any) -> Any:
        options = [("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES)]
        try:
            with grpc.insecure_channel(self._target, options=options) as channel:
                stub = pb_grpc.PodResourcesListerStub(channel)
                return getattr(stub, method)(request, timeout=_TIMEOUT_S)
        except grpc.RpcError as err:
            code = cast(Any, err).code().name  # every RpcError that a stub raises is also a Call
            raise PodResourcesError(f"the kubelet's pod resources socket returned {code}") from err

    def _pod_uids(self) -> dict[tuple[str, str], str]:
        """Map (namespace, name) to the UID of the youngest pod with that name."""
        newest: dict[tuple[str, str], tuple[int, str]] = {}
        try:
            log_dirs = list(self._pod_logs.iterdir())
        except OSError as err:
            raise PodResourcesError(f"cannot list the pods' log directories: {err}") from err
        for log_dir in log_dirs:
            namespace, _, name_and_uid = log_dir.name.partition("_")
            name, _, uid = name_and_uid.partition("_")
            if not _POD_UID.fullmatch(uid):
                continue
            try:
                birth = (birth_time_ns(log_dir), uid)
            except OSError:
                continue  # removed since the directory was read
            newest[namespace, name] = max(birth, newest.get((namespace, name), birth))
        return {key: uid for key, (_, uid) in newest.items()}


def _by_device(
    response: pb.ListPodResourcesResponse, uids: Mapping[tuple[str, str], str]
) -> dict[str, list[HolderPod]]:
    """Return the pods that the API lists for each device; ``uids`` are pods' UIDs by name."""
    result: dict[str, list[HolderPod]] = {}
    for pod in response.pod_resources:
        uid = uids.get((pod.namespace, pod.name), "")
        for device, (_, container) in _devices(pod).items():
            holder = HolderPod(pod.namespace, pod.name, uid, container)
            result.setdefault(device, []).append(holder)
        for (uuid, claim), container in _claimed_slices(pod).items():
            holder = HolderPod(pod.namespace, pod.name, uid, container, f"{CLAIM}{claim}")
            result[_claim_key(uuid, claim, holder)] = [holder]
    return result


def _claim_key(uuid: str, claim_uid: str, pod: HolderPod) -> str:
    """Return the key of a claimed slice among the holders.

    Several pods may use one claim, and several claims one slice: each pod has an entry for its
    claim.
    """
    return f"{uuid}::{claim_uid}/{pod.namespace}/{pod.name}"


def _add_init_containers(
    allocations: Sequence[Allocation],
    active: Mapping[str, tuple[str, str]],
    holders: dict[str, list[HolderPod]],
    resources_by_device: dict[str, str],
) -> None:
    """Add active pods that hold devices which the API does not list for them.

    ``active`` has the names of listed pods by UID.
    """
    for allocation in allocations:
        name, device = active.get(allocation.pod_uid), allocation.device
        if name is None or not _DEVICE.fullmatch(device):
            continue
        pod = HolderPod(*name, allocation.pod_uid, allocation.container)
        listed = holders.setdefault(device, [])
        if not listed:  # the kubelet gives a device to one pod at a time
            listed.append(pod)
            if device.startswith(SLICE):
                resources_by_device[device] = allocation.resource


def _add_reserved(
    reservations: Sequence[Reservation],
    active: Mapping[str, tuple[str, str]],
    holders: dict[str, list[HolderPod]],
) -> None:
    """Add active pods for which claims are reserved, and which the API does not list for them."""
    for claim in reservations:
        for uid in active.keys() & (claim.pod_uids or frozenset()):
            pod = HolderPod(*active[uid], uid, claim=f"{CLAIM}{claim.claim_uid}")
            for uuid in claim.slices:
                holders.setdefault(_claim_key(uuid, claim.claim_uid, pod), [pod])


def _devices(pod: pb.PodResources) -> dict[str, tuple[str, str]]:
    """Return a pod's devices, each with its resource and container."""
    return {
        device: (entry.resource_name, container.name)
        for container in pod.containers
        for entry in container.devices
        for device in entry.device_ids
        if _DEVICE.fullmatch(device)
    }


def _claimed_slices(pod: pb.PodResources) -> dict[tuple[str, str], str]:
    """Return the UUIDs of a pod's slices and their claims, each with a container.

    The kubelet lists all slices of a claim with each of the claim's devices. So a container may
    seem to have a slice whose socket is not mounted in it.
    """
    return {
        (uuid, claim): container.name
        for container in pod.containers
        for entry in container.dynamic_resources
        for resource in entry.claim_resources
        if resource.driver_name == claims.DRIVER
        for device in resource.cdi_devices
        if (uuid := claims.slice_of(device.name)) is not None
        if (claim := claims.claim_of(device.name)) is not None
    }
