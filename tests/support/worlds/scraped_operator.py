"""The metrics of an operator that has a pool, a layout and a GPU."""

from dataclasses import replace
from functools import cache

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from gpu_operator import metrics
from gpu_operator.api.v1alpha1.gpupool import GPUPoolStatus
from gpu_operator.api.v1alpha1.miglayout import MIGLayoutStatus
from gpu_operator.app.object_metrics import ObjectCollector
from support.worlds.gpu_world import gpu, layout, mig_slice, node, pool, world

SAID = {"reason": "Reconciled", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}


@cache
def operator_scrape() -> str:
    status = {
        "conditions": [
            {**SAID, "type": kind, "status": "True"} for kind in ("Ready", "Progressing")
        ]
    }
    seen = world(
        node(),
        replace(pool(), status=GPUPoolStatus.model_validate(status)),
        replace(layout(), status=MIGLayoutStatus.model_validate(status)),
        gpu(have=(mig_slice("1g.10gb@0", "team/pod"), mig_slice("1g.10gb@1"))),
    )
    registry = CollectorRegistry()
    registry.register(ObjectCollector(lambda: seen))
    with metrics.measure_reconciliation("GPU") as ended:
        ended(True)
    with metrics.measure_reconciliation("GPU"):
        pass
    metrics.REQUESTS.labels("get", "200").inc()
    metrics.QUEUE_DEPTH.labels("main").set(0)
    metrics.LEADER.labels("tessera-operator").set(1)
    return generate_latest(registry).decode() + metrics.exposition("")[1].decode()
