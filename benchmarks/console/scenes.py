"""What pictures need beside a fleet: a rollout, faults, inference pods and an exporter."""

import datetime
import math
from collections.abc import Iterator
from typing import Final

from benchmarks.console.synthetic import SyntheticCluster
from gpu_operator.api.v1alpha1 import CHANGED_AT, ROLLED_BACK, ROLLED_BACK_WHY
from gpu_operator.kube.port import Document
from mig import geometry
from mig.spec import Place

EXPORTERS: Final = {"exporter-of-gpus": "gpu-0003", "exporter-of-an-hca": "gpu-0001"}
_EXPORTED, _WITH_HCA = EXPORTERS.values()
LOST: Final = "gpu-0004-gpu-2"
_NODES: Final = ("gpu-0006",)
_HALVES: Final = [{"profile": "3g.40gb", "start": 0}, {"profile": "3g.40gb", "start": 4}]
_BOUNDS_S: Final = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0)
_SHARES: Final = (0.02, 0.11, 0.35, 0.55, 0.82, 0.94, 0.985, 1.0)  # of requests, by bound
_MOST_PODS: Final = 6
_COUNTERS: Final = {  # of an instance, with their growth per second
    "tessera_kernel_launches_total": 9e3,
    "tessera_kernel_seconds_total": 1.0,
    "tessera_host_to_device_bytes_total": 3e9,
    "tessera_device_to_host_bytes_total": 4e8,
}


def add_rollout(cluster: SyntheticCluster) -> None:
    """Add a layout whose change waits for pods on some GPUs, and was rolled back on one."""
    current_time = datetime.datetime.now(datetime.UTC)
    why = "not done in 600 s, rolled back to 7g.80gb@0: 7g.80gb@0 is held by pod ci/ci-0815-0"
    gpus = [gpu for gpu in cluster.objects["GPU"].values() if gpu["spec"]["nodeName"] in _NODES]
    for number, gpu in enumerate(gpus):
        gpu["spec"] |= {"layout": "halves", "instances": _HALVES}
        begun = current_time - datetime.timedelta(seconds=60 + 20 * number)
        notes = {CHANGED_AT: begun.isoformat(timespec="seconds")}
        if number == 1:
            notes |= {ROLLED_BACK: "uid-halves/1", ROLLED_BACK_WHY: why}
        gpu["metadata"]["annotations"] = notes
    condition = {
        "type": "Degraded",
        "status": "True",
        "reason": "DeadlineExceeded",
        "message": f"{gpus[1]['metadata']['name']}: {why}",
        "lastTransitionTime": current_time.isoformat(timespec="seconds"),
    }
    metadata = {"name": "halves", "uid": "uid-halves", "generation": 1}
    metadata["creationTimestamp"] = "2025-01-01T00:00:00Z"
    spec = {
        "selector": {"nodeNames": list(_NODES)},
        "instances": [{"profile": "3g.40gb", "count": 2}],
    }
    status: Document = {"observedGeneration": 1, "conditions": [condition]}
    status |= {"gpusSelected": len(gpus), "gpusApplied": 1}
    cluster.put(
        "MIGLayout", {"kind": "MIGLayout", "metadata": metadata, "spec": spec, "status": status}
    )


def add_fault(cluster: SyntheticCluster) -> None:
    """Have a GPU be unhealthy by the GPUFault that names it."""
    fault = cluster.objects["GPUFault"]["xid-48-drill"]
    gpu = cluster.objects["GPU"].get(fault["spec"]["gpuName"])
    if gpu is None:
        return
    uid = fault["metadata"]["uid"]
    gpu["spec"]["faults"] = [{"id": uid, "kind": "xid", "xid": 48}]
    gpu["status"]["faults"] = [{"id": uid, "phase": "Injected"}]
    gpu["status"]["health"] = "Unhealthy: Xid 48"
    cluster.put("GPU", gpu)


def add_verdicts(cluster: SyntheticCluster) -> None:
    """Add events with long messages: of the scheduler, about a policy, and a denial."""
    pod = {"apiVersion": "v1", "kind": "Pod", "namespace": "training"}
    policy = {"apiVersion": "rdma.tessera.dev/v1alpha1", "kind": "RDMANetworkPolicy"}
    refused = "Write of training/worker-0 (10.1.0.9) to training/worker-2 (10.1.0.11) denied by"
    for name, about, reason, message in (
        (
            "waits",
            {**pod, "name": "llama-finetune-0"},
            "FailedScheduling",
            "0/40 nodes are available: 40 Insufficient gpu.tessera.dev/mig-7g.80gb. preemption:"
            " 0/40 nodes are available: 40 No preemption victims found for incoming pod.",
        ),
        (
            "layer",
            {**policy, "namespace": "training", "name": "read-only-weights"},
            "EngineOnly",
            "only hcad evaluates policies there: gpu-0001: linkd: TimeoutError",
        ),
        (
            "denial",
            {**pod, "name": "worker-0"},
            "RDMADenied",
            f"{refused} training/read-only-weights",
        ),
    ):
        event = {
            "metadata": {"name": name, "namespace": "training"},
            "involvedObject": about,
            "type": "Warning",
            "reason": reason,
            "message": message,
            "firstTimestamp": "2026-01-01T08:30:00Z",
            "lastTimestamp": "2026-01-01T10:05:00Z",
            "count": 7,
            "source": {"component": "tessera-operator"},
        }
        cluster.put("Event", event)


def lose_gpu(cluster: SyntheticCluster) -> None:
    """Have a GPU be off the bus by a fault that was injected on its node."""
    gpu = cluster.objects["GPU"].get(LOST)
    if gpu is not None:
        gpu["status"] |= {"health": "Unhealthy", "lost": True}
        for gpu_slice in gpu["status"]["slices"]:
            gpu_slice["health"] = "Unhealthy: Xid 79 (GPU has fallen off the bus)"
        cluster.put("GPU", gpu)


def add_exporter(cluster: SyntheticCluster) -> None:
    """Add the exporters of two nodes: one with figures of GPUs, one with those of an HCA."""
    labels = {"app.kubernetes.io/component": "exporter"}
    for name, node in EXPORTERS.items():
        metadata = {"name": name, "namespace": "tessera-system", "labels": labels}
        spec = {"nodeName": node, "containers": [{"name": "exporter"}]}
        status = {"phase": "Running"}
        cluster.put("Pod", {"kind": "Pod", "metadata": metadata, "spec": spec, "status": status})


def read_exporter(cluster: SyntheticCluster, name: str, age_s: float) -> str:
    """Return what an exporter answers: figures that rise and fall, of each GPU at its own pace."""
    is_hca = EXPORTERS[name] == _WITH_HCA
    return "\n".join(_export_rdma(age_s) if is_hca else _export(cluster, age_s)) + "\n"


def _export_rdma(age_s: float) -> Iterator[str]:
    yield "tessera_hcad_up 1"
    for number in range(3):
        pod = f'namespace="training",pod="worker-{number * 2}"'
        port = f'{{device="HCA-0",port="1",hca="{number}",{pod}}}'
        for name in ("received", "transmitted"):
            yield f"node_infiniband_port_data_{name}_bytes_total{port} {1e9 * (number + age_s):.0f}"
            yield f"tessera_rdma_local_{name}_bytes_total{port} {1e8 * (number + age_s):.0f}"
        ends = f'source_namespace="training",source_pod="worker-{number * 2}"'
        ends += f',destination_namespace="training",destination_pod="worker-{number * 2 + 2}"'
        yield f'tessera_rdma_requests_total{{{ends},verb="WriteImm"}} {2000 * age_s:.0f}'
        yield f'tessera_rdma_request_bytes_total{{{ends},verb="WriteImm"}} {1e9 * age_s:.0f}'
        policies = "training/read-only-weights, training/no-write-from-other-teams"
        denied = f'{ends},verb="Write",policy="{policies}",action="denied"'
        yield f"tessera_rdma_denials_total{{{denied}}} {1 + age_s // 20:.0f}"


def _export(cluster: SyntheticCluster, age_s: float) -> Iterator[str]:
    for gpu in cluster.objects["GPU"].values():
        spec, status = gpu["spec"], gpu["status"]
        if spec["nodeName"] != _EXPORTED:
            continue
        board, index = geometry.board(spec["board"]), spec["index"]
        busy = 0.5 + 0.45 * math.sin(age_s / (20 + 7 * index))
        yield f'DCGM_FI_DEV_GPU_UTIL{{gpu="{index}"}} {100 * busy:.0f}'
        yield f'DCGM_FI_PROF_PCIE_RX_BYTES{{gpu="{index}"}} {3e9 * busy:.0f}'
        yield f'DCGM_FI_PROF_PCIE_TX_BYTES{{gpu="{index}"}} {4e8 * busy:.0f}'
        for gpu_slice in status["slices"]:
            labels = f'gpu="{index}"'
            if gpu_slice["profile"] != geometry.WHOLE:
                place = Place(
                    gpu_slice["profile"], gpu_slice["start"], gpu_slice.get("computeStart")
                )
                number = board.instance(*place)
                gi_id = board.number_of(number.start, number.profile.size)
                labels += f',GPU_I_PROFILE="{gpu_slice["profile"]}",GPU_I_ID="{gi_id}"'
                if gpu_slice.get("computeStart") is not None:
                    labels += f',GPU_CI_ID="{gpu_slice["computeStart"]}"'
            for holder in gpu_slice["holders"][:1]:
                labels += f',namespace="{holder["namespace"]}",pod="{holder["name"]}"'
            active = busy if gpu_slice["holders"] else 0
            yield f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{labels}}} {active:.2f}"
            used = gpu_slice["memoryUsedBytes"] * (0.8 + 0.2 * busy) / 2**20
            yield f"DCGM_FI_DEV_FB_USED{{{labels}}} {used:.0f}"
            yield f"DCGM_FI_DEV_FB_FREE{{{labels}}} {gpu_slice['memoryBytes'] / 2**20 - used:.0f}"
            yield f"tessera_contexts{{{labels}}} {bool(gpu_slice['holders']):d}"
            for name, pace in _COUNTERS.items():
                yield f"{name}{{{labels}}} {pace * active * age_s:.0f}"


def add_holders(cluster: SyntheticCluster) -> None:
    """Add the pods that hold slices, as far as they do not exist."""
    for gpu in cluster.objects["GPU"].values():
        for gpu_slice in gpu["status"]["slices"]:
            for holder in gpu_slice["holders"]:
                key = f"{holder['namespace']}/{holder['name']}"
                if key not in cluster.objects.get("Pod", {}):
                    cluster.put("Pod", _make_holder(gpu, gpu_slice, holder))


def _make_holder(gpu: Document, gpu_slice: Document, holder: Document) -> Document:
    limits = {f"gpu.tessera.dev/mig-{gpu_slice['profile']}": "1"}
    metadata = {**holder, "creationTimestamp": "2026-01-01T08:00:00Z"}
    spec = {
        "containers": [{"name": "c", "resources": {"limits": limits}}],
        "nodeName": gpu["spec"]["nodeName"],
    }
    status = {"phase": "Running"}
    return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def add_inference(cluster: SyntheticCluster) -> None:
    """Have some pods of the namespace ``inference`` that hold slices expose metrics."""
    holders = [
        (holder["name"], gpu["spec"]["nodeName"])
        for gpu in cluster.objects["GPU"].values()
        for gpu_slice in gpu["status"]["slices"]
        for holder in gpu_slice["holders"]
        if holder["namespace"] == "inference"
    ]
    for name, node in holders[:_MOST_PODS]:
        notes = {"prometheus.io/scrape": "true", "prometheus.io/port": "8000"}
        limits = {"gpu.tessera.dev/mig-1g.10gb": "1"}
        metadata = {"name": name, "namespace": "inference", "annotations": notes}
        spec = {
            "containers": [{"name": "c", "resources": {"limits": limits}}],
            "nodeName": node,
        }
        status = {"phase": "Running"}
        cluster.put("Pod", {"kind": "Pod", "metadata": metadata, "spec": spec, "status": status})


def metrics_of(pod: str, age_s: float) -> str:
    """Return what an inference pod would answer: a vLLM server's counters, as it ages."""
    number = sum(pod.encode()) % 7 + 1
    requests = int(age_s * number * 1.7)
    labels = f'model_name="llama-{number}b"'
    lines = [f'vllm:request_success_total{{finished_reason="stop",{labels}}} {requests}']
    for name, scale in (
        ("vllm:e2e_request_latency_seconds", 1.0),
        ("vllm:time_to_first_token_seconds", 0.1),
    ):
        buckets = zip(_BOUNDS_S, _SHARES, strict=True)
        lines += [
            f'{name}_bucket{{le="{bound * scale:g}",{labels}}} {int(share * requests)}'
            for bound, share in buckets
        ]
        lines.append(f'{name}_bucket{{le="+Inf",{labels}}} {requests}')
        lines.append(f"{name}_sum{{{labels}}} {requests * scale}")
        lines.append(f"{name}_count{{{labels}}} {requests}")
    return "\n".join(lines) + "\n"
