"""The pods that serve a pool's HCAs: hcad, and netd if the wire is enabled.

They are separate from the node agent's pods, so that restarts and upgrades of the agent do not
affect queue pairs. During a rollout a node has two such pods for a moment: the new hcad takes
over from the old one, whose pod ends once the new one is ready (ADR 52).
"""

from typing import Any, Final

from gpu_operator.config import NodeConfig
from gpu_operator.render.daemonset import (
    EXPORTER_USER,
    HCA_DIR,
    HCAD_USER,
    LOCKED_DOWN,
    RUN_DIR,
    host_volume,
    startup_probe,
    surging_daemon_set,
)

COMPONENT: Final = "hca"
_READY: Final = "/tmp/hcad-ready"


def name_of(pool: str) -> str:
    """Return the name of the DaemonSet that serves a pool's HCAs."""
    return f"tessera-hca-{pool}"


def daemon_set(pool_name: str, node: NodeConfig, namespace: str) -> dict[str, Any]:
    """Return the DaemonSet that serves a pool's HCAs."""
    return surging_daemon_set(
        name_of(pool_name),
        COMPONENT,
        pool_name,
        node,
        namespace,
        initContainers=[_hca_directory(node)],
        containers=_rdma(node),
        volumes=[
            host_volume("run", RUN_DIR),
            host_volume("hca", HCA_DIR),
            {"name": "tmp", "emptyDir": {}},
        ],
    )


def _rdma(node: NodeConfig) -> list[dict[str, Any]]:
    return [_hcad(node), _netd(node)] if node.rdma.wire.enabled else [_hcad(node)]


def _hca_directory(node: NodeConfig) -> dict[str, Any]:
    """Return the init container that gives hcad's directory to its group.

    Root can do this without any capability; hcad cannot.
    """
    folders = f"{HCA_DIR} {HCA_DIR}/telemetry"
    make = f"mkdir -p {folders} && chgrp {HCAD_USER} {folders} && chmod 0775 {folders}"
    return {
        "name": "hca-directory",
        "image": node.image,
        "imagePullPolicy": node.image_pull_policy,
        "command": ["sh", "-c", make],
        "securityContext": {
            **LOCKED_DOWN,
            "runAsGroup": HCAD_USER,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "run", "mountPath": RUN_DIR}],
    }


def _hcad(node: NodeConfig) -> dict[str, Any]:
    return {
        "name": "hcad",
        "image": node.image,
        "imagePullPolicy": node.image_pull_policy,
        "command": ["tessera-hcad"],
        "args": [
            f"--directory={HCA_DIR}",
            f"--ready-file={_READY}",
            f"--telemetry-user={EXPORTER_USER}",
            *([] if node.rdma.wire.enabled else ["--no-wire"]),
            *([] if node.rdma.wire.segments else ["--no-segments"]),
        ],
        # Ready once this hcad has taken over; then the previous pod ends.
        "startupProbe": startup_probe(_READY),
        "resources": dict(node.rdma.resources),
        "securityContext": {
            **LOCKED_DOWN,
            "runAsUser": HCAD_USER,
            "runAsGroup": HCAD_USER,
            "runAsNonRoot": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "hca", "mountPath": HCA_DIR},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }


def _netd(node: NodeConfig) -> dict[str, Any]:
    return {
        "name": "netd",
        "image": node.image,
        "imagePullPolicy": node.image_pull_policy,
        "command": ["tessera-netd"],
        "args": [f"--directory={HCA_DIR}", f"--user={HCAD_USER}"],
        "resources": dict(node.rdma.wire.resources),
        "securityContext": {
            **LOCKED_DOWN,
            "runAsGroup": HCAD_USER,  # group of netd's socket
            # To query the network namespace of a pod's socket, and to enter it (ADR 46).
            "capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN", "SYS_ADMIN"]},
        },
        "volumeMounts": [
            {"name": "hca", "mountPath": HCA_DIR},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }
