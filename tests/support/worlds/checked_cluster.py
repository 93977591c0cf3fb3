"""A cluster in memory on which `helm test` finds a working installation, and pods that end."""

from typing import Any

from support.worlds.fake_cluster import FakeCluster

READY = {"type": "Ready", "status": "True", "reason": "Reconciled", "message": ""}
SLICE = {
    "uuid": "MIG-1",
    "profile": "1g.10gb",
    "start": 0,
    "state": "Active",
    "resource": "gpu.tessera.dev/mig-1g.10gb",
    "memoryBytes": 1,
    "multiprocessors": 16,
}


def furnish(cluster: FakeCluster, deployment: str) -> None:
    """Add an operator that leads, a ready pool and layout, and a GPU with a free slice."""
    cluster.add("Deployment", deployment)["status"] = {"availableReplicas": 1}
    cluster.add("Lease", deployment, {"holderIdentity": "me"})
    for kind in ("GPUPool", "MIGLayout"):
        ready = {"conditions": [{**READY, "observedGeneration": 1}]}
        cluster.add(kind, "demo")["status"] = ready
    cluster.add("GPU", "gpu-0", {"pool": "demo"})["status"] = {"slices": [dict(SLICE)]}


def end_pods(cluster: FakeCluster, phase: str = "Succeeded", message: str = "") -> None:
    """Make every pod end as soon as it is created."""
    add = cluster.add

    def adding(kind: str, name: str, spec: Any = None, **metadata: Any) -> Any:
        made = add(kind, name, spec, **metadata)
        if kind == "Pod":
            ended = {"terminated": {"message": message or "16 elements computed and verified"}}
            made["status"] = {"phase": phase, "containerStatuses": [{"state": ended}]}
        return made

    cluster.add = adding  # type: ignore[method-assign]
