"""Checks of an installation on a cluster, each with the chart value or command that repairs it."""

import datetime
import importlib.metadata
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from console.support.installation import (
    OPERATOR,
    OWN_KINDS,
    Installation,
    conditions,
    containers,
    labels,
    metadata,
    name_of,
)
from diagnosis.findings import FAIL, OK, WARN, Finding
from gpu_operator.api.timestamps import parse_timestamp
from gpu_operator.api.v1alpha1 import POOL_LABEL
from gpu_operator.api.v1alpha1.base import ConditionType
from gpu_operator.kube.port import Document

_AREA: Final = "cluster"
_OLDEST_KUBELET: Final = (1, 30)
_OLDEST_LANDLOCK: Final = (5, 13)
_OLDEST_CONTAINERD: Final = (2, 0)
_ENFORCE: Final = "pod-security.kubernetes.io/enforce"
_SHOWN: Final = 5  # names in one line
_RESTARTS: Final = 3
_RECENT_MIN: Final = 60
_MESSAGE: Final = 200  # characters of a condition's message


def check_all(installation: Installation) -> list[Finding]:
    """Return the findings about an installation."""
    unreachable = [kind for kind in ("Deployment", "Node") if kind in installation.problems]
    if len(unreachable) == 2:
        text = installation.problems["Node"]
        remedy = "check the kubeconfig, the context and your rights: kubectl auth can-i --list"
        return [Finding(_AREA, "access", FAIL, text, remedy)]
    if installation.absence:
        remedy = "docs/install.md describes the installation"
        if installation.elsewhere:
            remedy = "--namespace is the operator's; without it, all namespaces are searched"
        state = FAIL if installation.chosen else WARN
        return [Finding(_AREA, "operator", state, installation.absence, remedy)]
    checks: tuple[Callable[[Installation], Finding], ...] = (
        check_rights,
        check_kinds,
        check_operator,
        check_version,
        check_pod_security,
        check_node_pods,
        check_restarts,
        check_kubelets,
        check_runtimes,
        check_kernels,
        check_pools,
        check_budget,
        check_gpus,
    )
    return [check(installation) for check in checks]


def check_rights(installation: Installation) -> Finding:
    """Report the kinds that this user may not read."""
    missing = {kind: text for kind, text in installation.problems.items() if kind not in OWN_KINDS}
    if missing:
        text = "; ".join(missing.values())
        return Finding(_AREA, "rights", WARN, text, "rows about these kinds may be incomplete")
    return Finding(_AREA, "rights", OK, "all kinds that the checks need can be listed")


def check_kinds(installation: Installation) -> Finding:
    """Check that the custom resources are served."""
    missing = {kind: text for kind, text in installation.problems.items() if kind in OWN_KINDS}
    if missing:
        text = f"{', '.join(missing)}: {next(iter(missing.values()))}"
        remedy = "`helm upgrade` applies the CRDs unless crds.install is false"
        return Finding(_AREA, "CRDs", FAIL, text, remedy)
    return Finding(_AREA, "CRDs", OK, "all custom resources are served")


def check_operator(installation: Installation) -> Finding:
    """Check that one operator is installed and available."""
    names = [
        f"{metadata(deployment).get('namespace')}/{name_of(deployment)}"
        for deployment in installation.operators
    ]
    if not names:
        return Finding(_AREA, "operator", WARN, "not known: Deployments cannot be listed")
    if len(names) > 1:
        remedy = "--namespace NAME chooses one; uninstall others, which write the same objects"
        return Finding(_AREA, "operator", FAIL, f"installed {len(names)} times", remedy)
    status = installation.operators[0].get("status") or {}
    available_count, desired_count = (
        status.get("availableReplicas") or 0,
        status.get("replicas") or 0,
    )
    text = f"{names[0]}: {available_count} of {desired_count} replicas available"
    if not available_count:
        remedy = f"kubectl -n {installation.namespace} describe pods -l {OPERATOR}"
        return Finding(_AREA, "operator", FAIL, text, remedy)
    return Finding(_AREA, "operator", OK, text)


def check_version(installation: Installation) -> Finding:
    """Compare the chart's version with this program's."""
    own = importlib.metadata.version("tessera")
    chart_version = installation.version
    if not chart_version:
        return Finding(_AREA, "version", WARN, "the chart's version is not known")
    if chart_version != own:
        return Finding(
            _AREA,
            "version",
            WARN,
            f"chart {chart_version}, this program {own}",
            f"install tessera=={chart_version}, or upgrade the chart: docs/upgrading.md",
        )
    return Finding(_AREA, "version", OK, chart_version)


def check_pod_security(installation: Installation) -> Finding:
    """Check that the namespace permits the node pods."""
    own = next(
        (
            namespace
            for namespace in installation.namespaces
            if name_of(namespace) == installation.namespace
        ),
        None,
    )
    if own is None:
        return Finding(_AREA, "Pod Security", WARN, "the namespace cannot be read")
    level = labels(own).get(_ENFORCE, "")
    if level not in ("", "privileged"):
        return Finding(
            _AREA,
            "Pod Security",
            FAIL,
            f"{installation.namespace} enforces {level}",
            f"kubectl label namespace {installation.namespace} {_ENFORCE}=privileged --overwrite",
        )
    return Finding(_AREA, "Pod Security", OK, level or "the cluster's default")


def check_node_pods(installation: Installation) -> Finding:
    """Check that every DaemonSet of the pools is available on all its nodes."""
    late = []
    for daemon_set in installation.daemon_sets:
        status = daemon_set.get("status") or {}
        ready_count, desired_count = (
            status.get("numberReady") or 0,
            status.get("desiredNumberScheduled") or 0,
        )
        if ready_count < desired_count:
            late.append(f"{name_of(daemon_set)} {ready_count} of {desired_count}")
    if late:
        remedy = (
            f"kubectl -n {installation.namespace} get pods -o wide, and describe those not ready"
        )
        return Finding(_AREA, "node pods", FAIL, _shorten(late), remedy)
    return Finding(_AREA, "node pods", OK, f"{len(installation.daemon_sets)} DaemonSets are ready")


def check_restarts(installation: Installation) -> Finding:
    """Report containers of Tessera that failed within the last hour, were restarted often, or
    lacked memory.
    """
    bad, total = [], 0
    for pod in installation.pods:
        for container_status in (pod.get("status") or {}).get("containerStatuses") or ():
            ended = (container_status.get("lastState") or {}).get("terminated") or {}
            count = container_status.get("restartCount", 0)
            total += count
            minutes = _minutes_since(ended.get("finishedAt"))
            recent = ended.get("exitCode") not in (None, 0) and minutes < _RECENT_MIN
            if recent or ended.get("reason") == "OOMKilled" or count >= _RESTARTS:
                reason = ended.get("reason") or "unknown reason"
                when = f", {minutes} min ago" if recent else ""
                bad.append(
                    f"{name_of(pod)}/{container_status.get('name')} {count} ({reason}{when})"
                )
    if bad:
        return Finding(
            _AREA,
            "restarts",
            WARN,
            _shorten(bad),
            "see the bundle's logs of the previous run; after OOMKilled raise gpud.nodeBudget or"
            " the container's memory limit",
        )
    return Finding(
        _AREA,
        "restarts",
        OK,
        f"{total} in {len(installation.pods)} pods, no failure in the last hour",
    )


def _minutes_since(time: str | None) -> float:
    """Return the whole minutes since a time of the API server's; infinity without one."""
    then = parse_timestamp(time or "")
    if then is None:
        return float("inf")
    return (datetime.datetime.now(datetime.UTC) - then) // datetime.timedelta(minutes=1)


def check_kubelets(installation: Installation) -> Finding:
    """Check the version of the kubelets."""
    old = [
        f"{name_of(node)} {_info(node, 'kubeletVersion')}"
        for node in _gpu_nodes(installation)
        if _version(_info(node, "kubeletVersion")) < _OLDEST_KUBELET
    ]
    if old:
        return Finding(_AREA, "kubelets", FAIL, _shorten(old), "Tessera needs Kubernetes 1.30")
    return Finding(_AREA, "kubelets", OK, f"{len(list(_gpu_nodes(installation)))} nodes in pools")


def check_runtimes(installation: Installation) -> Finding:
    """Check that the container runtimes of the pools' nodes have CDI on by default."""
    old = []
    for node in _gpu_nodes(installation):
        name, _, version = _info(node, "containerRuntimeVersion").partition("://")
        if name == "containerd" and _version(version) < _OLDEST_CONTAINERD:
            old.append(f"{name_of(node)} {version}")
    if old:
        return Finding(
            _AREA,
            "runtimes",
            WARN,
            f"containerd with CDI off by default: {_shorten(old)}",
            "set enable_cdi = true on these nodes, or devicePlugin.deviceListStrategy=mounts;"
            " `tessera doctor --node` checks the file",
        )
    return Finding(_AREA, "runtimes", OK, "CDI is on by default")


def check_kernels(installation: Installation) -> Finding:
    """Check that the kernels of the pools' nodes are new enough for Landlock."""
    old = [
        f"{name_of(node)} {_info(node, 'kernelVersion')}"
        for node in _gpu_nodes(installation)
        if _version(_info(node, "kernelVersion")) < _OLDEST_LANDLOCK
    ]
    if old:
        return Finding(
            _AREA,
            "kernels",
            WARN,
            f"no Landlock before Linux 5.13: {_shorten(old)}",
            "allow user namespaces there, or set gpud.allowWeakSandbox=true (docs/threat-model.md)",
        )
    return Finding(_AREA, "kernels", OK, "Linux 5.13 or newer")


def check_pools(installation: Installation) -> Finding:
    """Check that pools and layouts are accepted and ready, and that no change of them failed."""
    bad, state = [], WARN
    for kind in ("GPUPool", "MIGLayout"):
        for custom_object in installation.objects[kind]:
            have = {(of.get("type"), of.get("status")): of for of in conditions(custom_object)}
            if degraded := have.get(("Degraded", "True")):
                text = str(degraded.get("message") or "")
                bad.append(
                    f"{kind} {name_of(custom_object)}: {degraded.get('reason')}: {text[:_MESSAGE]}"
                )
                state = FAIL
            elif late := have.get(("Accepted", "False")) or have.get(("Ready", "False")):
                bad.append(f"{kind} {name_of(custom_object)}: {late.get('reason')}")
    if bad:
        remedy = "kubectl describe gpupools,miglayouts; reasons: docs/operator-reference.md"
        return Finding(_AREA, "pools", state, _shorten(bad), remedy)
    count = len(installation.objects["GPUPool"])
    if not count:
        remedy = "kubectl apply -f examples/pool.yaml, and label nodes for it"
        return Finding(_AREA, "pools", WARN, "there is no GPUPool", remedy)
    return Finding(
        _AREA, "pools", OK, f"{count} pools, {len(installation.objects['MIGLayout'])} layouts"
    )


def check_budget(installation: Installation) -> Finding:
    """Compare the memory that node pods request with what nodes can allocate."""
    nodes = {name_of(node): node for node in installation.objects["Node"]}
    tight = []
    for pod in installation.pods:
        node = nodes.get(str((pod.get("spec") or {}).get("nodeName") or ""))
        if node is None or POOL_LABEL not in labels(pod):
            continue
        requested_bytes = sum(
            _bytes(_requests(container).get("memory", "0")) for container in containers(pod)
        )
        allocatable_bytes = _bytes(
            ((node.get("status") or {}).get("allocatable") or {}).get("memory", "0")
        )
        if allocatable_bytes and requested_bytes > allocatable_bytes * 3 // 4:
            tight.append(
                f"{name_of(node)}: {requested_bytes >> 20} of {allocatable_bytes >> 20} MiB"
            )
    if tight:
        return Finding(
            _AREA,
            "budget",
            WARN,
            f"little memory is left for pods: {_shorten(tight)}",
            "lower gpud.nodeBudget, or spec.nodeBudget of the pool",
        )
    return Finding(_AREA, "budget", OK, "nodes have memory beside their budgets")


def check_gpus(installation: Installation) -> Finding:
    """Report GPUs that are not healthy, or of which no agent has reported the health."""
    bad = []
    for gpu in installation.objects["GPU"]:
        health = str((gpu.get("status") or {}).get("health") or "Unknown")
        if not health.startswith("Healthy"):
            bad.append(f"{name_of(gpu)} {_cause(gpu, health)}")
    if bad:
        remedy = "kubectl describe gpu NAME; docs/faults.md#xids has the remedy of each Xid"
        return Finding(_AREA, "GPUs", WARN, _shorten(bad), remedy)
    return Finding(_AREA, "GPUs", OK, f"{len(installation.objects['GPU'])} GPUs, all healthy")


def _cause(gpu: Document, health: str) -> str:
    """Return a GPU's health with the cause, which its slices have, and since when it is so."""
    slices = (gpu.get("status") or {}).get("slices") or ()
    causes = (str(gpu_slice.get("health") or "") for gpu_slice in slices)
    whole = next((cause for cause in causes if cause.startswith(f"{health}:")), health)
    for condition in conditions(gpu):
        if (
            condition.get("type") == ConditionType.DEGRADED.value
            and condition.get("status") == "True"
        ):
            return f"{whole} since {condition.get('lastTransitionTime', 'an unknown time')}"
    return whole


def _gpu_nodes(installation: Installation) -> Iterator[Document]:
    return (node for node in installation.objects["Node"] if POOL_LABEL in labels(node))


def _info(node: Document, key: str) -> str:
    return str(((node.get("status") or {}).get("nodeInfo") or {}).get(key) or "")


def _requests(container: Any) -> dict[str, str]:
    return (container.get("resources") or {}).get("requests") or {}


def _version(text: str) -> tuple[int, int]:
    match = re.search(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (1 << 16, 0)  # not known: not refused


def _bytes(quantity: str) -> int:
    units = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}
    units |= {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
    match = re.fullmatch(r"(\d+)([KMGT]i|[kMGT]?)", str(quantity))
    return int(match[1]) * units[match[2]] if match else 0


def _shorten(names: list[str]) -> str:
    suffix = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + suffix
