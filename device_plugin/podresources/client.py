"""Lists device assignments; rate limited by the kubelet, so Lists keep a distance.

The API knows no pod UIDs; they come from the names of the kubelet's log directories
(``<namespace>_<name>_<uid>``), which exist before any container of the pod starts.
"""

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import grpc

from device_plugin.errors import PodResourcesError
from device_plugin.inventory.model import HolderPod
from device_plugin.podresources.birth import birth_time_ns
from device_plugin.proto import podresources_pb2 as pb, podresources_pb2_grpc as pb_grpc

_MIN_INTERVAL_S = 0.05  # the kubelet allows about 100 requests a second, for everybody together
_TIMEOUT_S = 10.0
_MAX_MESSAGE_BYTES = 16 << 20
_HEX = "[0-9a-f]"
_POD_UID = re.compile(rf"{_HEX}{{8}}(-{_HEX}{{4}}){{3}}-{_HEX}{{12}}|{_HEX}{{32}}", re.ASCII)
SLICE = "MIG-"  # how the ids of slices begin
_DEVICE = re.compile(rf"(MIG|HCA)-{_HEX}{{8}}(-{_HEX}{{4}}){{3}}-{_HEX}{{12}}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Listing:
    """One answer of the kubelet.

    ``holders`` are the pods of each device id; a pod whose UID is not known yet has an empty one.
    ``elsewhere`` has the resource by which a pod got a device, where that is of another prefix:
    when the prefix was changed the kubelet does not know that they are the same devices.
    ``pod_names`` are all pods that the kubelet runs, with devices or without.
    """

    holders: dict[str, tuple[HolderPod, ...]]
    elsewhere: dict[str, str]
    pod_names: frozenset[str]


class PodResources:
    """A client of ``pod-resources/kubelet.sock``. Thread-safe (``_lock``)."""

    def __init__(
        self, socket: Path, pod_logs: Path, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._target = f"unix:{socket}"
        self._pod_logs = pod_logs
        self._clock = clock
        self._lock = threading.Lock()
        self._last = float("-inf")

    def list(self, resource_prefix: str) -> Listing:
        """Return who holds devices that are named like ours, under whatever resource name.

        Raises:
            PodResourcesError: the kubelet did not answer (it may be restarting).
        """
        with self._lock:
            pause = self._last + _MIN_INTERVAL_S - self._clock()
            if pause > 0:
                time.sleep(pause)
            try:
                response = self._ask()
            finally:
                self._last = self._clock()
        names = _names_by_pod(response)
        ours = resource_prefix + "/"
        return Listing(
            self._by_device(response, names),
            {
                device: name
                for pod in names
                for device, name in pod.items()
                if device.startswith(SLICE) and not name.startswith(ours)
            },
            frozenset(pod.name for pod in response.pod_resources),
        )

    def _ask(self) -> pb.ListPodResourcesResponse:
        options = [("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES)]
        try:
            with grpc.insecure_channel(self._target, options=options) as channel:
                return pb_grpc.PodResourcesListerStub(channel).List(
                    pb.ListPodResourcesRequest(), timeout=_TIMEOUT_S
                )
        except grpc.RpcError as err:
            code = cast(Any, err).code().name  # every RpcError that a stub raises is a Call too
            raise PodResourcesError(f"kubelet's pod resources: {code}") from err

    def _by_device(
        self, response: pb.ListPodResourcesResponse, names: Sequence[Mapping[str, str]]
    ) -> dict[str, tuple[HolderPod, ...]]:
        uids = self._pod_uids()
        found: dict[str, list[HolderPod]] = {}
        for pod, devices in zip(response.pod_resources, names, strict=True):
            uid = uids.get((pod.namespace, pod.name), "")
            for device in devices:
                found.setdefault(device, []).append(HolderPod(pod.namespace, pod.name, uid))
        return {device: tuple(pods) for device, pods in found.items()}

    def _pod_uids(self) -> dict[tuple[str, str], str]:
        """Map (namespace, name) to the UID of the youngest pod of that name."""
        newest: dict[tuple[str, str], tuple[int, str]] = {}
        try:
            entries = list(self._pod_logs.iterdir())
        except OSError as err:
            raise PodResourcesError(f"pod log directories: {err}") from err
        for entry in entries:
            namespace, _, rest = entry.name.partition("_")
            name, _, uid = rest.partition("_")
            if not _POD_UID.fullmatch(uid):
                continue
            try:
                made = (birth_time_ns(entry), uid)
            except OSError:
                continue  # removed since the directory was read
            newest[namespace, name] = max(made, newest.get((namespace, name), made))
        return {key: uid for key, (_, uid) in newest.items()}


def _names_by_pod(response: pb.ListPodResourcesResponse) -> list[dict[str, str]]:
    """Return each pod's devices with the resource name it got them by."""
    return [
        {
            device: entry.resource_name
            for container in pod.containers
            for entry in container.devices
            for device in entry.device_ids
            if _DEVICE.fullmatch(device)
        }
        for pod in response.pod_resources
    ]
