"""``helm test``: checks that all components are installed and ready, and that a pod can compute."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from gpu_operator import errors, kinds
from gpu_operator.app import validation
from gpu_operator.config import Identity
from gpu_operator.kube.port import Document, Kube

_TIMEOUT_S = 60.0
_READY = ("GPUPool", "MIGLayout")
Say = Callable[[str], Any]


async def check(
    kube: Kube, identity: Identity, deployment: str, image: validation.Image, say: Say
) -> int:
    """Check the installation and print the findings.

    Return 0 if the installation is healthy within a minute and no test pod fails, else 1.
    """
    end = time.monotonic() + _TIMEOUT_S
    while True:
        problems = await _find_problems(kube, identity.namespace, deployment)
        if not problems:
            break
        if time.monotonic() >= end:
            for problem in problems:
                say(f"problem: {problem}")
            return 1
        await asyncio.sleep(1)
    served = ", ".join(kind.name for kind in kinds.own_kinds())
    say(f"{served} are served; {deployment} is available and holds its lease")
    return await _run_validation_pods(kube, identity.namespace, image, say)


async def _run_validation_pods(
    kube: Kube, namespace: str, image: validation.Image, say: Say
) -> int:
    pools = await kube.list("GPUPool")
    if not pools:
        say("there is no GPUPool yet, so no test pod was run: apply one and test again")
        return 0
    say("all pools and layouts are ready")
    failures = 0
    for pool in sorted(document["metadata"]["name"] for document in pools):
        resource = await validation.find_free_resource(kube, pool)
        if resource is None:
            say(f"pool {pool}: no slice or GPU is free, so no test pod was run")
            continue
        try:
            succeeded, message = await validation.run_validation_pod(
                kube, namespace, resource, image, pool
            )
        except errors.KubeError as err:
            succeeded, message = False, str(err)
        failures += not succeeded
        word = "a pod" if succeeded else "problem: a pod"
        say(f"pool {pool}: {word} with {resource}{'' if succeeded else ' failed'}: {message}")
    return 1 if failures else 0


async def _find_problems(kube: Kube, namespace: str, deployment: str) -> list[str]:
    problems = []
    for kind in kinds.own_kinds():
        try:
            documents = await kube.list(kind.name)
        except errors.KubeError as err:
            problems.append(f"{kind.name} is not served: {err}")
            continue
        if kind.name in _READY:
            problems += [
                problem for document in documents if (problem := _explain_not_ready(document))
            ]
    try:
        found_deployment = await kube.get("Deployment", deployment, namespace)
        if not (found_deployment.get("status") or {}).get("availableReplicas"):
            problems.append(f"Deployment {deployment} has no available replica")
        lease = await kube.get("Lease", deployment, namespace)
        if not lease["spec"].get("holderIdentity"):
            problems.append(f"lease {deployment} has no holder")
    except errors.KubeError as err:
        problems.append(str(err))
    return problems


def _explain_not_ready(document: Document) -> str:
    """Return why an object is not ready in its current generation; empty if it is ready."""
    object_label = f"{document['kind']} {document['metadata']['name']}"
    conditions = (document.get("status") or {}).get("conditions") or ()
    ready = next((c for c in conditions if c["type"] == "Ready"), None)
    if ready is None:
        return f"{object_label} has no condition Ready yet"
    if ready.get("observedGeneration") != document["metadata"].get("generation"):
        return f"{object_label} was changed and has not been reconciled since"
    if ready["status"] != "True":
        return f"{object_label} is not ready: {ready['reason']}: {ready['message']}"
    return ""
