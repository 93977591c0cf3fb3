"""Reports to gpud which pod holds which slice, and remembers this for status and events."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from device_plugin.agent.holding import HolderMemory, View
from device_plugin.backends.gpud import Gpud
from device_plugin.errors import PodResourcesError
from device_plugin.inventory.model import HolderPod, is_share, slice_uuid_of
from device_plugin.inventory.resources import Kind
from device_plugin.podresources.client import SLICE, PodResources

_MAX_REMEMBERED_PODS = 4096
_log = logging.getLogger(__name__)


class Holders:
    """Lists pods and reports the holders to gpud.

    One lock is held during the List and its report, so gpud never receives an older List after
    a newer one.
    """

    def __init__(
        self,
        pods: PodResources,
        gpud: Gpud,
        own_pod: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Initialize; ``own_pod`` is the agent's pod, which runs on this node.

        A List without this pod does not have all pods of the node.
        """
        self._pods = pods
        self._gpud = gpud
        self._own_pod = own_pod
        self._clock = clock
        self._lock = threading.Lock()
        self._memory = HolderMemory()
        self._by_uid: dict[str, HolderPod] = {}
        self._listed_at = self._seen_at = float("-inf")
        self._given: Mapping[str, frozenset[Kind]] = {}

    def refresh(self) -> View:
        """List the kubelet's pods, report the holders to gpud and return the holders.

        If the kubelet does not answer, the last known holders are sent to gpud, because a gpud
        that was restarted has forgotten them.

        Raises:
            PodResourcesError: the kubelet does not answer; the known holders stay.
            GpudUnreachable, GpudError: the report to gpud failed.
        """
        with self._lock:
            self._listed_at = self._clock()
            try:
                listing = self._pods.list()
            except PodResourcesError:
                self._notify(self._memory.view)
                raise
            self._seen_at = self._listed_at
            kinds_by_slice: dict[str, set[Kind]] = {}
            for device, name in listing.given.items():
                kinds_by_slice.setdefault(slice_uuid_of(device), set()).add(
                    Kind(name, is_share(device))
                )
            self._given = {uuid: frozenset(kinds) for uuid, kinds in kinds_by_slice.items()}
            view = self._memory.observe(
                listing.holders,
                self._own_pod in listing.pod_names and listing.complete,
                self._clock(),
            )
            self._remember(view)
            self._notify(view)
            return replace(view, devices=frozenset(listing.holders))

    def last_view(self) -> View:
        """Return the last known holders without querying the kubelet."""
        with self._lock:
            return self._memory.view

    def devices(self) -> frozenset[str]:
        """Return the ids of devices that pods hold, as far as this process knows."""
        with self._lock:
            return self._memory.devices

    def allocated_kinds(self) -> Mapping[str, frozenset[Kind]]:
        """Return the resources under which the kubelet allocated each held slice, by UUID."""
        with self._lock:
            return self._given

    def age_s(self) -> float:
        """Return the seconds since the kubelet was last queried."""
        return self._clock() - self._listed_at

    def seen_at(self) -> float:
        """Return the time at which the last List that the kubelet answered was started."""
        with self._lock:
            return self._seen_at

    def pod(self, uid: str) -> HolderPod | None:
        """Return the pod with this UID, if it holds or has held a slice."""
        with self._lock:
            return self._by_uid.get(uid)

    def _remember(self, view: View) -> None:
        for pods in view.holders.values():
            for pod in pods:
                if pod.uid:
                    self._by_uid.pop(pod.uid, None)
                    self._by_uid[pod.uid] = pod
        while len(self._by_uid) > _MAX_REMEMBERED_PODS:
            del self._by_uid[next(iter(self._by_uid))]

    def _notify(self, view: View) -> None:
        with_uid = {
            uuid: [pod for pod in pods if pod.uid]
            for uuid, pods in view.holders.items()
            if uuid.startswith(SLICE)  # hcad receives the holders of HCA functions
        }
        self._gpud.set_holders(with_uid, view.complete)
