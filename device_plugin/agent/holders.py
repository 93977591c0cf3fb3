"""Keeps gpud informed of which pod holds which slice, and remembers it for status and events."""

import logging
import threading

from device_plugin.backends.gpud import Gpud
from device_plugin.errors import GpudUnreachable, PodResourcesError
from device_plugin.inventory.model import HolderPod
from device_plugin.podresources.client import PodResources

_log = logging.getLogger(__name__)


class Holders:
    """What the kubelet said last (``_lock``); gpud is told at every refresh."""

    def __init__(self, pods: PodResources, gpud: Gpud, prefix: str) -> None:
        self._pods = pods
        self._gpud = gpud
        self._prefix = prefix
        self._lock = threading.Lock()
        self._known: dict[str, tuple[HolderPod, ...]] = {}
        self._by_uid: dict[str, HolderPod] = {}

    def refresh(self) -> dict[str, tuple[HolderPod, ...]]:
        """Ask the kubelet, tell gpud, return holders by slice UUID.

        Raises:
            PodResourcesError: the kubelet does not answer; what was known stays.
            GpudUnreachable, GpudError: gpud could not be told.
        """
        found = self._pods.holders(self._prefix)
        with self._lock:
            self._known = found
            self._by_uid |= {pod.uid: pod for pods in found.values() for pod in pods if pod.uid}
            if len(self._by_uid) > 4096:
                self._by_uid = {p.uid: p for pods in found.values() for p in pods if p.uid}
        self._gpud.set_holders(
            {uuid: [pod for pod in pods if pod.uid] for uuid, pods in found.items()}
        )
        return found

    def try_refresh(self) -> None:
        """Refresh because a client waits; a failure is logged, the client's wait ends by itself."""
        try:
            self.refresh()
        except (PodResourcesError, GpudUnreachable) as err:
            _log.warning("holders not refreshed: %s", err)

    def pod(self, uid: str) -> HolderPod | None:
        """Return a pod that holds, or held, a slice."""
        with self._lock:
            return self._by_uid.get(uid)
