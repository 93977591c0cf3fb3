"""A team's existing setup for NVIDIA's stack works unchanged: values, labels, manifests, tools.

One cluster is used like theirs: chart values, `mig.config`, a Job with a runtime class,
nvidia-smi, the metrics endpoint, and Python's NVML tools, unmodified, in a pod.
"""

import contextlib
import io
import re
import subprocess
import sys
import tarfile
import urllib.request
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.cluster import helm_release
from support.cluster.kubectl import EXAMPLES, SAMPLE_IMAGE, Cluster, forward_port, pod_of, until

pytestmark = pytest.mark.alone
VALUES = (
    "resourcePrefix=nvidia.com",
    "migStrategy=single",
    "nvidiaSmi.enabled=true",
    "runtimeClass.create=true",
    "exporter.enabled=true",
)
TOOLS = ("nvidia-ml-py", "nvitop", "gpustat")
CONFIG, STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"


@pytest.fixture(scope="module")
def as_theirs(whole_cluster: Cluster) -> Iterator[Cluster]:
    """The chart with a team's values; the team configures one node by its label."""
    values = helm_release.values()
    whole_cluster.delete("miglayout", "seven")
    helm_release.upgrade(values, *VALUES)
    try:
        until(lambda: gpus(whole_cluster) == [2, 2], 180)  # MIG off: each node has two whole GPUs
        yield whole_cluster
    finally:
        for node in names(whole_cluster):
            whole_cluster.kubectl("label", "node", node, f"{CONFIG}-")
        helm_release.upgrade(values)
        whole_cluster.kubectl("apply", "-f", str(EXAMPLES / "layout-h100-7x1g.yaml"))
        wait = ["wait", "--for=condition=Ready", "gpupolicy/default", "miglayout/seven"]
        whole_cluster.kubectl(*wait, "--timeout=240s")


def nodes_of(cluster: Cluster) -> list[dict[str, Any]]:
    """Return the pool's nodes, by name."""
    found: list[dict[str, Any]] = cluster.get("nodes", "-l", "gpu.tessera.dev/pool=demo")["items"]
    return sorted(found, key=lambda node: str(node["metadata"]["name"]))


def names(cluster: Cluster) -> list[str]:
    """Return the names of the pool's nodes."""
    return [node["metadata"]["name"] for node in nodes_of(cluster)]


def gpus(cluster: Cluster) -> list[int]:
    """Return the number of ``nvidia.com/gpu`` that each node of the pool offers to pods."""
    return [int(n["status"]["allocatable"].get("nvidia.com/gpu", 0)) for n in nodes_of(cluster)]


@pytest.fixture(scope="module")
def labelled_node(as_theirs: Cluster) -> Cluster:
    """The cluster; the label of its first node requests seven slices of each GPU."""
    node = names(as_theirs)[0]
    as_theirs.kubectl("label", "node", node, f"{CONFIG}=all-1g.10gb", "--overwrite")
    seen = set()

    def done() -> bool:
        labels = as_theirs.get("node", node)["metadata"]["labels"]
        seen.add(labels.get(STATE))
        return bool(labels.get(STATE) == "success") and gpus(as_theirs) == [14, 2]

    until(done, 120, every_s=0.1)
    assert seen <= {None, "pending", "success"}
    return as_theirs


JOB = """
apiVersion: batch/v1
kind: Job
metadata:
  name: training
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      runtimeClassName: nvidia
      tolerations:
      - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
      nodeSelector: {nvidia.com/gpu.present: "true"}
      containers:
      - name: main
        image: IMAGE
        imagePullPolicy: IfNotPresent
        command: [python, vectoradd.py]
        env:
        - {name: NVIDIA_VISIBLE_DEVICES, value: all}
        - {name: NVIDIA_DRIVER_CAPABILITIES, value: "compute,utility"}
        resources: {limits: {nvidia.com/gpu: 1}}
"""


def test_their_own_job_computes(labelled_node: Cluster) -> None:
    labelled_node.kubectl("apply", "-f", "-", stdin=JOB.replace("IMAGE", SAMPLE_IMAGE))
    try:
        labelled_node.kubectl("wait", "--for=condition=complete", "job/training", "--timeout=120s")
        assert "verified" in labelled_node.kubectl("logs", "job/training")
    finally:
        labelled_node.delete("job", "training")


@pytest.fixture(scope="module")
def debug_pod(labelled_node: Cluster) -> Iterator[str]:
    """The name of a pod with one device on the node that has slices."""
    name = "debug"
    container = {
        "name": "main",
        "image": SAMPLE_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sleep", "3600"],
        "resources": {"limits": {"nvidia.com/gpu": 1}},
    }
    spec = {
        "terminationGracePeriodSeconds": 1,
        "nodeSelector": {"kubernetes.io/hostname": names(labelled_node)[0]},
        "containers": [container],
    }
    labelled_node.apply(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    )
    try:
        labelled_node.wait_pod(name, "Running")
        yield name
    finally:
        labelled_node.delete("pod", name)


def test_nvidia_smi_answers_in_the_pod(labelled_node: Cluster, debug_pod: str) -> None:
    def smi(*arguments: str) -> str:
        return labelled_node.kubectl("exec", debug_pod, "--", "nvidia-smi", *arguments)

    listed = smi("-L").splitlines()
    assert re.fullmatch(r"GPU 0: NVIDIA H100 80GB HBM3 \(UUID: GPU-[-0-9a-f]{36}\)", listed[0])
    assert re.fullmatch(r"  MIG 1g\.10gb +Device +0: \(UUID: MIG-[-0-9a-f]{36}\)", listed[1])
    assert len(listed) == 2  # other slices are not visible
    table = smi()
    assert "Tessera" in table.splitlines()[1] + table.splitlines()[2]
    assert "MIG devices:" in table
    assert "1g.10gb" in smi("mig", "-lgip")
    tree = ET.fromstring(smi("-q", "-x"))
    assert tree.findtext("attached_gpus") == "1"
    assert tree.findtext("gpu/mig_mode/current_mig") == "Enabled"
    query = smi("--query-gpu=name,uuid,mig.mode.current", "--format=csv,noheader")
    assert query.split(", ")[0] == "NVIDIA H100 80GB HBM3"


def test_python_s_tools_answer_in_the_pod(
    labelled_node: Cluster, debug_pod: str, tmp_path: Path
) -> None:
    pip = [sys.executable, "-m", "pip", "install", "-q", "--target", str(tmp_path / "site")]
    done = subprocess.run([*pip, *TOOLS], capture_output=True, text=True, timeout=240)
    if done.returncode:
        pytest.skip(f"NOT RUN: {TOOLS} are not available: {done.stderr.strip()[-200:]}")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(tmp_path / "site", "site")
    into = ["kubectl", "exec", "-i", debug_pod, "--", "tar", "-x", "-C", "/tmp"]
    subprocess.run(into, input=packed.getvalue(), check=True, timeout=120)

    def python(*arguments: str) -> str:
        command = ["env", "PYTHONPATH=/tmp/site", "COLUMNS=120", "python", *arguments]
        return labelled_node.kubectl("exec", debug_pod, "--", *command)

    program = """
import pynvml as n
n.nvmlInit()
gpu = n.nvmlDeviceGetHandleByIndex(0)
mig = n.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)
print(n.nvmlDeviceGetCount(), n.nvmlDeviceGetName(gpu), n.nvmlDeviceGetMigMode(gpu)[0],
      n.nvmlDeviceGetUUID(mig)[:4], n.nvmlDeviceGetMemoryInfo(mig).total >> 20)
"""
    words = python("-c", program).split()
    assert words[0] == "1"
    assert words[-3:-1] == ["1", "MIG-"]
    assert "H100" in python("-m", "gpustat", "--no-color")
    assert "H100" in python("-m", "nvitop", "--once", "--ascii")


def test_metrics_name_the_pod(labelled_node: Cluster, debug_pod: str) -> None:
    exporter = pod_of(labelled_node, "exporter", names(labelled_node)[0])
    with forward_port(exporter, 9400) as url:
        text = until(lambda: _scrape_with(url, f'pod="{debug_pod}"'))
    mine = [line for line in text.splitlines() if f'pod="{debug_pod}"' in line]
    assert any(line.startswith("DCGM_FI_DEV_FB_FREE{") for line in mine)
    assert all('GPU_I_PROFILE="1g.10gb"' in line for line in mine)
    assert re.search(r"^DCGM_FI_DEV_GPU_TEMP\{", text, re.MULTILINE)


def _scrape_with(url: str, wanted: str) -> str:
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=20) as answer:
        text: str = answer.read().decode()
        return text if wanted in text else ""
    return ""


def test_a_name_that_is_missing_is_failed_and_said(labelled_node: Cluster) -> None:
    node = names(labelled_node)[1]
    labelled_node.kubectl("label", "node", node, f"{CONFIG}=all-9g.99gb", "--overwrite")

    def failed() -> bool:
        labels = labelled_node.get("node", node)["metadata"]["labels"]
        return bool(labels.get(STATE) == "failed")

    until(failed, 60)
    labelled_node.wait_for_event(node, "MIGConfigFailed", "all-9g.99gb")
    assert gpus(labelled_node)[1] == 2  # the previous state remains
