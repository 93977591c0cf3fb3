"""An API server for ResourceSlices in memory, with the faults of a real one."""

import copy
import queue
from collections.abc import Callable, Iterator
from typing import Any

from device_plugin.errors import ClusterError


class SliceApi:
    """A stand-in for ``SliceKube``. ``calls`` are all writes, in order.

    The next ``fails`` writes fail; ``drops`` are the fields of a device or slice that a cluster
    without a feature leaves out. The event None ends the watch.
    """

    def __init__(self) -> None:
        self.slices: dict[str, dict[str, Any]] = {}
        self.calls: list[tuple[str, str]] = []
        self.fails = 0
        self.drops: frozenset[str] = frozenset()
        self.lists = 0
        self._version = 0
        self._events: queue.Queue[dict[str, Any] | None] = queue.Queue()

    def list(self) -> tuple[list[dict[str, Any]], str]:
        self.lists += 1
        return list(self.slices.values()), str(self._version)

    def watch(self, version: str, standing: Callable[[], None]) -> Iterator[dict[str, Any]]:
        del version
        standing()
        while (event := self._events.get()) is not None:
            yield event

    def apply(self, document: dict[str, Any]) -> dict[str, Any]:
        self._call("apply", document["metadata"]["name"])
        kept = copy.deepcopy(document)
        kept["spec"] = {k: v for k, v in kept["spec"].items() if k not in self.drops}
        for device in kept["spec"].get("devices", ()):
            for field in self.drops & device.keys():
                del device[field]
            for taint in device.get("taints", ()):
                taint["timeAdded"] = f"2026-01-01T00:00:{self._version % 60:02}Z"
        return self._put(kept)

    def delete(self, name: str) -> None:
        self._call("delete", name)
        if name in self.slices:
            self.lose(name)

    def lose(self, name: str) -> None:
        """Delete a slice, as a restarting kubelet does."""
        self._version += 1
        gone = self.slices.pop(name)
        gone["metadata"]["resourceVersion"] = str(self._version)
        self._events.put({"type": "DELETED", "object": gone})

    def end_watch(self) -> None:
        self._events.put(None)

    def _put(self, document: dict[str, Any]) -> dict[str, Any]:
        self._version += 1
        name = document["metadata"]["name"]
        known = self.slices.get(name)
        uid = known["metadata"]["uid"] if known else f"uid-{self._version}"
        document["metadata"] |= {"uid": uid, "resourceVersion": str(self._version)}
        self.slices[name] = document
        event = {"type": "MODIFIED" if known else "ADDED", "object": copy.deepcopy(document)}
        self._events.put(event)
        return copy.deepcopy(document)

    def _call(self, verb: str, name: str) -> None:
        if self.fails:
            self.fails -= 1
            raise ClusterError("API server: 500 etcd is away", 500)
        self.calls.append((verb, name))

    @property
    def generations(self) -> set[int]:
        return {one["spec"]["pool"]["generation"] for one in self.slices.values()}
