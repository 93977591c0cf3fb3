"""Kubernetes events on users' pods, written in the background and rate-limited.

What gpud reports is caused by tenants: a hostile one can cause a new fault, with a new message,
many times a second. Each pod has an allowance, the queue is short, and no serving thread waits
for it. Changes of a GPU's health need no allowance, because the times of its states limit them.
They wait in a queue of their own, however long the API server is away.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Never

from device_plugin.errors import ClusterError
from device_plugin.inventory.claims import ClaimRef
from device_plugin.inventory.model import HolderPod
from device_plugin.kube.client import Kube
from gpu_operator.api.v1alpha1.base import Reason

BURST = 10
REFILL_S = 60.0  # one more event per pod after this time
_MAX_PODS = 1024
_MAX_QUEUED = 256
_MAX_QUEUED_HEALTHS = 16384  # hours of changes of all GPUs of a node, in 16 MB
_RETRY_S = 5.0
_log = logging.getLogger(__name__)


class Allowance:
    """Token buckets that limit each pod's events, by pod UID.

    The pod whose last event is the oldest is forgotten first.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, uid: str) -> bool:
        """Take a token of this pod; return whether one more of its events may be written."""
        now_s = self._clock()
        tokens, since = self._buckets.pop(uid, (float(BURST), now_s))
        tokens = min(BURST, tokens + (now_s - since) / REFILL_S)
        allowed = tokens >= 1
        self._buckets[uid] = (tokens - 1 if allowed else tokens, now_s)
        if len(self._buckets) > _MAX_PODS:
            del self._buckets[next(iter(self._buckets))]
        return allowed


class _Notice(NamedTuple):
    """An event that waits to be written."""

    target: str
    write: Callable[[], None]


class Notices:
    """A queue of events for the API server.

    ``post`` may be called by any thread; ``run`` is the thread that writes the events.
    """

    def __init__(self, kube: Kube, allowance: Allowance | None = None) -> None:
        self._kube = kube
        self._allowance = allowance or Allowance()
        self._lock = threading.Lock()  # guards the allowance
        self._queue: queue.Queue[_Notice] = queue.Queue(_MAX_QUEUED)
        self._healths: queue.Queue[_Notice] = queue.Queue(_MAX_QUEUED_HEALTHS)

    def post(self, pod: HolderPod, reason: Reason, message: str, warning: bool = True) -> bool:
        """Queue an event on a pod; return False if it is dropped.

        An event is dropped if this pod, or all pods together, had too many events recently.
        """
        where = f"{pod.namespace}/{pod.name}"
        write = partial(self._kube.pod_event, pod, reason.value, message, warning)
        return self._post(pod.uid, where, write)

    def post_gpu(self, name: str, uid: str, reason: Reason, message: str, warning: bool) -> bool:
        """Queue an event on a GPU object; return False if it is dropped (see ``post``)."""
        write = partial(self._kube.gpu_event, name, uid, reason.value, message, warning)
        return self._post(f"GPU {uid}", f"GPU {name}", write)

    def post_health(self, name: str, uid: str, reason: Reason, message: str, warning: bool) -> bool:
        """Queue an event on a GPU object whose health changed; return False if the queue is full.

        The event is written when the API server is back. Other events are dropped without it.
        """
        write = partial(self._kube.gpu_event, name, uid, reason.value, message, warning)
        return _enqueue(self._healths, _Notice(f"GPU {name}", write))

    def post_claim(self, claim: ClaimRef, reason: Reason, message: str) -> bool:
        """Queue a warning on a ResourceClaim; return False if it is dropped (see ``post``)."""
        write = partial(self._kube.claim_event, claim, reason.value, message)
        return self._post(claim.uid, f"claim {claim}", write)

    def _post(self, key: str, where: str, write: Callable[[], None]) -> bool:
        with self._lock:
            if not self._allowance.take(key):
                return False
        return _enqueue(self._queue, _Notice(where, write))

    def run(self) -> Never:
        """Write events until the process ends; an event that the API server refuses is dropped."""
        healths = threading.Thread(target=self._write_healths, name="health-events", daemon=True)
        healths.start()
        while True:
            notice = self._queue.get()
            try:
                notice.write()
            except ClusterError as err:
                _log.warning("event on %s not written: %s", notice.target, err)

    def _write_healths(self) -> Never:
        while True:
            notice = self._healths.get()
            attempts = 0
            while not _is_decided(notice, is_reported=attempts > 0):
                attempts += 1
                time.sleep(_RETRY_S)


def _enqueue(events: "queue.Queue[_Notice]", notice: _Notice) -> bool:
    try:
        events.put_nowait(notice)
    except queue.Full:
        return False
    return True


def _is_decided(notice: _Notice, *, is_reported: bool) -> bool:
    """Write an event; return False if the API server is away, which ``is_reported`` already."""
    try:
        notice.write()
    except ClusterError as err:
        is_refused = err.status is not None and err.status < 500 and err.status != 429
        if is_refused or not is_reported:
            _log.warning("event on %s not written: %s", notice.target, err)
        return is_refused
    return True
