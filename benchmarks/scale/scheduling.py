"""The time until the stock scheduler has bound all pods: with a slice each, and without one."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.scale.control_plane import ControlPlane

RESOURCE = "gpu.tessera.dev/mig-1g.10gb"
_AT_ONCE = 8
_PAGE = 500


class Stalled(Exception):
    """Not all pods were bound in time; the message states how many were."""


class Pods:
    """Sets of pods in a separate namespace."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    def bound_within(self, name: str, count: int, resource: str, within_s: float) -> float:
        """Return the time (s) from the first pod's creation until the last is bound.

        Each requests one of ``resource``; empty: no device. Raises Stalled.
        """
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        self._plane.send("POST", "/api/v1/namespaces", namespace)
        path = f"/api/v1/namespaces/{name}/pods"
        began = time.monotonic()

        def create(number: int) -> None:
            self._plane.send("POST", path, _pod(f"p-{number}", resource))

        with ThreadPoolExecutor(_AT_ONCE) as threads:
            list(threads.map(create, range(count)))
        while (unbound_count := self._unbound(path)) > 0:
            if time.monotonic() - began > within_s:
                raise Stalled(
                    f"{count - unbound_count} of {count} pods were bound in {within_s:.0f} s"
                )
            time.sleep(0.25)
        return time.monotonic() - began

    def _unbound(self, path: str) -> int:
        """Return how many pods have no node; for many pods, a lower bound of some hundreds."""
        query = f"?fieldSelector=spec.nodeName=&limit={_PAGE}"
        return len(self._plane.send("GET", path + query)["items"])


def _pod(name: str, resource: str) -> dict[str, Any]:
    requests = {"cpu": "10m"} | ({resource: "1"} if resource else {})
    limits = {resource: "1"} if resource else {}
    container = {
        "name": "c",
        "image": "scale",
        "resources": {"requests": requests, "limits": limits},
    }
    document = {"metadata": {"name": name}, "spec": {"containers": [container]}}
    return {"apiVersion": "v1", "kind": "Pod", **document}
