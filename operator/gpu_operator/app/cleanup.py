"""Before an uninstallation: take pools and layouts away while the operator still works on it."""

import asyncio
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from gpu_operator import errors, kinds
from gpu_operator.api.v1alpha1 import GROUP, HCA_RESOURCE
from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.controllers.common import offers
from gpu_operator.controllers.nodes.extended_resources import (
    KUBELET_REMEMBERS_S,
    RETIRE_AFTER_S,
    RETIRE_AGAIN_S,
)
from gpu_operator.kinds import POLICY_NAME, Uninstall
from gpu_operator.kube.actions import Delete, Evict
from gpu_operator.kube.port import Document, Kube

_EVERY_S = 1.0
_TELL_EVERY_S = 60.0  # and whenever something else is left
_QUIET_LOOKS = 3  # the scheduler sees what is no longer allocatable a moment after we do
# A kubelet that is restarted just before the first removal remembers everything for as long again.
_RETIRE_TIMEOUT_S = RETIRE_AFTER_S + KUBELET_REMEMBERS_S + RETIRE_AGAIN_S + 60
_RETIRED_FOR_S = 25.0  # a kubelet that remembers puts back what was removed within ten seconds


@dataclass(frozen=True, slots=True)
class Request:
    """What to do about pods that hold slices, and how long to wait for pools and GPUs to go.

    With ``retire_resources`` it waits for the nodes' status, too: for six to seven minutes, or
    twelve if a kubelet is restarted meanwhile.
    """

    evict: bool
    timeout_s: float
    retire_resources: bool = False


@dataclass(slots=True)
class _Seen:
    """What earlier looks have found."""

    prefix: str = GROUP
    deleted: set[tuple[str, str]] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)  # that had GPUs
    quiet: dict[str, int] = field(default_factory=dict)  # GPU → how often its node offered nothing


async def cleanup(kube: Kube, request: Request, say: Callable[[str], Any]) -> int:
    """Return 0 when nothing is left, 1 when time ran out; says what is left and what holds it."""
    seen = _Seen()
    if not await _until_gone(lambda: _remove(kube, request, seen, say), request.timeout_s, say):
        say("is the operator running? do pods that hold slices end?")
        return 1
    say("pools, layouts and GPUs are gone")
    if not request.retire_resources:
        _tell(await _resources(kube, seen), say)
        return 0
    if seen.prefix != GROUP:
        say(f"resources of {seen.prefix} may be somebody else's: what nodes list as 0 stays")
        return 0
    say("waiting until the nodes forget their resources")
    if not await _until_gone(lambda: _zeros(kube, seen), _RETIRE_TIMEOUT_S, say, _RETIRED_FOR_S):
        return 1
    say("no node lists a resource any more")
    return 0


async def _until_gone(
    look: Callable[[], Any], timeout_s: float, say: Callable[[str], Any], for_s: float = 0.0
) -> bool:
    """Look every second until nothing has been left for ``for_s`` seconds.

    What the API server fails to do is tried again.
    """
    end = time.monotonic() + timeout_s
    gone_at: float | None = None
    told: list[str] = []
    told_at = 0.0
    while True:
        try:
            left: list[str] = await look()
        except errors.KubeError as err:
            left = [f"the API server ({err})"]
        now = time.monotonic()
        if left:
            gone_at = None
            if now >= end:
                say(f"not done in {timeout_s:.0f} s; left: {', '.join(left)}")
                return False
            if left != told or now - told_at >= _TELL_EVERY_S:
                told, told_at = left, now
                say(f"waiting for: {', '.join(left)}")
        else:
            told = []
            gone_at = now if gone_at is None else gone_at
            if now - gone_at >= for_s:
                return True
        await asyncio.sleep(_EVERY_S)


async def _remove(
    kube: Kube, request: Request, seen: _Seen, say: Callable[[str], Any]
) -> list[str]:
    """Delete what is not being deleted yet, evict who may be; return what is left."""
    for policy in await _all(kube, "GPUPolicy"):
        if policy["metadata"]["name"] == POLICY_NAME:
            seen.prefix = str(policy["spec"].get("resourcePrefix", GROUP))
    ours = list(kinds.of_ours())
    for kind in reversed(ours):  # what was listed last stands on what was listed before
        if kind.on_uninstall is Uninstall.DELETE:
            await _delete_all(kube, kind.name, seen, say)
    gpus: list[Document] = []
    left = []
    for kind in ours:
        if kind.on_uninstall is not Uninstall.KEEP:
            found = await _all(kube, kind.name)
            gpus += found if kind.name == "GPU" else ()
            left += [_told(kind.name, document) for document in found]
    seen.nodes |= {gpu["spec"]["nodeName"] for gpu in gpus}
    if request.evict and gpus:
        left += await _evict(kube, gpus, seen.quiet)
    return left


async def _delete_all(kube: Kube, kind: str, seen: _Seen, say: Callable[[str], Any]) -> None:
    for document in await _all(kube, kind):
        name, uid = document["metadata"]["name"], document["metadata"]["uid"]
        if (kind, uid) not in seen.deleted:
            say(f"deleting {kind} {name}")
            await kube.perform(Delete(kind, name))
            seen.deleted.add((kind, uid))


def _told(kind: str, document: Document) -> str:
    """Name an object, what the operator says that its deletion waits for, and who holds it."""
    conditions = (document.get("status") or {}).get("conditions") or ()
    waits = [c.get("message", "") for c in conditions if c.get("reason") == Reason.DELETING.value]
    pods = sorted({f"{namespace}/{name}" for namespace, name, _ in _holders(document)})
    why = waits[:1] + ([f"held by {', '.join(pods)}"] if pods else [])
    name = f"{kind} {document['metadata']['name']}"
    return f"{name} ({'; '.join(why)})" if why else name


async def _all(kube: Kube, kind: str) -> list[Document]:
    try:
        return await kube.list(kind)
    except errors.NotFound:
        return []  # the definition itself is gone


async def _resources(kube: Kube, seen: _Seen) -> dict[str, list[str]]:
    """Return what the status of each node still has of ours, as far as it is certainly ours."""
    found = {}
    for node in await kube.list("Node"):
        name = node["metadata"]["name"]
        capacity = (node.get("status") or {}).get("capacity") or {}
        ours = [r for r in capacity if offers.is_ours(r, seen.prefix)]
        certain = ours if seen.prefix == GROUP or name in seen.nodes else []
        certain += [r for r in capacity if r == HCA_RESOURCE]
        if certain:
            found[name] = certain
    return found


async def _zeros(kube: Kube, seen: _Seen) -> list[str]:
    found = await _resources(kube, seen)
    return [f"{resource} on node {node}" for node, ours in found.items() for resource in ours]


def _tell(found: dict[str, list[str]], say: Callable[[str], Any]) -> None:
    """Say how to remove what only the kubelets could, and do not."""
    if not found:
        return
    gone = dict.fromkeys(sorted({resource for ours in found.values() for resource in ours}))
    patch = json.dumps({"status": {"capacity": gone, "allocatable": gone}})
    say("These nodes go on listing their resources, as 0: the kubelet never removes one, and for")
    say("five minutes it puts back what others remove. It does no harm. To remove it after that:")
    say(f"  for node in {' '.join(sorted(found))}; do")
    say(f"    kubectl patch node $node --subresource=status --type=merge -p '{patch}'")
    say("  done")


async def _evict(kube: Kube, gpus: Iterable[Document], quiet: dict[str, int]) -> list[str]:
    """Evict the pods that hold slices which are on their way out; return who may not be evicted."""
    refusals = []
    nodes = {node["metadata"]["name"]: node for node in await kube.list("Node")}
    for gpu in gpus:
        name = gpu["metadata"]["name"]
        withdrawn = _is_withdrawn(gpu, nodes.get(gpu["spec"]["nodeName"], {}))
        quiet[name] = quiet.get(name, 0) + 1 if withdrawn else 0
        if quiet[name] < _QUIET_LOOKS:
            continue  # the pod that replaces an evicted one would be sent to the slice again
        for namespace, pod, uid in _holders(gpu, withdrawing=True):
            if not uid:
                continue  # the agent has yet to find it: it might be another pod of that name
            try:
                await kube.perform(Evict(namespace, pod, uid))
            except (errors.EvictionBlocked, errors.Refused) as err:
                refusals.append(f"pod {namespace}/{pod} (eviction refused: {err})")
    return refusals


def _is_withdrawn(gpu: Document, node: Document) -> bool:
    """Return whether the scheduler knows that none of the GPU's resources is offered any more."""
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
