"""The pods of gpud, one on every node of a pool, in their own DaemonSet.

They are separate from the node agent's pods, so that restarts and upgrades of the agent do not
affect gpud. During a rollout a node has two gpud pods for a moment. Kubernetes ends the old pod
when the new one is ready: its image is pulled and its gpud stands by (ADR 109).
"""

from typing import Any, Final

from gpu_operator.api.v1alpha1 import quantity
from gpu_operator.api.v1alpha1.gpupool import Clock, GPUPoolSpec
from gpu_operator.config import NodeConfig
from gpu_operator.render.daemonset import (
    EXPORTER_USER,
    HCA_DIR,
    HCAD_USER,
    LOCKED_DOWN,
    RUN_DIR,
    STATE_DIR,
    budget_of,
    hcas_of,
    host_volume,
    liveness_probe,
    startup_probe,
    surging_daemon_set,
)

COMPONENT: Final = "gpud"
_READY: Final = "/tmp/gpud-ready"
_SILENT_AFTER_S: Final = 20
_MEMORY: Final = "memory"


def name_of(pool: str) -> str:
    """Return the name of the DaemonSet of a pool's gpuds."""
    return f"tessera-gpud-{pool}"


def daemon_set(
    pool_name: str, pool: GPUPoolSpec, node: NodeConfig, namespace: str
) -> dict[str, Any]:
    """Return the DaemonSet of a pool's gpuds."""
    return surging_daemon_set(
        name_of(pool_name),
        COMPONENT,
        pool_name,
        node,
        namespace,
        surge=node.max_unavailable,
        containers=[_gpud(pool, node)],
        volumes=[
            host_volume("run", RUN_DIR),
            host_volume("state", STATE_DIR),
            host_volume("cgroup", "/sys/fs/cgroup", "Directory"),
            {"name": "tmp", "emptyDir": {}},
        ],
    )


def _gpud(pool: GPUPoolSpec, node: NodeConfig) -> dict[str, Any]:
    return {
        "name": "gpud",
        "image": node.image,
        "imagePullPolicy": node.image_pull_policy,
        "command": ["tessera-gpud"],
        "args": _arguments(pool, node),
        "env": [
            # For `kubectl exec -c gpud -- nvidia-smi`: shows the whole node instead of a slice.
            {"name": "TESSERA_MANAGEMENT_SOCKET", "value": f"{RUN_DIR}/management.sock"},
            *({"name": name, "value": value} for name, value in _health_checks(node) if value),
        ],
        "resources": _resources(node),
        # Ready once gpud serves, or stands by for its predecessor.
        "startupProbe": startup_probe(_READY),
        # Shorter than clients wait for a gpud to return (TESSERA_WAIT_S).
        "livenessProbe": liveness_probe(_READY, _SILENT_AFTER_S),
        "securityContext": {
            **LOCKED_DOWN,
            # To start each worker as its own user without capabilities, and to end it.
            "capabilities": {"drop": ["ALL"], "add": ["SETUID", "SETGID", "KILL", "SETPCAP"]},
        },
        "volumeMounts": [
            {"name": "run", "mountPath": RUN_DIR},
            {"name": "state", "mountPath": STATE_DIR},
            # Without mountPropagation, which would fail: the node's cgroup mounts are not shared.
            {"name": "cgroup", "mountPath": "/sys/fs/cgroup"},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }


def _arguments(pool: GPUPoolSpec, node: NodeConfig) -> list[str]:
    arguments = [
        f"--run-dir={RUN_DIR}",
        f"--state-dir={STATE_DIR}",
        f"--ready-file={_READY}",
        f"--backend={pool.backend.option if pool.backend else node.gpud.backend}",
        f"--budget={quantity.to_bytes(budget_of(pool, node))}",
        f"--isolation={pool.isolation.value.lower()}",
        f"--telemetry-socket={RUN_DIR}/telemetry/gpud.sock",
        f"--telemetry-user={EXPORTER_USER}",
    ]
    if pool.clock is not Clock.WALL:
        arguments.append(f"--clock={pool.clock.value.lower()}")
    if node.gpud.threads is not None:
        arguments.append(f"--threads={node.gpud.threads}")
    if node.gpud.allow_weak_sandbox:
        arguments.append("--allow-weak-sandbox")
    if hcas_of(pool, node) is not None:  # GPUDirect RDMA
        arguments += [f"--hca-socket={HCA_DIR}/direct.sock", f"--hcad-user={HCAD_USER}"]
    return arguments


def _resources(node: NodeConfig) -> dict[str, Any]:
    """Return gpud's resources from the chart, without the budget, which the agent's pod
    requests.
    """
    resources = dict(node.gpud.resources)
    requests = {k: v for k, v in resources.pop("requests", {}).items() if k != _MEMORY}
    return {**resources, **({"requests": requests} if requests else {})}


def _health_checks(node: NodeConfig) -> tuple[tuple[str, str], ...]:
    """Return environment variables of NVIDIA's device plugin, which gpud interprets alike."""
    checks = node.gpud.health_checks
    return (
        ("DP_DISABLE_HEALTHCHECKS", checks.disabled),
        ("DP_ENABLE_HEALTHCHECKS", checks.enabled),
    )
