"""The pods of a pool's node agents, and the common parts of all pods on a pool's nodes.

gpud, hcad and netd have their own pods: see ``render.gpud`` and ``render.hca``.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from gpu_operator.api.v1alpha1 import GROUP, POOL_LABEL, quantity
from gpu_operator.api.v1alpha1.gpupolicy import GPUPolicySpec
from gpu_operator.api.v1alpha1.gpupool import GPUPoolSpec, HCAs
from gpu_operator.config import NodeConfig

COMPONENT_LABEL: Final = "app.kubernetes.io/component"
COMPONENT: Final = "node"
RENDERED: Final = f"{GROUP}/rendered"  # digest of a DaemonSet's spec, also on its pods
RUN_DIR = "/run/tessera"
STATE_DIR = "/var/lib/tessera"
HCA_DIR = f"{RUN_DIR}/hca"
EXPORTER_USER = 64010  # the user of the chart's exporter
HCAD_USER = 64009  # a dedicated user: hcad can neither signal nor read other processes of the host
_HEALTH_PORT = 8081
_MEMORY: Final = "memory"
_LINK_DIR: Final = "/tmp/link"  # in a volume of the pod
_STANDBY_SILENT_S: Final = 30
# What the container that stands by lacks: it serves no port, and is ready when it runs.
_OF_THE_AGENT: Final = ("ports", "startupProbe", "livenessProbe", "readinessProbe")
_AGENT_ENDS_S = 40  # it waits until allocatable is lowered: device_plugin.app
LOCKED_DOWN: dict[str, Any] = {
    "runAsUser": 0,
    "runAsGroup": 0,
    "privileged": False,
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def name_of(pool: str) -> str:
    """Return the name of the DaemonSet of a pool's node agents."""
    return f"tessera-node-{pool}"


def budget_of(pool: GPUPoolSpec, node: NodeConfig) -> str:
    """Return the memory that all slices of a node may use together, as a Kubernetes quantity."""
    return pool.node_budget or node.gpud.node_budget


def daemon_set(
    pool_name: str, pool: GPUPoolSpec, policy: GPUPolicySpec, node: NodeConfig, namespace: str
) -> dict[str, Any]:
    """Return the DaemonSet of one pool's node agents."""
    labels = {**node.labels, COMPONENT_LABEL: COMPONENT, POOL_LABEL: pool_name}
    selector = {COMPONENT_LABEL: COMPONENT, POOL_LABEL: pool_name}
    agent = _agent(pool, policy, node)
    template = pod_template(
        pool_name,
        labels,
        node,
        terminationGracePeriodSeconds=_AGENT_ENDS_S,
        initContainers=[_node_budget(pool, node)],
        containers=[agent, _standby(agent)],
        volumes=_volumes(node),
    )
    spec: dict[str, Any] = {
        "selector": {"matchLabels": selector},
        "updateStrategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxUnavailable": node.max_unavailable},
        },
        "template": template,
    }
    return make_document(name_of(pool_name), namespace, labels, spec)


def startup_probe(ready_file: str) -> dict[str, Any]:
    """Return a startup probe that succeeds once a daemon has written its ``--ready-file``.

    Each run of the probe starts a process in the container. A startup probe is used because
    Kubernetes stops running it once it has succeeded.
    """
    return {
        "exec": {"command": ["test", "-s", ready_file]},
        "periodSeconds": 1,
        "failureThreshold": 300,
    }


def liveness_probe(ready_file: str, silent_after_s: int) -> dict[str, Any]:
    """Return a liveness probe that fails if a daemon's ``--ready-file`` was not updated recently.

    A stopped or starved daemon does not react to SIGTERM, so it is killed soon afterwards.
    """
    age_s = f"$(($(date +%s) - $(stat -c %Y {ready_file})))"
    return {
        "exec": {"command": ["sh", "-c", f"test {age_s} -lt {silent_after_s}"]},
        "periodSeconds": 10,
        "timeoutSeconds": 5,
        "failureThreshold": 2,
        "terminationGracePeriodSeconds": 2,
    }


def surging_daemon_set(
    name: str,
    component: str,
    pool_name: str,
    node: NodeConfig,
    namespace: str,
    *,
    surge: int | str = 1,
    **more: Any,
) -> dict[str, Any]:
    """Return a component's DaemonSet. In an update, the new pod becomes ready before the old one
    ends.

    ``surge`` is the number or percentage of nodes that have two pods at a time. ``more`` are
    further fields of the pods' spec. The pods see the host's processes, which is necessary to
    identify clients, and have no API server token.
    """
    selector = {COMPONENT_LABEL: component, POOL_LABEL: pool_name}
    labels = {**node.labels, **selector}
    spec: dict[str, Any] = {
        "selector": {"matchLabels": selector},
        "updateStrategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": surge, "maxUnavailable": 0},
        },
        "template": pod_template(
            pool_name, labels, node, hostPID=True, automountServiceAccountToken=False, **more
        ),
    }
    return make_document(name, namespace, labels, spec)


def host_volume(name: str, path: str, kind: str = "DirectoryOrCreate") -> dict[str, Any]:
    """Return a volume for a directory of the node."""
    return {"name": name, "hostPath": {"path": path, "type": kind}}


def pod_template(
    pool_name: str, labels: Mapping[str, str], node: NodeConfig, **more: Any
) -> dict[str, Any]:
    """Return the template of pods on a pool's nodes; ``more`` are further fields of their spec."""
    return {
        "metadata": {"labels": labels, "annotations": dict(node.pod_annotations)},
        "spec": {
            "nodeSelector": {POOL_LABEL: pool_name},
            "serviceAccountName": node.service_account,
            "terminationGracePeriodSeconds": 10,
            "priorityClassName": node.priority_class_name,
            "tolerations": [dict(t) for t in node.tolerations],
            "affinity": dict(node.affinity),
            "imagePullSecrets": [dict(s) for s in node.image_pull_secrets],
            **more,
        },
    }


def make_document(
    name: str, namespace: str, labels: Mapping[str, str], spec: dict[str, Any]
) -> dict[str, Any]:
    """Return a DaemonSet; the DaemonSet and its pods carry the digest of its spec."""
    digest = hashlib.blake2s(json.dumps(spec, sort_keys=True).encode(), digest_size=8).hexdigest()
    spec["template"]["metadata"]["annotations"][RENDERED] = digest
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": dict(labels),
            "annotations": {RENDERED: digest},
        },
        "spec": spec,
    }


def rendered_digest(document: Mapping[str, Any]) -> str:
    """Return the digest of a rendered DaemonSet."""
    return str(document["metadata"]["annotations"][RENDERED])


def hcas_of(pool: GPUPoolSpec, node: NodeConfig) -> HCAs | None:
    """Return the HCAs of each node of a pool.

    The result is None if the pool has no HCAs, or the chart's values disable RDMA.
    """
    return pool.hcas if node.rdma.enabled else None


def _node_budget(pool: GPUPoolSpec, node: NodeConfig) -> dict[str, Any]:
    """Return the init container whose memory request reserves the slices' memory.

    Device memory is in the slices' own cgroups, which the kubelet does not account to a pod.
    gpud itself cannot request the memory: during a rollout a node has two pods of gpud, which
    would need the budget twice. As long as a pod exists, its request is the larger of its init
    container's request and the sum of its other containers'. So this request includes those of
    the agent's two containers.
    """
    slices = node.gpud.resources.get("requests", {}).get(_MEMORY, budget_of(pool, node))
    agent = node.device_plugin.resources.get("requests", {}).get(_MEMORY, "0")
    try:
        memory = quantity.format_bytes(
            quantity.parse_api_quantity(str(slices)) + 2 * quantity.parse_api_quantity(str(agent))
        )
    except ValueError:  # the API server rejects the DaemonSet and names the invalid quantity
        memory = slices
    return {
        "name": "node-budget",
        "image": node.image,
        "imagePullPolicy": node.image_pull_policy,
        "command": ["true"],
        "resources": {"requests": {_MEMORY: memory}},
        "securityContext": {**LOCKED_DOWN, "capabilities": {"drop": ["ALL"]}},
    }


def _standby(agent: Mapping[str, Any]) -> dict[str, Any]:
    """Return the container that stands by to serve the kubelet.

    It has the agent's environment and volumes, because it continues what the agent's container
    did, at the moment at which a process of that container ends.
    """
    standby = {key: value for key, value in agent.items() if key not in _OF_THE_AGENT}
    return {
        **standby,
        "name": "standby",
        "env": [*agent["env"], {"name": "TESSERA_STANDBY", "value": "true"}],
        "livenessProbe": {
            **liveness_probe(f"{_LINK_DIR}/standby-alive", _STANDBY_SILENT_S),
            "initialDelaySeconds": 30,
            "periodSeconds": 20,
        },
    }


def _agent(pool: GPUPoolSpec, policy: GPUPolicySpec, node: NodeConfig) -> dict[str, Any]:
    kubelet = node.device_plugin.kubelet_dir
    environment = {
        "TESSERA_RESOURCE_PREFIX": policy.resource_prefix,
        "TESSERA_DEVICE_LIST_STRATEGY": policy.device_list_strategy.value,
        "TESSERA_NVIDIA_SMI": str(policy.nvidia_smi.enabled).lower(),
        "TESSERA_DEVICE_FILES": str(policy.device_files.enabled).lower(),
        "TESSERA_PYTORCH": str(policy.pytorch.enabled).lower(),
        "TESSERA_NODE_BUDGET": budget_of(pool, node),
        "TESSERA_HEALTH_PORT": str(_HEALTH_PORT),
        "TESSERA_DRA": str(node.dra.enabled).lower(),
        "TESSERA_DRA_EXTENDED_RESOURCES": str(node.dra.extended_resources).lower(),
        "TESSERA_METRICS": str(node.device_plugin.metrics).lower(),
        "KUBELET_DIR": kubelet,
        "TESSERA_LINK_DIR": _LINK_DIR,
    }
    if (hcas := hcas_of(pool, node)) is not None:
        environment |= {
            "TESSERA_HCAS": str(hcas.count),
            "TESSERA_FUNCTIONS_PER_HCA": str(hcas.functions_per_hca),
            "TESSERA_HCA_GBPS": str(hcas.link_speed.gbps),
        }
    probe = {"httpGet": {"path": "/healthz", "port": "health"}}
    return {
        "name": "agent",
        "image": node.image,
        "imagePullPolicy": node.image_pull_policy,
        "command": ["tessera-device-plugin"],
        "env": [
            {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {
                "name": "POD_NAMESPACE",
                "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}},
            },
            *({"name": name, "value": value} for name, value in environment.items()),
        ],
        "ports": [{"name": "health", "containerPort": _HEALTH_PORT, "protocol": "TCP"}],
        "resources": dict(node.device_plugin.resources),
        "securityContext": {**LOCKED_DOWN, "capabilities": {"drop": ["ALL"]}},
        "startupProbe": {**probe, "periodSeconds": 2, "failureThreshold": 60},
        "livenessProbe": {**probe, "periodSeconds": 20, "timeoutSeconds": 5},
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": "health"},  # a pass over the node has succeeded
            "periodSeconds": 5,
            "timeoutSeconds": 5,
        },
        "volumeMounts": [
            {"name": "run", "mountPath": RUN_DIR},
            {"name": "libraries", "mountPath": f"{STATE_DIR}/lib"},
            {"name": "plugins-registry", "mountPath": f"{kubelet}/plugins_registry"},
            {"name": "plugins", "mountPath": _plugins_dir(kubelet)},
            {
                "name": "device-plugins",
                "mountPath": f"{kubelet}/device-plugins",
                "readOnly": True,
            },
            {"name": "pod-resources", "mountPath": f"{kubelet}/pod-resources"},
            {"name": "cdi", "mountPath": "/var/run/cdi"},
            {"name": "pod-logs", "mountPath": "/var/log/pods", "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }


def _plugins_dir(kubelet: str) -> str:
    """Return the directory of the plugins' sockets; the kubelet must have it at the same path."""
    return f"{kubelet}/plugins/{GROUP}"


def _volumes(node: NodeConfig) -> list[dict[str, Any]]:
    kubelet = node.device_plugin.kubelet_dir
    return [
        host_volume("run", RUN_DIR),
        host_volume("libraries", f"{STATE_DIR}/lib"),
        host_volume("plugins-registry", f"{kubelet}/plugins_registry"),
        host_volume("plugins", _plugins_dir(kubelet)),
        host_volume("device-plugins", f"{kubelet}/device-plugins"),
        host_volume("pod-resources", f"{kubelet}/pod-resources"),
        host_volume("cdi", "/var/run/cdi"),
        host_volume("pod-logs", "/var/log/pods"),
        {"name": "tmp", "emptyDir": {}},
    ]
