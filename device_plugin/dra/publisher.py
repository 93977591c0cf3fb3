"""Keeps the node's ResourceSlices at the API server up to date.

The kubelet deletes a node's slices whenever it restarts, and other clients may delete them, too.
So the slices are watched, and written again at once. Nothing is written while nothing differs.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Never, Protocol

from device_plugin.dra import publication
from device_plugin.errors import ClusterError
from device_plugin.kube.informer import RETRY_S, Informer, Source

_LONGEST_S: Final = 60.0  # a cluster without the API, or that drops fields, will not change soon
_REPORTED_AFTER: Final = 3  # consecutive failures: a single one may come from a busy API server
_log = logging.getLogger(__name__)


class Slices(Source, Protocol):
    """The node's ResourceSlices at the API server. All methods raise ClusterError."""

    def apply(self, document: dict[str, Any]) -> dict[str, Any]: ...
    def delete(self, name: str) -> None: ...


class Publisher:
    """Keeps the ResourceSlices at the API server equal to those that ``offer`` has set last.

    ``run`` and ``follow`` have a thread each; any thread may call ``offer`` and ``problem``.
    """

    def __init__(self, kube: Slices, wait: Callable[[float], None] = time.sleep) -> None:
        self._kube = kube
        self._wait = wait
        self._woken = threading.Event()
        self._informer = Informer(kube, self._woken.set)
        self._lock = threading.Lock()
        self._wanted: Mapping[str, Mapping[str, Any]] | None = None  # None: not set yet
        self._owners: Sequence[Mapping[str, Any]] = ()
        self._generation = 0  # the highest that was ever used
        self._problem = ""
        self._failures = 0
        self._pause_s = RETRY_S

    @property
    def problem(self) -> str:
        """Return why the slices are outdated; empty if they are up to date or soon will be."""
        return self._problem if self._failures >= _REPORTED_AFTER else ""

    def offer(
        self, specs: Mapping[str, Mapping[str, Any]], owners: Sequence[Mapping[str, Any]]
    ) -> None:
        """Set the wanted slices (``slices.resource_slices``) and their owners."""
        with self._lock:
            if (specs, owners) == (self._wanted, self._owners):
                return
            self._wanted, self._owners = specs, owners
        self._woken.set()

    def follow(self) -> Never:
        """Watch the slices at the API server forever."""
        self._informer.run(self._watch_lost, self._wait, _LONGEST_S)

    def _watch_lost(self, err: ClusterError) -> None:
        _log.info("watch of ResourceSlices ended: %s", err)
        if self._informer.documents() is None:
            self._failed(err)

    def run(self) -> Never:
        """Publish the wanted slices whenever the published slices differ from them, forever."""
        while True:
            self._woken.wait()
            self._woken.clear()
            self.attempt()

    def attempt(self) -> None:
        """Make one attempt to publish the wanted slices; a later attempt repeats what failed."""
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
            _log.warning("cannot bring the ResourceSlices up to date, will retry: %s", err)
        self._problem = str(err)
        self._failures = max(self._failures + 1, _REPORTED_AFTER if isinstance(err, Dropped) else 0)

    def publish(self) -> bool:
        """Make the slices at the API server equal to the wanted slices.

        Return False while the existing or the wanted slices are unknown.

        Raises:
            ClusterError: the API server refused a write.
            Dropped: the API server dropped fields that the scheduler needs; the slices are deleted.
        """
        existing_slices = self._informer.documents()
        with self._lock:
            specs, owners = self._wanted, self._owners
        if existing_slices is None or specs is None:
            return False  # each of the two threads wakes this one again
        newest_generation = max([0, *map(publication.generation, existing_slices.values())])
        self._generation = max(self._generation, newest_generation)
        plan = publication.plan(
            specs, existing_slices, owners, self._generation + (not existing_slices)
        )
        for document in plan.apply:
            self._generation = publication.generation(document)
            answer = self._kube.apply(document)
            self._informer.apply_write(answer)
            if not publication.same(answer, document["spec"], owners):
                self._withdraw(document["metadata"]["name"])
        for name in plan.delete:
            self._delete(name)
        if plan:
            _log.info("%d ResourceSlices of generation %d", len(specs), self._generation)
        return True

    def _withdraw(self, name: str) -> None:
        """Delete a slice that lost its counters: its devices would be allocated twice."""
        for published in self._informer.documents() or ():
            self._delete(published)
        raise Dropped(
            f"API server: ResourceSlice {name} lost fields: DRA needs Kubernetes 1.36 with the"
            " feature gates DRAPartitionableDevices and DRADeviceTaints; a pool that sets"
            " allowMultipleAllocations also needs the feature gate DRAConsumableCapacity"
        )

    def _delete(self, name: str) -> None:
        self._kube.delete(name)
        self._informer.apply_delete(name)


class Dropped(ClusterError):
    """The API server does not store all fields of the slices."""
