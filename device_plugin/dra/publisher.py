"""Keeps the node's ResourceSlices at the API server as they should be.

The kubelet deletes a node's slices whenever it restarts, and anybody who may can: what is there is
watched, and written again at once. Nothing is written while nothing differs.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Never, Protocol

from device_plugin.dra import publication
from device_plugin.errors import ClusterError
from device_plugin.kube.followed import RETRY_S, Followed, Source

_LONGEST_S: Final = 60.0  # a cluster without the API, or that drops fields, stays so for long
_TOLD_AFTER: Final = 3  # failures in a row: one is a busy API server's
_log = logging.getLogger(__name__)


class Slices(Source, Protocol):
    """The node's ResourceSlices at the API server (``kube.slices``). All raise ClusterError."""

    def apply(self, document: dict[str, Any]) -> dict[str, Any]: ...
    def delete(self, name: str) -> None: ...


class Publisher:
    """``run`` and ``follow`` have a thread each; ``offer`` and ``problem`` are for any."""

    def __init__(self, kube: Slices, wait: Callable[[float], None] = time.sleep) -> None:
        self._kube = kube
        self._wait = wait
        self._woken = threading.Event()
        self._followed = Followed(kube, self._woken.set)
        self._lock = threading.Lock()
        self._wanted: Mapping[str, Mapping[str, Any]] | None = None  # None: nobody has said
        self._owners: Sequence[Mapping[str, Any]] = ()
        self._generation = 0  # the highest that was ever used
        self._problem = ""
        self._failures = 0
        self._pause_s = RETRY_S

    @property
    def problem(self) -> str:
        """Return why the slices are not as they should be; empty: they are, or soon will be."""
        return self._problem if self._failures >= _TOLD_AFTER else ""

    def offer(
        self, wanted: Mapping[str, Mapping[str, Any]], owners: Sequence[Mapping[str, Any]]
    ) -> None:
        """Say what the slices are to be (``slices.resource_slices``), and whose they are."""
        with self._lock:
            if (wanted, owners) == (self._wanted, self._owners):
                return
            self._wanted, self._owners = wanted, owners
        self._woken.set()

    def follow(self) -> Never:
        """Watch the slices without end."""
        self._followed.run(self._watch_lost, self._wait, _LONGEST_S)

    def _watch_lost(self, err: ClusterError) -> None:
        _log.info("watch of ResourceSlices ended: %s", err)
        if self._followed.documents() is None:
            self._failed(err)

    def run(self) -> Never:
        """Write without end whatever differs."""
        while True:
            self._woken.wait()
            self._woken.clear()
            self.attempt()

    def attempt(self) -> None:
        """Write what differs; what fails is tried again after a while."""
        try:
            if not self.publish():
                return
        except ClusterError as err:
            self._failed(err)
            self._wait(self._pause_s)
            self._pause_s = min(2 * self._pause_s, _LONGEST_S)
            self._woken.set()
        else:
            self._problem, self._failures, self._pause_s = "", 0, RETRY_S

    def _failed(self, err: ClusterError) -> None:
        if str(err) != self._problem:
            _log.warning("ResourceSlices are not as they should be, will retry: %s", err)
        self._problem = str(err)
        self._failures = max(self._failures + 1, _TOLD_AFTER if isinstance(err, Dropped) else 0)

    def publish(self) -> bool:
        """Write what differs; return False while it is not known what there is, or should be.

        Raises:
            ClusterError: the API server did not take it.
            Dropped: it took it without what the scheduler must know: the slices are gone again.
        """
        there = self._followed.documents()
        with self._lock:
            wanted, owners = self._wanted, self._owners
        if there is None or wanted is None:
            return False  # either thread wakes this one again
        known = max([0, *map(publication.generation, there.values())])
        self._generation = max(self._generation, known)
        plan = publication.plan(wanted, there, owners, self._generation + (not there))
        for document in plan.apply:
            self._generation = publication.generation(document)
            answer = self._kube.apply(document)
            self._followed.written(answer)
            if not publication.same(answer, document["spec"], owners):
                self._withdraw(document["metadata"]["name"])
        for name in plan.delete:
            self._delete(name)
        if plan:
            _log.info("%d ResourceSlices of generation %d", len(wanted), self._generation)
        return True

    def _withdraw(self, name: str) -> None:
        """Take back what would be given away twice without its counters."""
        for published in self._followed.documents() or ():
            self._delete(published)
        raise Dropped(
            f"API server: ResourceSlice {name} lost fields: DRA needs Kubernetes 1.36 with the"
            " feature gates DRAPartitionableDevices and DRADeviceTaints, and a pool with"
            " allowMultipleAllocations DRAConsumableCapacity"
        )

    def _delete(self, name: str) -> None:
        self._kube.delete(name)
        self._followed.deleted(name)


class Dropped(ClusterError):
    """The API server does not keep what the slices say."""
