"""Benchmark in a cluster: the time that a slice adds to a pod's start, and the cost of a launch in
a pod.

A slice is requested as an extended resource, and by a ResourceClaim if a node offers GPUs to
claims too (``kubectl label node NAME tessera.dev/allocation=Both``, with a GPU that no layout
uses fully).

Requires a configuration for the cluster (KUBECONFIG), a free slice, and synchronised clocks of
the nodes and this machine; on kind they are the same clock.
"""

import base64
import statistics
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from benchmarks import latency
from benchmarks.on_slice import ProgramFailed
from benchmarks.report import Row, Section

NAME = "cluster"
PAIRS = 10
RESOURCE = "gpu.tessera.dev/mig-1g.10gb"
DRIVER, CLASS = "gpu.tessera.dev", "mig-1g.10gb.tessera.dev"
IMAGE = "tessera.local/tessera-sample:demo"
_NAMESPACE = "default"
_PREPARE_METRIC = "dra_grpc_operations_duration_seconds"
_POD_S = 120.0


class _Pods:
    """Pods of one run, deleted one by one."""

    def __init__(self, core: Any, template: str = "") -> None:
        """Remember the name of a ResourceClaimTemplate, ``template``, for pods with claims."""
        self._core = core
        self._template = template
        self._run = uuid.uuid4().hex[:6]
        self._count = 0

    def logs(
        self, command: list[str], with_slice: bool, volume: str = "", by_claim: bool = False
    ) -> tuple[float, str]:
        """Run a pod to its end; return the time of the request (epoch, s) and the pod's output."""
        from kubernetes.client import ApiException

        self._count += 1
        name = f"bench-{self._run}-{self._count}"
        container: dict[str, Any] = {"name": "main", "image": IMAGE, "command": command}
        spec: dict[str, Any] = {"restartPolicy": "Never", "containers": [container]}
        if with_slice and by_claim:
            spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": self._template}]
            container["resources"] = {"claims": [{"name": "gpu"}]}
        elif with_slice:
            container["resources"] = {"limits": {RESOURCE: "1"}}
        if volume:
            container["volumeMounts"] = [{"name": "files", "mountPath": "/bench"}]
            spec["volumes"] = [
                {"name": "files", "configMap": {"name": volume, "defaultMode": 0o555}}
            ]
        manifest = {"metadata": {"name": name, "namespace": _NAMESPACE}, "spec": spec}
        requested_at = time.time()
        self._core.create_namespaced_pod(_NAMESPACE, manifest)
        try:
            phase = self._wait(name)
            text = self._core.read_namespaced_pod_log(name, _NAMESPACE)
        except ApiException as err:
            raise ProgramFailed(f"pod {name}: {err}") from err
        finally:
            self._core.delete_namespaced_pod(name, _NAMESPACE)
        if phase != "Succeeded":
            raise ProgramFailed(f"pod {name} {phase}: {text[-500:]}")
        return requested_at, text

    def _wait(self, name: str) -> str:
        deadline = time.monotonic() + _POD_S
        while time.monotonic() < deadline:
            status = self._core.read_namespaced_pod(name, _NAMESPACE).status
            if status.phase in ("Succeeded", "Failed"):
                return str(status.phase)
            time.sleep(0.1)
        raise ProgramFailed(f"pod {name} has not ended in {_POD_S:.0f} s")


def _start_s(pods: _Pods, with_slice: bool, by_claim: bool = False) -> float:
    requested_at, text = pods.logs(["date", "+%s.%N"], with_slice, by_claim=by_claim)
    return float(text) - requested_at


def _claim_rows(core: Any, resource: Any) -> tuple[Row, ...]:
    """Start pods with a slice from the device plugin and from a claim, alternately.

    Return no rows where no node publishes devices for claims.
    """
    published = [resource_slice.spec for resource_slice in resource.list_resource_slice().items]
    if not any(spec.driver == DRIVER and spec.devices for spec in published):
        return ()
    name = f"bench-{uuid.uuid4().hex[:6]}"
    request = {"name": "gpu", "exactly": {"deviceClassName": CLASS}}
    template = {"metadata": {"name": name}, "spec": {"spec": {"devices": {"requests": [request]}}}}
    resource.create_namespaced_resource_claim_template(_NAMESPACE, template)
    try:
        pods = _Pods(core, name)
        _start_s(pods, True, by_claim=True)
        calls_before = _prepare_calls(core)
        pairs = [(_start_s(pods, True), _start_s(pods, True, by_claim=True)) for _ in range(PAIRS)]
        calls_after = _prepare_calls(core)
    finally:
        resource.delete_namespaced_resource_claim_template(name, _NAMESPACE)
    plugin, claim = (statistics.median(column) * 1000 for column in zip(*pairs, strict=True))
    calls, seconds = (end - start for end, start in zip(calls_after, calls_before, strict=True))
    if not calls:
        raise ProgramFailed("no kubelet has counted a call of NodePrepareResources")
    return (
        Row(NAME, f"start with a slice by the device plugin, median of {PAIRS}", plugin, "ms"),
        Row(NAME, "start with a slice by a claim", claim, "ms"),
        Row(NAME, "what the claim costs beside the plugin", claim - plugin, "ms", 150),
        Row(NAME, "of it, the driver's part: Prepare, mean", 1000 * seconds / calls, "ms"),
    )


def _prepare_calls(core: Any) -> tuple[float, float]:
    """Return the number and the total seconds of the kubelets' Prepare calls to Tessera's driver.

    The source is the kubelets' own histogram, ``dra_grpc_operations_duration_seconds``.
    """
    totals = {"count": 0.0, "sum": 0.0}
    for node in core.list_node().items:
        text = core.connect_get_node_proxy_with_path(node.metadata.name, "metrics")
        for family in text_string_to_metric_families(text):
            for sample in family.samples if family.name == _PREPARE_METRIC else ():
                labels = sample.labels
                ours = labels.get("driver_name") == DRIVER
                if ours and labels.get("method_name", "").endswith("NodePrepareResources"):
                    kind = sample.name.rpartition("_")[2]
                    if kind in totals:
                        totals[kind] += sample.value
    return totals["count"], totals["sum"]


def _latency_rows(core: Any, pods: _Pods) -> tuple[Row, ...]:
    name = f"bench-{uuid.uuid4().hex[:6]}"
    with tempfile.TemporaryDirectory() as directory:
        program = latency.build(Path(directory) / "latency").read_bytes()
    files = {
        "metadata": {"name": name},
        "binaryData": {"latency": base64.b64encode(program).decode()},
        "data": {"kernel.ptx": latency.PTX.read_text()},
    }
    core.create_namespaced_config_map(_NAMESPACE, files)
    try:
        command = latency.script("/bench/latency", "/bench/kernel.ptx")
        _, text = pods.logs(["sh", "-c", command], True, name)
    finally:
        core.delete_namespaced_config_map(name, _NAMESPACE)
    return latency.rows(NAME, text, "in a pod: ", sync_goal_us=10)


def measure() -> Section:
    """Start pods with and without a slice alternately; skipped where there is no cluster."""
    try:
        import urllib3
        from kubernetes import client, config
    except ImportError as err:
        return Section(NAME, skipped=f"no Kubernetes client: {err}")
    unreachable = (client.ApiException, urllib3.exceptions.HTTPError)
    try:
        config.load_kube_config()
        core = client.CoreV1Api()
        slices = sum(
            int((node.status.allocatable or {}).get(RESOURCE, "0"))
            for node in core.list_node().items
        )
    except (config.ConfigException, *unreachable) as err:
        return Section(NAME, skipped=f"no cluster: {err}")
    if not slices:
        return Section(NAME, skipped=f"no node offers {RESOURCE}")
    pods = _Pods(core)
    try:
        for with_slice in (False, True):  # pull images and fill caches
            _start_s(pods, with_slice)
        pairs = [(_start_s(pods, False), _start_s(pods, True)) for _ in range(PAIRS)]
        claimed = _claim_rows(core, client.ResourceV1Api())
        inside = _latency_rows(core, pods)
    except unreachable as err:
        return Section(NAME, skipped=str(err))
    without, with_slices = (statistics.median(column) * 1000 for column in zip(*pairs, strict=True))
    return Section(
        NAME,
        (
            Row(NAME, f"start of a pod, median of {PAIRS}", without, "ms"),
            Row(NAME, "the same with a slice", with_slices, "ms"),
            Row(NAME, "what the slice costs", with_slices - without, "ms", 150),
            *claimed,
            *inside,
        ),
    )
