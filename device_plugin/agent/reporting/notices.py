"""Kubernetes events on users' pods, written in the background and never more than is good.

What gpud reports is caused by tenants: a hostile one can make a new fault, with a new message, many
times a second. Each pod has an allowance, the queue is short, and nobody who serves waits for it.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Never

from device_plugin.errors import ClusterError
from device_plugin.inventory.claims import ClaimRef
from device_plugin.inventory.model import HolderPod
from device_plugin.kube.client import Kube
from gpu_operator.api.v1alpha1.base import Reason

BURST = 10
REFILL_S = 60.0  # one more event a pod after this time
_MAX_PODS = 1024
_MAX_QUEUED = 256
_log = logging.getLogger(__name__)


class Allowance:
    """Token buckets by pod UID; the pod unheard of for longest is forgotten first."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, uid: str) -> bool:
        """Return whether one more event of this pod may be written."""
        now = self._clock()
        tokens, since = self._buckets.pop(uid, (float(BURST), now))
        tokens = min(BURST, tokens + (now - since) / REFILL_S)
        allowed = tokens >= 1
        self._buckets[uid] = (tokens - 1 if allowed else tokens, now)
        if len(self._buckets) > _MAX_PODS:
            del self._buckets[next(iter(self._buckets))]
        return allowed


class Notices:
    """``post`` from any thread; ``run`` is the thread that writes."""

    def __init__(self, kube: Kube, allowance: Allowance | None = None) -> None:
        self._kube = kube
        self._allowance = allowance or Allowance()
        self._lock = threading.Lock()  # for the allowance
        self._queue: queue.Queue[tuple[str, Callable[[], None]]] = queue.Queue(_MAX_QUEUED)

    def post(self, pod: HolderPod, reason: Reason, message: str, warning: bool = True) -> bool:
        """Queue an event; False if the pod had too many, or all pods together."""
        where = f"{pod.namespace}/{pod.name}"
        write = partial(self._kube.pod_event, pod, reason.value, message, warning)
        return self._post(pod.uid, where, write)

    def post_gpu(self, name: str, uid: str, reason: Reason, message: str, warning: bool) -> bool:
        """Queue an event on a GPU object; False as in ``post``."""
        write = partial(self._kube.gpu_event, name, uid, reason.value, message, warning)
        return self._post(f"GPU {uid}", f"GPU {name}", write)

    def post_claim(self, claim: ClaimRef, reason: Reason, message: str) -> bool:
        """Queue a warning on a ResourceClaim; False as in ``post``."""
        write = partial(self._kube.claim_event, claim, reason.value, message)
        return self._post(claim.uid, f"claim {claim}", write)

    def _post(self, key: str, where: str, write: Callable[[], None]) -> bool:
        with self._lock:
            if not self._allowance.take(key):
                return False
        try:
            self._queue.put_nowait((where, write))
        except queue.Full:
            return False
        return True

    def run(self) -> Never:
        """Write events until the process ends; one that the API server refuses is lost."""
        while True:
            where, write = self._queue.get()
            try:
                write()
            except ClusterError as err:
                _log.warning("event on %s not written: %s", where, err)
