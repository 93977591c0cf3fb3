"""This node's GPU objects, listed once and then watched: a pass of the agent sends no query.

To list one node's GPUs the API server reads those of all nodes. So the objects come from one
watch, which continues where the last one ended, and from the answers to the agent's own writes.
Only when the API server no longer has that version (410 Gone) are they listed again.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Never, Protocol

from device_plugin.errors import ClusterError
from device_plugin.kube.client import Kube
from device_plugin.kube.gpu_object import GpuObject, read
from device_plugin.kube.informer import Informer
from gpu_operator.api.v1alpha1.gpu import GPUStatus

_FIRST_S = 15.0  # for the first list
_log = logging.getLogger(__name__)


class Gpus(Protocol):
    """The operations on GPU objects that the reconcile loop uses."""

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

    def watch(self, version: str, accepted: Callable[[], None]) -> Iterator[dict[str, Any]]:
        return self._kube.watch_gpus(version, accepted)


class GpuWatch:
    """The GPU objects of this node.

    Only one thread calls ``run``. Any thread may call the other methods (``_lock``).
    """

    def __init__(
        self, kube: Kube, wake: Callable[[], None], wait: Callable[[float], None] = time.sleep
    ) -> None:
        """Initialize; ``wake`` is called after each change that the agent did not write."""
        self._kube = kube
        self._wake = wake
        self._wait = wait
        self._informer = Informer(_Source(kube), self._changed, self._accepted)
        self._lock = threading.Lock()
        self._read: dict[
            str, tuple[dict[str, Any], GpuObject]
        ] = {}  # the documents that they were read from
        self._problem: ClusterError | None = ClusterError("API server: no answer yet")
        self._listed = threading.Event()  # set after the first list: earlier callers wait for it

    def gpus(self) -> list[GpuObject]:
        """Return the GPU objects of this node, by name.

        Raises:
            ClusterError: the watch is interrupted; the message is the reason.
        """
        self._listed.wait(_FIRST_S)
        with self._lock:
            if self._problem is not None:
                raise ClusterError(str(self._problem), self._problem.status)
            documents = self._informer.documents() or {}
            self._read = {name: self._object(name, documents[name]) for name in sorted(documents)}
            return [gpu_object for _, gpu_object in self._read.values()]

    def apply_status(self, name: str, status: GPUStatus) -> None:
        """Write a GPU's status, and update the known GPU objects from the API server's answer.

        The update does not wait for the watch. Raises ClusterError.
        """
        answer = self._kube.apply_status(name, status)
        if answer is not None:
            self._informer.apply_write(answer)

    def run(self) -> Never:
        """Follow the GPU objects forever, with retries."""
        self._informer.run(self._lost, self._wait)

    def follow(self) -> None:
        """List the GPU objects if necessary, then watch them until the watch ends.

        See ``Informer.follow``.
        """
        self._informer.follow()

    def _object(self, name: str, document: dict[str, Any]) -> tuple[dict[str, Any], GpuObject]:
        cached_read = self._read.get(name)
        if cached_read is not None and cached_read[0] is document:
            return cached_read
        return document, read(document)

    def _changed(self) -> None:
        with self._lock:
            self._problem = None
        self._listed.set()
        self._wake()

    def _accepted(self) -> None:
        """Record that a watch was accepted: the known objects are or will be up to date."""
        with self._lock:
            was_lost, self._problem = self._problem is not None, None
        if was_lost:
            self._wake()

    def _lost(self, err: ClusterError) -> None:
        _log.info("watch ended: %s", err)
        with self._lock:
            self._problem = err
        self._listed.set()
