"""Keeps gpud informed of which pod holds which slice, and remembers it for status and events."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from device_plugin.agent.holding import HolderMemory, View
from device_plugin.backends.gpud import Gpud
from device_plugin.errors import PodResourcesError
from device_plugin.inventory.model import HolderPod, is_share, shared_uuid
from device_plugin.inventory.resources import Kind
from device_plugin.podresources.client import SLICE, PodResources

_MAX_REMEMBERED_PODS = 4096
_log = logging.getLogger(__name__)


class Holders:
    """Lists and tells gpud under one lock, so that an older List never overtakes a newer one."""

    def __init__(
        self,
        pods: PodResources,
        gpud: Gpud,
        own_pod: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``own_pod`` is a pod that surely runs here: a List without it is not the whole node."""
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
        """Ask the kubelet, tell gpud, return what is believed.

        gpud hears what was believed before if the kubelet does not answer: it forgets holders
        when it restarts.

        Raises:
            PodResourcesError: the kubelet does not answer; what was known stays.
            GpudUnreachable, GpudError: gpud could not be told.
        """
        with self._lock:
            self._listed_at = self._clock()
            try:
                listing = self._pods.list()
            except PodResourcesError:
                self._tell(self._memory.view)
                raise
            self._seen_at = self._listed_at
            given: dict[str, set[Kind]] = {}
            for device, name in listing.given.items():
                given.setdefault(shared_uuid(device), set()).add(Kind(name, is_share(device)))
            self._given = {uuid: frozenset(kinds) for uuid, kinds in given.items()}
            view = self._memory.observe(
                listing.holders, self._own_pod in listing.pod_names, self._clock()
            )
            self._remember(view)
            self._tell(view)
            return replace(view, devices=frozenset(listing.holders))

    def believed(self) -> View:
        """Return what is believed without asking anybody."""
        with self._lock:
            return self._memory.view

    def devices(self) -> frozenset[str]:
        """Return the device ids that pods are believed to hold."""
        with self._lock:
            return self._memory.devices

    def given(self) -> Mapping[str, frozenset[Kind]]:
        """Return as what the kubelet gave each slice away that pods hold, by its UUID."""
        with self._lock:
            return self._given

    def age_s(self) -> float:
        """Return how long ago the kubelet was last asked."""
        return self._clock() - self._listed_at

    def seen_at(self) -> float:
        """Return when the last List began that the kubelet answered."""
        with self._lock:
            return self._seen_at

    def pod(self, uid: str) -> HolderPod | None:
        """Return a pod that holds, or held, a slice."""
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

    def _tell(self, view: View) -> None:
        with_uid = {
            uuid: [pod for pod in pods if pod.uid]
            for uuid, pods in view.holders.items()
            if uuid.startswith(SLICE)  # HCA functions are hcad's
        }
        self._gpud.set_holders(with_uid, view.complete)
