"""This node's GPU objects, listed once and then followed: no pass of the agent asks for them.

A list of one node's GPUs costs the API server a look at those of all nodes. So what is known comes
from one watch, which goes on where the last one ended, and from the answers to our own writes. Only
when the API server has forgotten that version (410 Gone) they are listed anew.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Never, Protocol

from device_plugin.errors import ClusterError
from device_plugin.kube.client import Kube
from device_plugin.kube.followed import Followed
from device_plugin.kube.gpu_object import GpuObject, read
from gpu_operator.api.v1alpha1.gpu import GPUStatus

_FIRST_S = 15.0  # for the first list
_log = logging.getLogger(__name__)


class Gpus(Protocol):
    """What the reconcile loop asks of the API server."""

    def gpus(self) -> list[GpuObject]:
        """Return the GPU objects of this node, by name. Raises ClusterError."""

    def apply_status(self, name: str, status: GPUStatus) -> object:
        """Write a GPU's status. Raises ClusterError."""


class _Source:
    """This node's GPU objects at the API server."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    def list(self) -> tuple[list[dict[str, Any]], str]:
        return self._kube.list_gpus()

    def watch(self, version: str, standing: Callable[[], None]) -> Iterator[dict[str, Any]]:
        return self._kube.watch_gpus(version, standing)


class GpuWatch:
    """``run`` belongs to one thread; the rest may be called by any (``_lock``)."""

    def __init__(
        self, kube: Kube, wake: Callable[[], None], wait: Callable[[float], None] = time.sleep
    ) -> None:
        """Call ``wake`` after each change of what is known that is not our own writing."""
        self._kube = kube
        self._wake = wake
        self._wait = wait
        self._followed = Followed(_Source(kube), self._changed, self._standing)
        self._lock = threading.Lock()
        self._read: dict[str, tuple[dict[str, Any], GpuObject]] = {}  # and what it was read from
        self._problem: ClusterError | None = ClusterError("API server: no answer yet")
        self._asked = threading.Event()  # the first time: who comes before that waits

    def gpus(self) -> list[GpuObject]:
        """Return the GPU objects of this node, by name.

        Raises:
            ClusterError: they are not followed at the moment; why.
        """
        self._asked.wait(_FIRST_S)
        with self._lock:
            if self._problem is not None:
                raise ClusterError(str(self._problem), self._problem.status)
            known = self._followed.documents() or {}
            self._read = {name: self._object(name, known[name]) for name in sorted(known)}
            return [found for _, found in self._read.values()]

    def apply_status(self, name: str, status: GPUStatus) -> None:
        """Write a GPU's status; what comes back is known before the watch tells. Raises
        ClusterError.
        """
        answer = self._kube.apply_status(name, status)
        if answer is not None:
            self._followed.written(answer)

    def run(self) -> Never:
        """Follow without end; whatever fails is tried again."""
        self._followed.run(self._lost, self._wait)

    def follow(self) -> None:
        """As ``Followed.follow``."""
        self._followed.follow()

    def _object(self, name: str, document: dict[str, Any]) -> tuple[dict[str, Any], GpuObject]:
        before = self._read.get(name)
        if before is not None and before[0] is document:
            return before
        return document, read(document)

    def _changed(self) -> None:
        with self._lock:
            self._problem = None
        self._asked.set()
        self._wake()

    def _standing(self) -> None:
        """Note that a watch stands: what is known is up to date, or will be told."""
        with self._lock:
            was_lost, self._problem = self._problem is not None, None
        if was_lost:
            self._wake()

    def _lost(self, err: ClusterError) -> None:
        _log.info("watch ended: %s", err)
        with self._lock:
            self._problem = err
        self._asked.set()
