"""A cluster in memory, as documents of the API: what the console's watches would receive."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from functools import lru_cache
from typing import Any, Final

from console.views.labels import read_selector
from gpu_operator.kube.port import Chosen, Document
from mig import geometry, planner
from mig.geometry import Instance

_PAGE: Final = 500
_ON_NODE: Final = "spec.nodeName="  # of field selectors, the only one that is evaluated
_GROUP: Final = "gpu.tessera.dev"
SEVEN: Final = ("1g.10gb",) * 7
_MIXES: Final = {
    "h100-80gb": (
        SEVEN,
        ("3g.40gb", "3g.40gb"),
        ("4g.40gb", "1g.10gb", "1g.10gb", "1g.10gb"),
        ("2g.20gb", "2g.20gb", "2g.20gb", "1g.10gb"),
        ("1c.3g.40gb", "1c.3g.40gb", "1c.3g.40gb", "3g.40gb"),
        ("7g.80gb",),
        ("whole",),
    ),
    "a30": (("1g.6gb",) * 4, ("2g.12gb", "1g.6gb"), ("4g.24gb",)),
    "rtx-pro-6000": (("1g.24gb",) * 4, ("2g.48gb", "1g.24gb"), ("4g.96gb",)),
}
_SPACES: Final = ("training", "inference", "notebooks", "ci", "research", "batch-eu")


class SyntheticCluster:
    """Objects by kind and key; implements the operator's ``Source``."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Document]] = {}
        self.refused: dict[str, Exception] = {}
        self.lists: dict[str, int] = {}
        self.watches: dict[str, int] = {}
        self._queues: dict[str, list[asyncio.Queue[Document]]] = {}
        self._version = 1000

    def put(self, kind: str, document: Document) -> Document:
        """Add or replace an object; watches report it."""
        self._version += 1
        metadata = document["metadata"]
        metadata.setdefault("uid", f"uid-{kind}-{metadata['name']}")
        metadata["resourceVersion"] = str(self._version)
        metadata.setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
        stored_objects = self.objects.setdefault(kind, {})
        event = "MODIFIED" if _key(document) in stored_objects else "ADDED"
        stored_objects[_key(document)] = document
        self._report(kind, event, document)
        return document

    def remove(self, kind: str, key: str) -> None:
        """Delete an object; watches report it."""
        self._version += 1
        gone = self.objects[kind].pop(key)
        gone["metadata"]["resourceVersion"] = str(self._version)
        self._report(kind, "DELETED", gone)

    async def page(self, kind: str, chosen: Chosen, token: str = "") -> Document:
        """Return one page of a list."""
        if kind in self.refused:
            raise self.refused[kind]
        self.lists[kind] = self.lists.get(kind, 0) + (not token)
        selected_objects = [d for d in self.objects.get(kind, {}).values() if _selects(chosen, d)]
        first = int(token or 0)
        has_more = first + _PAGE < len(selected_objects)
        metadata = {"resourceVersion": str(self._version)}
        if has_more:
            metadata["continue"] = str(first + _PAGE)
        return {"metadata": metadata, "items": selected_objects[first : first + _PAGE]}

    async def watch(self, kind: str, chosen: Chosen, version: str) -> AsyncIterator[Document]:
        """Yield later changes of a kind."""
        del version
        queue: asyncio.Queue[Document] = asyncio.Queue()
        self._queues.setdefault(kind, []).append(queue)
        self.watches[kind] = self.watches.get(kind, 0) + 1
        try:
            while True:
                event = await queue.get()
                if _selects(chosen, event["object"]):
                    yield event
        finally:
            self._queues[kind].remove(queue)

    def _report(self, kind: str, event: str, document: Document) -> None:
        for queue in self._queues.get(kind, ()):
            queue.put_nowait({"type": event, "object": document})


def fill(cluster: SyntheticCluster, nodes: int, *, alike: bool = False, seed: int = 1) -> None:
    """Add a fleet: pools, nodes with eight GPUs, layouts, pods, faults, events, RDMA policies.

    With ``alike`` every GPU is an H100 with seven slices, six of them held.
    """
    choose = random.Random(seed)
    for board in ("h100-80gb",) if alike else tuple(_MIXES):
        pool_of(cluster, board)
    for number in range(nodes):
        board = "h100-80gb" if alike else choose.choices(list(_MIXES), (8, 1, 1))[0]
        add_node(cluster, f"gpu-{number:04}", board, choose, alike=alike)
    if not alike:
        add_company(cluster)


_SWITCHED = "h100-80gb"  # the board whose nodes have NVSwitches and HCAs


def pool_of(cluster: SyntheticCluster, board: str) -> None:
    """Add a pool of one board."""
    spec = {"nodeSelector": {"board": board}, "board": board, "count": 8}
    if board == _SWITCHED:
        spec |= {"topology": "dgx-h100", "hcas": {"count": 4}}
    cluster.put("GPUPool", _document("GPUPool", _pool(board), spec))
    add_operator(cluster)


def add_operator(cluster: SyntheticCluster) -> Document:
    """Add a pod of the operator that is ready."""
    pod = _document("Pod", "tessera-operator-0", {"containers": [{"name": "operator"}]})
    labels = {"app.kubernetes.io/component": "operator", "app.kubernetes.io/instance": "tessera"}
    pod["metadata"] |= {"namespace": "tessera-system", "labels": labels}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    pod["status"] = {"phase": "Running", "conditions": [ready]}
    return cluster.put("Pod", pod)


def add_node(
    cluster: SyntheticCluster,
    name: str,
    board: str,
    choose: random.Random,
    *,
    alike: bool = False,
    gpus: int = 8,
) -> None:
    """Add a node and its GPUs."""
    offered: dict[str, int] = {}
    for index in range(gpus):
        mix = SEVEN if alike else choose.choice(_MIXES[board])
        gpu = gpu_document(name, index, board, mix, choose, alike=alike)
        cluster.put("GPU", gpu)
        for gpu_slice in gpu["status"]["slices"]:
            offered[gpu_slice["resource"]] = offered.get(gpu_slice["resource"], 0) + 1
    ready = {"type": "Ready", "status": "True"}
    serves = {
        "type": "GPUReady",
        "status": "True",
        "reason": "Ready",
        "message": "all GPUs are served",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    node = _document("Node", name, {})
    node["metadata"]["labels"] = {"board": board, "kubernetes.io/hostname": name}
    counts = {resource: str(number) for resource, number in offered.items()}
    node["status"] = {"capacity": counts, "allocatable": counts, "conditions": [ready, serves]}
    if not alike and choose.random() < 0.05:
        node["spec"]["taints"] = [{"key": "maintenance", "effect": "NoSchedule"}]
    if not alike and choose.random() < 0.04:
        serves |= {"status": "False", "reason": "AgentUnreachable", "message": "gpud is down"}
    cluster.put("Node", node)


def gpu_document(
    node: str,
    index: int,
    board: str,
    mix: Sequence[str],
    choose: random.Random,
    *,
    alike: bool = False,
) -> Document:
    """Return a GPU with the slices of a mix, most of them held by pods."""
    from gpu_operator.render import gpu as render

    gpu = _document("GPU", f"{node}-gpu-{index}", {})
    uuid = render.uuid_of(node, index)
    placed = _placed(board, tuple(mix))
    places = [
        {"profile": i.device.name, "start": i.start}
        | ({} if i.compute_start is None else {"computeStart": i.compute_start})
        for i in placed
    ]
    sick = not alike and choose.random() < 0.015
    gpu["spec"] = {
        "nodeName": node,
        "index": index,
        "board": board,
        "uuid": uuid,
        "pool": _pool(board),
        **({"topology": "dgx-h100"} if board == _SWITCHED else {}),
        "instances": places,
        "layout": None if mix == ("whole",) else "mixed",
    }
    slices = []
    for number, (instance, place) in enumerate(zip(placed, places, strict=True)):
        is_held = number < 6 if alike else number == 0 or choose.random() < 0.65
        space = choose.choice(_SPACES)
        pod = {"namespace": space, "name": f"{space}-{choose.randrange(9999):04}-{number}"}
        leaving = is_held and not alike and choose.random() < 0.03
        memory = instance.profile.memory_bytes
        slices.append(
            place
            | {
                "uuid": uuid if instance.profile.is_whole else f"MIG-{node}-{index}-{number}",
                "state": "Withdrawing" if leaving else "Active",
                "resource": f"{_GROUP}/{instance.device.resource_name}",
                "memoryBytes": memory,
                "memoryUsedBytes": int(memory * choose.random()) if is_held else 0,
                "multiprocessors": instance.device.sm_count,
                "holders": [pod | {"uid": f"uid-{pod['name']}"}] if is_held else [],
                "health": "Unhealthy: Xid 48" if sick and number == 0 else "Healthy",
            }
        )
    record = geometry.board(board)
    gpu["status"] = {
        "observedGeneration": 1,
        "product": record.product_name,
        "memoryBytes": record.memory_bytes,
        "multiprocessors": record.sm_count,
        "health": "Unhealthy: Xid 48" if sick else "Healthy",
        "slices": slices,
        "conditions": [_condition("Ready", "True", "Reconciled")],
    }
    return gpu


def add_company(cluster: SyntheticCluster) -> None:
    """Add what surrounds the GPUs: a layout, pending pods, faults, events, RDMA objects."""
    spec: Document = {
        "selector": {"pool": "h100"},
        "instances": [{"profile": "1g.10gb", "count": 7}],
    }
    cluster.put("MIGLayout", _document("MIGLayout", "mixed", spec))
    for number, profile in enumerate(("mig-7g.80gb", "mig-3g.40gb", "mig-1g.10gb.me", "gpu")):
        add_pending_pod(
            cluster, "training", f"llama-finetune-{number}", {f"{_GROUP}/{profile}": "1"}
        )
    fault = _document("GPUFault", "xid-48-drill", {"gpuName": "gpu-0003-gpu-1", "xid": 48})
    fault["metadata"]["creationTimestamp"] = "2026-01-01T09:12:00Z"
    fault["status"] = {"phase": "Injected", "gpu": "gpu-0003-gpu-1", "fault": "xid"}
    cluster.put("GPUFault", fault)
    for number in range(40):
        add_event(cluster, number)
    for space in (*_SPACES, "default"):
        cluster.put("Namespace", _document("Namespace", space, {}))
    for number in range(14):
        space = ("training", "inference")[number % 2]
        add_rdma_pod(
            cluster, space, f"worker-{number}", ("weights", "trainer", "reader")[number % 3]
        )
    add_policies(cluster)


def add_pending_pod(
    cluster: SyntheticCluster, space: str, name: str, limits: dict[str, str], **spec: Any
) -> Document:
    """Add a pod that the scheduler cannot place."""
    pod = _document("Pod", name, {"containers": [{"name": "c", "resources": {"limits": limits}}]})
    pod["spec"] |= spec
    pod["metadata"]["namespace"] = space
    resource = next(iter(limits), "device")
    message = f"0/40 nodes are available: 40 Insufficient {resource}."
    scheduled = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
    }
    pod["status"] = {"phase": "Pending", "conditions": [scheduled]}
    return cluster.put("Pod", pod)


def add_event(cluster: SyntheticCluster, number: int) -> Document:
    """Add an event about a GPU."""
    warning = number % 5 == 0
    event = _document("Event", f"event-{number}", {})
    event["metadata"]["namespace"] = "default"
    about = {
        "apiVersion": f"{_GROUP}/v1alpha1",
        "kind": "GPU",
        "name": f"gpu-{number % 20:04}-gpu-1",
    }
    event |= {
        "involvedObject": about,
        "type": "Warning" if warning else "Normal",
        "reason": "SliceInUse" if warning else "Reconciled",
        "message": f"1g.10gb@{number % 7} is held by pod training/job-{number}"
        if warning
        else "all slices exist as requested",
        "lastTimestamp": f"2026-01-01T{8 + number // 20:02}:{number % 60:02}:{number * 7 % 60:02}Z",
        "count": 1 + number % 3,
        "source": {"component": "tessera-operator"},
    }
    return cluster.put("Event", event)


def add_rdma_pod(cluster: SyntheticCluster, space: str, name: str, app: str) -> Document:
    """Add a running pod that holds an HCA."""
    limits = {"rdma.tessera.dev/hca": "1"}
    pod = _document("Pod", name, {"containers": [{"name": "c", "resources": {"limits": limits}}]})
    pods = cluster.objects.get("Pod", {})
    number = len(pods) - ("tessera-system/tessera-operator-0" in pods) + 1
    pod["metadata"] |= {"namespace": space, "labels": {"app": app}}
    pod["spec"]["nodeName"] = "gpu-0001"
    pod["status"] = {
        "phase": "Running",
        "podIPs": [{"ip": f"10.1.{number // 250}.{number % 250 + 1}"}],
    }
    return cluster.put("Pod", pod)


def add_policies(cluster: SyntheticCluster) -> None:
    """Add policies: weights may be read only by trainers, and written by none."""
    only = {"podSelector": {"matchLabels": {"app": "trainer"}}}
    spec = {
        "podSelector": {"matchLabels": {"app": "weights"}},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [only], "verbs": ["Read", "Send"]}],
    }
    silent = {"podSelector": {"matchLabels": {"app": "reader"}}, "policyTypes": ["Egress"]}
    for name, space, policy_spec in (
        ("read-only-weights", "training", spec),
        ("no-egress", "inference", silent),
    ):
        policy = _document("RDMANetworkPolicy", name, policy_spec)
        policy["metadata"]["namespace"] = space
        cluster.put("RDMANetworkPolicy", policy)


@lru_cache(maxsize=256)
def _placed(board: str, mix: tuple[str, ...]) -> tuple[Instance, ...]:
    record = geometry.board(board)
    profiles = [record.device_profile(name) for name in mix]
    if mix == ("whole",):
        return (record.instance("whole", 0),)
    return planner.relayout(record, (), profiles).layout


def _pool(board: str) -> str:
    return board.partition("-")[0]


def _document(kind: str, name: str, spec: Document) -> Document:
    return {"kind": kind, "metadata": {"name": name}, "spec": spec}


def _condition(kind: str, status: str, reason: str) -> Document:
    moment = "2026-01-01T00:00:00Z"
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": "",
        "lastTransitionTime": moment,
    }


def _key(document: Document) -> str:
    metadata = document["metadata"]
    space = metadata.get("namespace")
    return f"{space}/{metadata['name']}" if space else str(metadata["name"])


def _selects(chosen: Chosen, document: Document) -> bool:
    metadata = document["metadata"]
    if chosen.namespace not in ("", metadata.get("namespace", "")):
        return False
    labels = metadata.get("labels") or {}
    if not all(requirement.matches(labels) for requirement in read_selector(chosen.labels)):
        return False
    chosen_nodes = [
        term.removeprefix(_ON_NODE)
        for term in chosen.fields.split(",")
        if term.startswith(_ON_NODE)
    ]
    return not chosen_nodes or (document.get("spec") or {}).get("nodeName") in chosen_nodes
