"""Lists device assignments; rate limited by the kubelet, so answers are kept for a moment.

The API knows no pod UIDs; they come from the names of the kubelet's log directories
(``<namespace>_<name>_<uid>``), which exist before any container of the pod starts.
"""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import grpc

from device_plugin.errors import PodResourcesError
from device_plugin.inventory.model import HolderPod
from device_plugin.proto import podresources_pb2 as pb, podresources_pb2_grpc as pb_grpc

_MIN_INTERVAL_S = 0.05  # the kubelet allows about 100 requests a second, for everybody together
_TIMEOUT_S = 10.0
_MAX_MESSAGE_BYTES = 16 << 20


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

    def holders(self, resource_prefix: str) -> dict[str, tuple[HolderPod, ...]]:
        """Return the pods of each device id of our resources.

        Raises:
            PodResourcesError: the kubelet did not answer (it may be restarting).
        """
        with self._lock:
            pause = self._last + _MIN_INTERVAL_S - self._clock()
            if pause > 0:
                time.sleep(pause)
            try:
                with grpc.insecure_channel(
                    self._target,
                    options=[("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES)],
                ) as channel:
                    response = pb_grpc.PodResourcesListerStub(channel).List(
                        pb.ListPodResourcesRequest(), timeout=_TIMEOUT_S
                    )
            except grpc.RpcError as err:
                raise PodResourcesError(f"pod resources: {err}") from err
            finally:
                self._last = self._clock()
        return self._by_device(response, resource_prefix + "/")

    def _by_device(
        self, response: pb.ListPodResourcesResponse, prefix: str
    ) -> dict[str, tuple[HolderPod, ...]]:
        uids = self._pod_uids()
        found: dict[str, list[HolderPod]] = {}
        for pod in response.pod_resources:
            devices = {
                device
                for container in pod.containers
                for entry in container.devices
                if entry.resource_name.startswith(prefix)
                for device in entry.device_ids
            }
            for uid in uids.get((pod.namespace, pod.name), [""]) if devices else ():
                for device in devices:
                    found.setdefault(device, []).append(HolderPod(pod.namespace, pod.name, uid))
        return {device: tuple(pods) for device, pods in found.items()}

    def _pod_uids(self) -> dict[tuple[str, str], list[str]]:
        """Map (namespace, name) to the UID of the newest pod of that name."""
        newest: dict[tuple[str, str], tuple[float, str]] = {}
        try:
            entries = list(self._pod_logs.iterdir())
        except OSError as err:
            raise PodResourcesError(f"pod log directories: {err}") from err
        for entry in entries:
            parts = entry.name.split("_")
            if len(parts) != 3:
                continue
            namespace, name, uid = parts
            try:
                made = entry.stat().st_ctime
            except OSError:
                continue
            if (namespace, name) not in newest or newest[namespace, name][0] < made:
                newest[namespace, name] = (made, uid)
        return {key: [uid] for key, (_, uid) in newest.items()}
