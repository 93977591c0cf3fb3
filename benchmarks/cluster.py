"""In a cluster: what a slice adds to a pod's start, and what a launch costs inside a pod.

Needs a configuration for the cluster (KUBECONFIG), a free slice, and clocks of nodes and this
machine that agree, as on kind, where they are one clock.
"""

import base64
import statistics
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

from benchmarks import latency
from benchmarks.on_slice import ProgramFailed
from benchmarks.report import Row, Section

NAME = "cluster"
PAIRS = 10
RESOURCE = "gpu.tessera.dev/mig-1g.10gb"
IMAGE = "tessera.local/tessera-sample:demo"
_NAMESPACE = "default"
_POD_S = 120.0


class _Pods:
    """Pods of one run, deleted one by one."""

    def __init__(self, client: Any) -> None:
        from lightkube.resources.core_v1 import Pod

        self._client = client
        self._pod = Pod
        self._run = uuid.uuid4().hex[:6]
        self._count = 0

    def logs(self, command: list[str], with_slice: bool, volume: str = "") -> tuple[float, str]:
        """Run a pod to its end; return when it was asked for (epoch, s) and what it printed."""
        from lightkube.core.exceptions import ApiError

        self._count += 1
        name = f"bench-{self._run}-{self._count}"
        container: dict[str, Any] = {"name": "main", "image": IMAGE, "command": command}
        spec: dict[str, Any] = {"restartPolicy": "Never", "containers": [container]}
        if with_slice:
            container["resources"] = {"limits": {RESOURCE: "1"}}
        if volume:
            container["volumeMounts"] = [{"name": "files", "mountPath": "/bench"}]
            spec["volumes"] = [
                {"name": "files", "configMap": {"name": volume, "defaultMode": 0o555}}
            ]
        manifest = {"metadata": {"name": name, "namespace": _NAMESPACE}, "spec": spec}
        asked = time.time()
        self._client.create(self._pod.from_dict(manifest))
        try:
            phase = self._wait(name)
            text = "".join(self._client.log(name, namespace=_NAMESPACE))
        except ApiError as err:
            raise ProgramFailed(f"pod {name}: {err}") from err
        finally:
            self._client.delete(self._pod, name, namespace=_NAMESPACE)
        if phase != "Succeeded":
            raise ProgramFailed(f"pod {name} {phase}: {text[-500:]}")
        return asked, text

    def _wait(self, name: str) -> str:
        deadline = time.monotonic() + _POD_S
        while time.monotonic() < deadline:
            status = self._client.get(self._pod, name, namespace=_NAMESPACE).status
            if status.phase in ("Succeeded", "Failed"):
                return str(status.phase)
            time.sleep(0.1)
        raise ProgramFailed(f"pod {name} has not ended in {_POD_S:.0f} s")


def _start_s(pods: _Pods, with_slice: bool) -> float:
    asked, text = pods.logs(["date", "+%s.%N"], with_slice)
    return float(text) - asked


def _latency_rows(client: Any, pods: _Pods) -> tuple[Row, ...]:
    from lightkube.models.meta_v1 import ObjectMeta
    from lightkube.resources.core_v1 import ConfigMap

    name = f"bench-{uuid.uuid4().hex[:6]}"
    with tempfile.TemporaryDirectory() as directory:
        program = latency.build(Path(directory) / "latency").read_bytes()
    files = ConfigMap(
        metadata=ObjectMeta(name=name, namespace=_NAMESPACE),
        binaryData={"latency": base64.b64encode(program).decode()},
        data={"kernel.ptx": latency.PTX.read_text()},
    )
    client.create(files)
    try:
        command = latency.script("/bench/latency", "/bench/kernel.ptx")
        _, text = pods.logs(["sh", "-c", command], True, name)
    finally:
        client.delete(ConfigMap, name, namespace=_NAMESPACE)
    return latency.rows(NAME, text, "in a pod: ")


def measure() -> Section:
    """Make pods in turns, with and without a slice; skipped where there is no cluster."""
    try:
        import httpx2
        import lightkube
        from lightkube.core.exceptions import ApiError, ConfigError
        from lightkube.resources.core_v1 import Node
    except ImportError as err:
        return Section(NAME, skipped=f"no Kubernetes client: {err}")
    try:
        client = lightkube.Client()
        slices = sum(
            int((node.status.allocatable or {}).get(RESOURCE, "0"))
            for node in client.list(Node)
            if node.status is not None
        )
    except (ConfigError, ApiError, httpx2.HTTPError) as err:
        return Section(NAME, skipped=f"no cluster: {err}")
    if not slices:
        return Section(NAME, skipped=f"no node offers {RESOURCE}")
    pods = _Pods(client)
    try:
        for with_slice in (False, True):  # images and caches
            _start_s(pods, with_slice)
        pairs = [(_start_s(pods, False), _start_s(pods, True)) for _ in range(PAIRS)]
        inside = _latency_rows(client, pods)
    except (ApiError, httpx2.HTTPError) as err:
        return Section(NAME, skipped=str(err))
    without, with_slices = (statistics.median(column) * 1000 for column in zip(*pairs, strict=True))
    return Section(
        NAME,
        (
            Row(NAME, f"start of a pod, median of {PAIRS}", without, "ms"),
            Row(NAME, "the same with a slice", with_slices, "ms"),
            Row(NAME, "what the slice costs", with_slices - without, "ms", 150),
            *inside,
        ),
    )
