"""The part of ``helm test`` that runs a pod on a free slice.

The pod computes, and verifies its results.
"""

import asyncio
import time
import uuid
from dataclasses import dataclass
from typing import Any, Final

from gpu_operator.api.v1alpha1 import POOL_LABEL
from gpu_operator.api.v1alpha1.gpu import GPUStatus, SliceState
from gpu_operator.kube.actions import Delete
from gpu_operator.kube.port import Kube

_TIMEOUT_S: Final = 120.0
_EVERY_S: Final = 0.5
_LOCKED_DOWN: Final = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


@dataclass(frozen=True, slots=True)
class Image:
    """The image of the test pod, which is the product's own image."""

    name: str
    pull_policy: str = "IfNotPresent"
    pull_secrets: tuple[str, ...] = ()


async def find_free_resource(kube: Kube, pool: str) -> str | None:
    """Return the name of a resource that has a free slice or GPU in the pool; None if there is
    none.

    A slice or GPU is free if no pod holds it.
    """
    for gpu in await kube.list("GPU"):
        if gpu["spec"].get("pool") != pool:
            continue
        for gpu_slice in GPUStatus.model_validate(gpu.get("status") or {}).slices:
            free = (
                gpu_slice.state is SliceState.ACTIVE
                and gpu_slice.admitted
                and not gpu_slice.holders
            )
            if free and gpu_slice.resource:
                return gpu_slice.resource
    return None


async def run_validation_pod(
    kube: Kube, namespace: str, resource: str, image: Image, pool: str
) -> tuple[bool, str]:
    """Run the test pod on a node of the pool; return whether it succeeded, and its message.

    The pod is deleted in any case.

    Raises:
        KubeError: the pod could not be created or read.
    """
    name = f"tessera-validate-{uuid.uuid4().hex[:8]}"
    await kube.create(_pod(name, namespace, resource, image, pool))
    try:
        end = time.monotonic() + _TIMEOUT_S
        while True:
            pod = await kube.get("Pod", name, namespace)
            status = pod.get("status") or {}
            phase = status.get("phase", "Pending")
            if phase in ("Succeeded", "Failed"):
                return phase == "Succeeded", _termination_message(status)
            if time.monotonic() >= end:
                return (
                    False,
                    f"pod {name} is {phase} after {_TIMEOUT_S:.0f} s{_pending_reason(status)}",
                )
            await asyncio.sleep(_EVERY_S)
    finally:
        await kube.perform(Delete("Pod", name, namespace))


def _pod(name: str, namespace: str, resource: str, image: Image, pool: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "restartPolicy": "Never",
            "nodeSelector": {POOL_LABEL: pool},
            "tolerations": [{"operator": "Exists", "effect": "NoSchedule"}],
            "activeDeadlineSeconds": int(_TIMEOUT_S),
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "imagePullSecrets": [{"name": secret} for secret in image.pull_secrets],
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "runAsGroup": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "validate",
                    "image": image.name,
                    "imagePullPolicy": image.pull_policy,
                    "command": ["tessera", "validate"],
                    "resources": {"limits": {resource: 1}},
                    "terminationMessagePolicy": "FallbackToLogsOnError",
                    "securityContext": dict(_LOCKED_DOWN),
                }
            ],
        },
    }


def _termination_message(status: dict[str, Any]) -> str:
    for container in status.get("containerStatuses") or ():
        ended = (container.get("state") or {}).get("terminated") or {}
        if ended.get("message") or ended.get("reason"):
            return str(ended.get("message") or ended["reason"]).strip()
    return " ".join(str(status[key]) for key in ("reason", "message") if status.get(key))


def _pending_reason(status: dict[str, Any]) -> str:
    for condition in status.get("conditions") or ():
        if condition.get("status") == "False" and condition.get("message"):
            return f": {condition['message']}"
    return ""
