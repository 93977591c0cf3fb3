"""Before an uninstallation: take pools and layouts away while the operator still works on it."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpu_operator import errors
from gpu_operator.kube.actions import Delete, Evict
from gpu_operator.kube.port import Document, Kube

_EVERY_S = 1.0
_TELL_EVERY_S = 10.0
_QUIET_LOOKS = 3  # the scheduler sees what is no longer allocatable a moment after we do


@dataclass(frozen=True, slots=True)
class Request:
    """What to do about pods that hold slices, and how long to wait for all of it."""

    evict: bool
    timeout_s: float
    retire_resources: bool = False


async def cleanup(kube: Kube, request: Request, say: Callable[[str], Any]) -> int:
    """Return 0 when nothing is left, 1 when time ran out; says what is left and what holds it."""
    end = time.monotonic() + request.timeout_s
    prefix = await _prefix(kube)
    for kind in ("MIGLayout", "GPUPool"):
        for document in await _all(kube, kind):
            name = document["metadata"]["name"]
            say(f"deleting {kind} {name}")
            await kube.perform(Delete(kind, name))
    told, refused = 0.0, ""
    quiet: dict[str, int] = {}
    while True:
        left = await _left(kube)
        if not left and request.retire_resources:
            left = await _zeros(kube, prefix)
        if not left:
            say("nothing is left")
            return 0
        if request.evict:
            refused = await _evict(kube, quiet)
        if time.monotonic() >= end:
            say(f"not done in {request.timeout_s:.0f} s; left: {', '.join(left)} {refused}".strip())
            say("is the operator running? do pods that hold slices end?")
            return 1
        if time.monotonic() - told >= _TELL_EVERY_S:
            told = time.monotonic()
            say(f"waiting for: {', '.join(left)} {refused}".strip())
        await asyncio.sleep(_EVERY_S)


async def _prefix(kube: Kube) -> str:
    for policy in await _all(kube, "GPUPolicy"):
        if policy["metadata"]["name"] == "default":
            return str(policy["spec"].get("resourcePrefix", "gpu.tessera.dev"))
    return "gpu.tessera.dev"


async def _all(kube: Kube, kind: str) -> list[Document]:
    try:
        return await kube.list(kind)
    except errors.NotFound:
        return []  # the definition itself is gone


async def _left(kube: Kube) -> list[str]:
    """Name what is left, and for GPUs who holds them."""
    left = [f"GPUPool {pool['metadata']['name']}" for pool in await _all(kube, "GPUPool")]
    for gpu in await _all(kube, "GPU"):
        pods = sorted({f"{ns}/{name}" for ns, name, _ in _holders(gpu)})
        held = f" (held by {', '.join(pods)})" if pods else ""
        left.append(f"GPU {gpu['metadata']['name']}{held}")
    return left


async def _zeros(kube: Kube, prefix: str) -> list[str]:
    return [
        f"{resource} on node {node['metadata']['name']}"
        for node in await kube.list("Node")
        for resource in (node.get("status") or {}).get("capacity") or {}
        if resource.startswith(f"{prefix}/mig-")
    ]


async def _evict(kube: Kube, quiet: dict[str, int]) -> str:
    """Evict the pods that hold slices which are on their way out; return who may not be evicted.

    ``quiet`` counts for each GPU how often in a row its node has offered nothing.
    """
    refusals = []
    nodes = {node["metadata"]["name"]: node for node in await kube.list("Node")}
    for gpu in await _all(kube, "GPU"):
        name = gpu["metadata"]["name"]
        withdrawn = _is_withdrawn(gpu, nodes.get(gpu["spec"]["nodeName"], {}))
        quiet[name] = quiet.get(name, 0) + 1 if withdrawn else 0
        if quiet[name] < _QUIET_LOOKS:
            continue  # the pod that replaces an evicted one would be sent to the slice again
        for namespace, pod, uid in _holders(gpu, withdrawing=True):
            try:
                await kube.perform(Evict(namespace, pod, uid))
            except errors.EvictionBlocked as err:
                refusals.append(f"{namespace}/{pod}: {err}")
    return f"(eviction refused: {'; '.join(refusals)})" if refusals else ""


def _is_withdrawn(gpu: Document, node: Document) -> bool:
    """Whether the scheduler knows that the node offers nothing of the GPU's resources any more."""
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    slices = (gpu.get("status") or {}).get("slices") or []
    return all(allocatable.get(item["resource"], "0") == "0" for item in slices)


def _holders(gpu: Document, *, withdrawing: bool = False) -> list[tuple[str, str, str]]:
    return [
        (holder["namespace"], holder["name"], holder.get("uid", ""))
        for item in (gpu.get("status") or {}).get("slices") or []
        if not withdrawing or item["state"] == "Withdrawing"
        for holder in item.get("holders") or []
    ]
