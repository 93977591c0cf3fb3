"""The content of the cluster: nodes, the pods of the DaemonSets, and Tessera's objects."""

import time
import urllib.error
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.scale.control_plane import ControlPlane
from benchmarks.scale.fleet import name_of
from benchmarks.scale.processes import NAMESPACE

GPUS_A_NODE = 8
BOARD = "h100-80gb"
OURS = "/apis/gpu.tessera.dev/v1alpha1"
_PROMPT_S = 0.25
_AT_ONCE = 8
_MERGE = "application/merge-patch+json"


class Stuck(Exception):
    """An expected state was not reached in time; the message states the state instead."""


class Cluster:
    """The API server's objects, as the administrator writes and reads them."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    def create_nodes(self, count: int) -> None:
        """Create the namespace and nodes that are ready and have no GPUs yet."""
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        self._plane.send("POST", "/api/v1/namespaces", namespace)

        def create(number: int) -> None:
            node = {"metadata": {"name": name_of(number), "labels": {"gpu": "yes"}}}
            self._plane.send("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", **node})
            ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
            status = {"conditions": [ready], "capacity": {"cpu": "64", "pods": "250"}}
            status["allocatable"] = status["capacity"]
            path = f"/api/v1/nodes/{name_of(number)}/status"
            self._plane.send("PATCH", path, {"status": status}, _MERGE)

        _all(create, range(count))

    def create_pool(self) -> None:
        """Create the pool that has all nodes."""
        spec = {"nodeSelector": {"gpu": "yes"}, "board": BOARD, "count": GPUS_A_NODE}
        self._ours(
            "POST", "/gpupools", {"kind": "GPUPool", "metadata": {"name": "p"}, "spec": spec}
        )

    def run_daemon_set(self, nodes: Sequence[int]) -> None:
        """Create the DaemonSets' pods and status, as their controller and kubelets would."""
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets"

        def both() -> list[Any]:  # gpud's and the agents'
            daemon_sets = self._plane.send("GET", path)["items"]
            return daemon_sets if len(daemon_sets) == 2 else []

        for daemon_set in self.wait("the DaemonSets", both, 300):
            self._run(path, daemon_set, nodes)

    def _run(self, path: str, daemon_set: dict[str, Any], nodes: Sequence[int]) -> None:
        template = daemon_set["spec"]["template"]["metadata"]
        name = daemon_set["metadata"]["name"]

        def create(number: int) -> None:
            metadata = {
                "name": f"{name}-{number}",
                "labels": template["labels"],
                "annotations": template.get("annotations", {}),
            }
            spec = {
                "nodeName": name_of(number),
                "containers": [{"name": "agent", "image": "scale"}],
            }
            document = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
            pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
            self._plane.send("POST", pods, document)
            ready = {"name": "agent", "ready": True, "image": "", "imageID": "", "restartCount": 0}
            status = {"status": {"phase": "Running", "containerStatuses": [ready]}}
            self._plane.send("PATCH", f"{pods}/{name}-{number}/status", status, _MERGE)

        _all(create, nodes)
        figures = ("currentNumberScheduled", "desiredNumberScheduled", "numberReady")
        status = dict.fromkeys((*figures, "updatedNumberScheduled"), len(nodes))
        status |= {
            "numberMisscheduled": 0,
            "observedGeneration": daemon_set["metadata"]["generation"],
        }
        self._plane.send("PATCH", f"{path}/{name}/status", {"status": status}, _MERGE)

    def layout(self, instances: Sequence[tuple[str, int]], unavailable: str) -> int:
        """Request these slices on every GPU; return the layout's generation."""
        requested_slices = [{"profile": profile, "count": count} for profile, count in instances]
        spec = {"instances": requested_slices, "rollout": {"maxUnavailable": unavailable}}
        try:
            stored_layout = self._ours("PATCH", "/miglayouts/l", {"spec": spec})
        except urllib.error.HTTPError as err:
            if err.code != 404:
                raise
            document = {"kind": "MIGLayout", "metadata": {"name": "l"}, "spec": spec}
            stored_layout = self._ours("POST", "/miglayouts", document)
        return int(stored_layout["metadata"]["generation"])

    def count_applied(self, generation: int) -> int:
        """Return on how many GPUs this generation of the layout is applied and visible to the
        scheduler.
        """
        status = self._ours("GET", "/miglayouts/l").get("status") or {}
        is_observed = status.get("observedGeneration") == generation
        return int(status.get("gpusApplied") or 0) if is_observed else 0

    def status_bytes(self) -> int:
        """Return the size of the layout's status."""
        return len(str(self._ours("GET", "/miglayouts/l").get("status")))

    def count_reported(self) -> int:
        """Return the number of GPUs whose agents have reported them in their initial state."""
        gpus = self._ours("GET", "/gpus?resourceVersion=0")["items"]
        return sum(bool((gpu.get("status") or {}).get("slices")) for gpu in gpus)

    def leader(self) -> str:
        """Return the holder of the operator's lease."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/tessera-operator"
        try:
            return str(self._plane.send("GET", path)["spec"].get("holderIdentity") or "")
        except urllib.error.HTTPError:
            return ""

    def wait(
        self,
        event: str,
        probe: Callable[[], Any],
        within_s: float,
        every_s: float = _PROMPT_S,
    ) -> Any:
        """Return the first true result of ``probe``. Raises Stuck."""
        deadline = time.monotonic() + within_s
        while not (answer := probe()):
            if time.monotonic() > deadline:
                raise Stuck(f"{event} did not come in {within_s:.0f} s")
            time.sleep(every_s)
        return answer

    def _ours(self, method: str, path: str, document: Any = None) -> Any:
        if document is not None:
            document = {"apiVersion": "gpu.tessera.dev/v1alpha1", **document}
        return self._plane.send(method, OURS + path, document, _MERGE if method == "PATCH" else "")


def _all(work: Callable[[int], None], items: Iterable[int]) -> None:
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(work, items))
