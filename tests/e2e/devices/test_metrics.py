"""Prometheus can find a pod's activity under the pod's name, on the node where the pod runs."""

import re
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from support.cluster.kubectl import SOON_S, SYSTEM, Cluster, forward_port, pod_of, until

Manifest = Callable[..., dict[str, Any]]
LINE = re.compile(r"^(\w+)\{(.*)\} (\S+)$", re.MULTILINE)
Samples = dict[str, list[tuple[dict[str, str], float]]]


def scrape(address: str) -> Samples:
    with urllib.request.urlopen(address, timeout=SOON_S) as reply:
        text = reply.read().decode()
    found: Samples = {}
    for name, labels, value in LINE.findall(text):
        pairs = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        found.setdefault(name, []).append((pairs, float(value)))
    return found


def of(samples: Samples, name: str, **wanted: str) -> list[float]:
    return [value for labels, value in samples.get(name, ()) if wanted.items() <= labels.items()]


def test_a_pod_that_computes_is_seen_by_its_name(namespace: Cluster, sample_pod: Manifest) -> None:
    arguments = ("--n", "1048576", "--seconds", "30", "--hold", "60")
    namespace.apply(sample_pod("busy", *arguments))
    node = namespace.wait_pod("busy", "Running")["spec"]["nodeName"]
    mine = {"namespace": namespace.namespace, "pod": "busy", "container": "vectoradd"}
    with forward_port(pod_of(namespace, "exporter", node), 9400) as address:

        def seen() -> Samples | None:
            found = scrape(address)
            at_work = of(found, "DCGM_FI_PROF_GR_ENGINE_ACTIVE", **mine)
            return found if at_work and at_work[0] > 0 else None

        found = until(seen, 60)
    slice_labels = {**mine, "GPU_I_PROFILE": "1g.10gb", "Hostname": node}
    (used,) = of(found, "DCGM_FI_DEV_FB_USED", **slice_labels)
    assert used >= 12  # three buffers of 4 MiB
    (launches,) = of(found, "tessera_kernel_launches_total", **slice_labels)
    assert launches >= 1
    (fp32,) = of(found, "DCGM_FI_PROF_PIPE_FP32_ACTIVE", **slice_labels)
    assert fp32 > 0
    others = of(found, "DCGM_FI_PROF_GR_ENGINE_ACTIVE", Hostname=node)
    assert len(others) > 1  # idle slices are included
    (gpu,) = {
        labels["gpu"]
        for labels, _ in found["DCGM_FI_DEV_FB_USED"]
        if mine.items() <= labels.items()
    }
    (utilisation,) = of(found, "DCGM_FI_DEV_GPU_UTIL", gpu=gpu)
    assert utilisation > 0
    (power,) = of(found, "DCGM_FI_DEV_POWER_USAGE", gpu=gpu)
    assert power > 70  # an H100's power when idle


@pytest.mark.operator
def test_agents_and_operator_tell_what_they_do(whole_cluster: Cluster) -> None:
    node = whole_cluster.get("nodes", "-l", "node-role.tessera.dev/gpu")["items"][0]
    with forward_port(pod_of(whole_cluster, "node", node["metadata"]["name"]), 8081) as address:
        agent = scrape(address)
    assert of(agent, "tessera_agent_passes_total", result="ok")[0] > 0
    assert of(agent, "tessera_agent_kubelet_calls_total", call="List", result="ok")[0] > 0
    assert of(agent, "tessera_agent_registrations_total", result="ok")[0] > 0
    (operator,) = whole_cluster.get(
        "pods", "-n", SYSTEM, "-l", "app.kubernetes.io/component=operator"
    )["items"]
    ready = {"gpupool": "demo", "condition": "Ready"}  # tests of claims edit the pool meanwhile
    with forward_port(operator["metadata"]["name"], 8080) as address:
        until(lambda: of(scrape(address), "tessera_gpupool_status_condition", **ready) == [1.0], 60)
        exported = scrape(address)
    assert of(exported, "leader_election_master_status") == [1.0]
    pools = of(
        exported, "controller_runtime_reconcile_total", controller="GPUPool", result="success"
    )
    assert pools[0] > 0
    assert sum(of(exported, "tessera_gpu_slices", profile="1g.10gb")) > 0
    assert of(exported, "rest_client_requests_total", method="get", code="200")[0] > 0
