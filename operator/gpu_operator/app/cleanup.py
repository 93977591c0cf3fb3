"""Removal of pools and layouts before an uninstallation, while the operator still runs."""

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
_PRINT_EVERY_S = 60.0  # and whenever the list of remaining objects changes
_QUIET_LOOKS = 3  # the scheduler observes a change of allocatable slightly later than this command
# A kubelet that restarts just before the first removal remembers every resource for as long again.
_RETIRE_TIMEOUT_S = RETIRE_AFTER_S + KUBELET_REMEMBERS_S + RETIRE_AGAIN_S + 60
_RETIRED_FOR_S = 25.0  # a kubelet that remembers a resource restores it within ten seconds


@dataclass(frozen=True, slots=True)
class Request:
    """How to treat pods that hold slices, and how long to wait for pools and GPUs to be removed.

    With ``retire_resources``, the cleanup also waits until the nodes' status no longer lists the
    resources. This takes six to seven minutes, or twelve if a kubelet restarts meanwhile.
    """

    evict: bool
    timeout_s: float
    retire_resources: bool = False


@dataclass(slots=True)
class _Seen:
    """What the cleanup has observed so far."""

    prefix: str = GROUP
    deleted: set[tuple[str, str]] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)  # nodes that had GPUs
    # GPU → number of passes in which its node offered none of its slices
    quiet: dict[str, int] = field(default_factory=dict)


async def cleanup(kube: Kube, request: Request, say: Callable[[str], Any]) -> int:
    """Remove all pools and layouts; return 0 once they are gone, and 1 on timeout.

    On timeout, the remaining objects and the pods that hold their slices are printed.
    """
    observations = _Seen()
    if not await _wait_until_gone(
        lambda: _remove(kube, request, observations, say), request.timeout_s, say
    ):
        say("check that the operator is running and that pods which hold slices terminate")
        return 1
    say("pools, layouts and GPUs are gone")
    if not request.retire_resources:
        _print_removal_command(await _list_resources(kube, observations), say)
        return 0
    if observations.prefix != GROUP:
        say(
            f"resources with the prefix {observations.prefix} may belong to another vendor:"
            " 0 entries stay"
        )
        return 0
    say("waiting until the nodes no longer list their resources")
    if not await _wait_until_gone(
        lambda: _list_zero_resources(kube, observations), _RETIRE_TIMEOUT_S, say, _RETIRED_FOR_S
    ):
        return 1
    say("no node lists a resource any more")
    return 0


async def _wait_until_gone(
    look: Callable[[], Any], timeout_s: float, say: Callable[[str], Any], for_s: float = 0.0
) -> bool:
    """Call ``look`` every second until it has returned nothing for ``for_s`` seconds.

    Errors of the API server are retried.
    """
    end = time.monotonic() + timeout_s
    gone_at: float | None = None
    printed: list[str] = []
    printed_at = 0.0
    while True:
        try:
            remaining_objects: list[str] = await look()
        except errors.KubeError as err:
            remaining_objects = [f"the API server ({err})"]
        now_s = time.monotonic()
        if remaining_objects:
            gone_at = None
            if now_s >= end:
                say(f"not finished in {timeout_s:.0f} s; left: {', '.join(remaining_objects)}")
                return False
            if remaining_objects != printed or now_s - printed_at >= _PRINT_EVERY_S:
                printed, printed_at = remaining_objects, now_s
                say(f"waiting for: {', '.join(remaining_objects)}")
        else:
            printed = []
            gone_at = now_s if gone_at is None else gone_at
            if now_s - gone_at >= for_s:
                return True
        await asyncio.sleep(_EVERY_S)


async def _remove(
    kube: Kube, request: Request, observations: _Seen, say: Callable[[str], Any]
) -> list[str]:
    """Delete objects and evict pods where permitted; return the remaining objects."""
    for policy in await _list_all(kube, "GPUPolicy"):
        if policy["metadata"]["name"] == POLICY_NAME:
            observations.prefix = str(policy["spec"].get("resourcePrefix", GROUP))
    ours = list(kinds.own_kinds())
    for kind in reversed(ours):  # later kinds depend on earlier ones
        if kind.on_uninstall is Uninstall.DELETE:
            await _delete_all(kube, kind.name, observations, say)
    gpus: list[Document] = []
    remaining_objects = []
    for kind in ours:
        if kind.on_uninstall is not Uninstall.KEEP:
            documents = await _list_all(kube, kind.name)
            gpus += documents if kind.name == "GPU" else ()
            remaining_objects += [
                _describe_remaining(kind.name, document) for document in documents
            ]
    observations.nodes |= {gpu["spec"]["nodeName"] for gpu in gpus}
    if request.evict and gpus:
        remaining_objects += await _evict(kube, gpus, observations.quiet)
    return remaining_objects


async def _delete_all(
    kube: Kube, kind: str, observations: _Seen, say: Callable[[str], Any]
) -> None:
    for document in await _list_all(kube, kind):
        name, uid = document["metadata"]["name"], document["metadata"]["uid"]
        if (kind, uid) not in observations.deleted:
            say(f"deleting {kind} {name}")
            await kube.perform(Delete(kind, name))
            observations.deleted.add((kind, uid))


def _describe_remaining(kind: str, document: Document) -> str:
    """Return an object's name, what its deletion waits for, and the pods that hold it."""
    conditions = (document.get("status") or {}).get("conditions") or ()
    waits = [c.get("message", "") for c in conditions if c.get("reason") == Reason.DELETING.value]
    pods = sorted({f"{namespace}/{name}" for namespace, name, _ in _holders(document)})
    why = waits[:1] + ([f"held by {', '.join(pods)}"] if pods else [])
    name = f"{kind} {document['metadata']['name']}"
    return f"{name} ({'; '.join(why)})" if why else name


async def _list_all(kube: Kube, kind: str) -> list[Document]:
    try:
        return await kube.list(kind)
    except errors.NotFound:
        return []  # the CRD itself is gone


async def _list_resources(kube: Kube, observations: _Seen) -> dict[str, list[str]]:
    """Return, for each node, the resources in its status that certainly belong to Tessera."""
    resources_by_node = {}
    for node in await kube.list("Node"):
        name = node["metadata"]["name"]
        capacity = (node.get("status") or {}).get("capacity") or {}
        ours = [r for r in capacity if offers.is_ours(r, observations.prefix)]
        certain = ours if observations.prefix == GROUP or name in observations.nodes else []
        certain += [r for r in capacity if r == HCA_RESOURCE]
        if certain:
            resources_by_node[name] = certain
    return resources_by_node


async def _list_zero_resources(kube: Kube, observations: _Seen) -> list[str]:
    resources_by_node = await _list_resources(kube, observations)
    return [
        f"{resource} on node {node}"
        for node, ours in resources_by_node.items()
        for resource in ours
    ]


def _print_removal_command(
    resources_by_node: dict[str, list[str]], say: Callable[[str], Any]
) -> None:
    """Print how to remove resources that the kubelets keep listing as 0."""
    if not resources_by_node:
        return
    gone = dict.fromkeys(
        sorted({resource for ours in resources_by_node.values() for resource in ours})
    )
    patch = json.dumps({"status": {"capacity": gone, "allocatable": gone}})
    say("These nodes still list their resources, as 0. The kubelet never removes a resource, and")
    say("for five minutes it restores a removed one. This is harmless. To remove them after that:")
    say(f"  for node in {' '.join(sorted(resources_by_node))}; do")
    say(f"    kubectl patch node $node --subresource=status --type=merge -p '{patch}'")
    say("  done")


async def _evict(kube: Kube, gpus: Iterable[Document], quiet: dict[str, int]) -> list[str]:
    """Evict the pods that hold withdrawn slices; return the pods whose eviction was refused."""
    refusals = []
    nodes = {node["metadata"]["name"]: node for node in await kube.list("Node")}
    for gpu in gpus:
        name = gpu["metadata"]["name"]
        withdrawn = _is_withdrawn(gpu, nodes.get(gpu["spec"]["nodeName"], {}))
        quiet[name] = quiet.get(name, 0) + 1 if withdrawn else 0
        if quiet[name] < _QUIET_LOOKS:
            continue  # the scheduler would place the replacement pod on the same slice
        for namespace, pod, uid in _holders(gpu, withdrawing=True):
            if not uid:
                continue  # the agent has not found the pod yet; the name may belong to another pod
            try:
                await kube.perform(Evict(namespace, pod, uid))
            except (errors.EvictionBlocked, errors.Refused) as err:
                refusals.append(f"pod {namespace}/{pod} (eviction refused: {err})")
    return refusals


def _is_withdrawn(gpu: Document, node: Document) -> bool:
    """Return whether the node's status offers none of the GPU's resources any more."""
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
