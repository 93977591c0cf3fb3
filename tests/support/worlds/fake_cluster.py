"""An API server in memory, with node agents, on which the operator's own loop runs.

It implements the features on which the operator relies: server-side apply by field manager, uid
preconditions, finalizers, generations, status as a subresource. Like the real agents, these
agents use only ``GPU.spec`` and ``GPU.status``.
"""

import copy
import itertools
from collections import Counter
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from gpu_operator import errors
from gpu_operator.api.v1alpha1 import FINALIZER, NODE_LABEL, TAINTS
from gpu_operator.kube.actions import (
    Action,
    Apply,
    Delete,
    DropFinalizer,
    Evict,
    PatchNode,
    Record,
    SetTaints,
)
from mig import geometry, planner

Document = dict[str, Any]


class FakeCluster:
    """Implements the operator's ``Kube`` port."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Document]] = {}
        self.events: list[Record] = []
        self.protected: set[str] = set()  # UIDs of pods that a PodDisruptionBudget protects
        self.holders: dict[tuple[str, str, int], list[str]] = {}  # GPU, profile, start → pods
        # node and index → the UUID and the slices that the node has
        self.devices: dict[tuple[str, int], tuple[str, set[tuple[str, int]]]] = {}
        self.terminating: set[str] = set()  # kinds whose objects can no longer be created
        self.kubelets_run = True
        self.controllers_run = True
        self.writes = 0
        self._fields: dict[tuple[str, str, str, bool], Document] = {}
        self._numbers = itertools.count(1)

    # actions of tests

    def add(self, kind: str, name: str, spec: Document | None = None, **metadata: Any) -> Document:
        """Create an object as a user would."""
        number = next(self._numbers)
        document = {
            "kind": kind,
            "metadata": {
                "name": name,
                "uid": str(uuid5(NAMESPACE_URL, f"{kind}/{name}/{number}")),
                "generation": 1,
                "resourceVersion": str(number),
                "creationTimestamp": f"2026-01-01T00:{number // 60:02}:{number % 60:02}Z",
                **metadata,
            },
            "spec": spec or {},
        }
        self.objects.setdefault(kind, {})[name] = document
        return document

    def edit(self, kind: str, name: str, **spec: Any) -> None:
        """Change a spec as a user would, who then owns the changed fields."""
        document = self.objects[kind][name]
        for (of_kind, of_name, _, _), owned in self._fields.items():
            if (of_kind, of_name) == (kind, name):
                for field in spec:
                    owned.get("spec", {}).pop(field, None)
        document["spec"] |= spec
        document["metadata"]["generation"] += 1
        self._touch(document)

    def remove(self, kind: str, name: str) -> None:
        """Delete an object as a user would: it stays while it has finalizers."""
        document = self.objects.get(kind, {}).get(name)
        if document is None:
            return
        if document["metadata"].get("finalizers"):
            if "deletionTimestamp" not in document["metadata"]:
                document["metadata"]["deletionTimestamp"] = "2026-01-01T01:00:00Z"
                document["metadata"]["generation"] += 1
                self._touch(document)
        else:
            self._drop(kind, name)

    def disown(self, kind: str, name: str) -> None:
        """Remove the operator's ownership of all fields of an object."""
        for key in [k for k in self._fields if k[:2] == (kind, name)]:
            del self._fields[key]

    def run_agents(self, *nodes: str) -> None:
        """Run one pass of these nodes' agents; then the kubelets update the nodes."""
        there = [g for g in self.objects.get("GPU", {}).values() if g["spec"]["nodeName"] in nodes]
        for gpu in there:
            self._run_agent(gpu)
        named = {(gpu["spec"]["nodeName"], gpu["spec"]["index"]) for gpu in there}
        for at, (uuid, places) in list(self.devices.items()):
            if at[0] in nodes and at not in named:  # unused slices without an object are deleted
                self.devices[at] = (uuid, {p for p in places if self._is_held(at, p)})
        for node in nodes if self.kubelets_run else ():
            self._run_kubelet(node)

    def condition(self, kind: str, name: str, wanted: str) -> tuple[str, str, str]:
        """Return status, reason and message of a condition."""
        conditions = self.objects[kind][name].get("status", {}).get("conditions", [])
        found = next((c for c in conditions if c["type"] == wanted), None)
        return (found["status"], found["reason"], found["message"]) if found else ("", "", "")

    # the ``Kube`` port

    async def perform(self, action: Action) -> Document | None:
        match action:
            case Apply():
                return self._apply(action)
            case DropFinalizer():
                return self._drop_finalizer(action)
            case Delete():
                self.remove(action.kind, action.name)
            case Evict():
                if action.uid in self.protected:
                    raise errors.EvictionBlocked("the disruption budget needs 1 pod, there is 1")
                for key, pods in list(self.holders.items()):
                    self.holders[key] = [
                        p for p in pods if p != f"{action.namespace}/{action.name}"
                    ]
            case PatchNode():
                return self._patch_node(action)
            case SetTaints():
                return self._set_taints(action)
            case Record():
                self.events.append(action)
        return None

    async def list(self, kind: str, namespace: str | None = None) -> list[Document]:
        del namespace
        return [copy.deepcopy(d) for d in self.objects.get(kind, {}).values()]

    async def get(self, kind: str, name: str, namespace: str | None = None) -> Document:
        del namespace
        try:
            return copy.deepcopy(self.objects[kind][name])
        except KeyError:
            raise errors.NotFound(f"{kind} {name}") from None

    async def create(self, document: Document) -> Document:
        kind, name = document["kind"], document["metadata"]["name"]
        if name in self.objects.get(kind, {}):
            raise errors.Conflict(f"{kind} {name} exists")
        given = {k: v for k, v in document["metadata"].items() if k != "name"}
        created = self.add(kind, name, document["spec"], **given)
        return copy.deepcopy(created)

    async def replace(self, document: Document) -> Document:
        kind, name = document["kind"], document["metadata"]["name"]
        known = self.objects[kind][name]
        if known["metadata"]["resourceVersion"] != document["metadata"]["resourceVersion"]:
            raise errors.Conflict(f"{kind} {name} has changed")
        known["spec"] = copy.deepcopy(document["spec"])
        if annotations := document["metadata"].get("annotations"):
            known["metadata"]["annotations"] = dict(annotations)
        self._touch(known)
        return copy.deepcopy(known)

    async def close(self) -> None:
        pass

    # implementation

    def _apply(self, action: Apply) -> Document:
        document = action.document
        kind, metadata = document["kind"], document["metadata"]
        name = metadata["name"]
        known = self.objects.get(kind, {}).get(name)
        if (
            known is None
            or metadata.get("uid", known["metadata"]["uid"]) != known["metadata"]["uid"]
        ):
            if "uid" in metadata:
                raise errors.Conflict(f"{kind} {name}: uid mismatch")
            if kind in self.terminating:
                raise errors.Refused(f"{kind} {name}: the definition is terminating")
            known = self.add(kind, name)
        before = copy.deepcopy(known)
        key = (kind, name, action.manager.value, action.status)
        owned = self._fields.get(key, {})
        parts = ("status",) if action.status else ("metadata", "spec")
        wanted = {part: copy.deepcopy(dict(document.get(part) or {})) for part in parts}
        for part in parts:
            _give_up(known.setdefault(part, {}), owned.get(part, {}), wanted[part])
            _merge(known[part], wanted[part])
        self._fields[key] = wanted
        if known["spec"] != before["spec"]:
            known["metadata"]["generation"] += 1
        if known != before:
            self.writes += 1
            self._touch(known)
        if kind == "DaemonSet" and self.controllers_run:  # rolled out at once
            known["status"] = {"observedGeneration": known["metadata"]["generation"]}
        return copy.deepcopy(known)

    def _drop_finalizer(self, action: DropFinalizer) -> Document:
        known = self.objects.get(action.kind, {}).get(action.name)
        if known is None:
            raise errors.NotFound(action.what)
        finalizers = known["metadata"]["finalizers"]
        if known["metadata"]["uid"] != action.uid or finalizers[action.index] != FINALIZER:
            raise errors.Conflict(f"{action.what}: test failed")
        del finalizers[action.index]
        self.writes += 1
        self._touch(known)
        if known["metadata"].get("deletionTimestamp") and not finalizers:
            self._drop(action.kind, action.name)
        return copy.deepcopy(known)

    def _drop(self, kind: str, name: str) -> None:
        del self.objects[kind][name]
        for key in [k for k in self._fields if k[:2] == (kind, name)]:
            del self._fields[key]

    def _touch(self, document: Document) -> None:
        document["metadata"]["resourceVersion"] = str(next(self._numbers))

    def _patch_node(self, action: PatchNode) -> Document:
        node = self.objects["Node"].get(action.name)
        if node is None:
            raise errors.NotFound(action.what)
        patched = copy.deepcopy(node)  # all or nothing
        for operation in action.operations:
            _, *path, key = operation["path"].split("/")
            assert (path[0] == "status") is action.status
            values = patched
            for part in path:
                values = values[part]
            key = key.replace("~1", "/").replace("~0", "~")
            match operation["op"]:
                case "test":
                    if values.get(key) != operation["value"]:
                        raise errors.Conflict(f"test of {key} failed")
                case "replace":
                    values[key] = operation["value"]
                case "remove":
                    del values[key]
        node.update(patched)
        self.writes += 1
        self._touch(node)
        return copy.deepcopy(node)

    def _set_taints(self, action: SetTaints) -> Document:
        node = self.objects["Node"][action.name]
        if node["metadata"]["uid"] != action.uid:
            raise errors.Conflict(action.what)
        kept = [t for t in node["spec"].get("taints", []) if t["key"] not in action.remove]
        added = [{"key": k, "value": v, "effect": "NoSchedule"} for k, v in action.add]
        node["spec"]["taints"] = kept + added
        annotations = node["metadata"].setdefault("annotations", {})
        annotations.pop(TAINTS, None)
        if action.noted:
            annotations[TAINTS] = ",".join(action.noted)
        self.writes += 1
        self._touch(node)
        return copy.deepcopy(node)

    def _is_held(self, at: tuple[str, int], place: tuple[str, int]) -> bool:
        return bool(self.holders.get((f"{at[0]}-gpu-{at[1]}", *place)))

    def _run_agent(self, gpu: Document) -> None:
        metadata, spec = gpu["metadata"], gpu["spec"]
        at = (spec["nodeName"], spec["index"])
        uuid, have = self.devices.get(at, ("", set()))
        if uuid != spec["uuid"] and any(self._is_held(at, place) for place in have):
            gpu["status"] = {"conditions": [_condition("Degraded", True, "AgentError")]}
            self._touch(gpu)
            return  # two devices at one index
        deleting = "deletionTimestamp" in metadata
        board = geometry.board(spec["board"])
        wanted = {
            (i["profile"], i["start"]) for i in ([] if deleting else spec.get("instances", []))
        }
        kept = {i for i in have if i in wanted or self.holders.get((metadata["name"], *i))}
        placed = [geometry.Instance(board.profile(p), s) for p, s in kept]
        for profile, start in sorted(wanted - kept, key=lambda i: i[1]):
            new = geometry.Instance(board.profile(profile), start)
            if not planner.violations(board, [*placed, new]):
                placed.append(new)
        self.devices[at] = (spec["uuid"], {(i.profile.name, i.start) for i in placed})
        slices = [self._slice(metadata["name"], i, wanted) for i in placed]
        settled = {(s["profile"], s["start"]) for s in slices} == wanted
        status = {
            "observedGeneration": metadata["generation"],
            "slices": sorted(slices, key=lambda s: s["start"]),
            "agentVersion": "1",
            "health": "Healthy",
            "conditions": [
                _condition("Accepted", True, "Accepted"),
                _condition("Ready", settled, "Reconciled" if settled else "SliceInUse"),
                _condition("Progressing", not settled, "Reconciled"),
                _condition("Degraded", False, "Healthy"),
            ],
        }
        if status != gpu.get("status"):
            gpu["status"] = status
            self._touch(gpu)

    def _run_kubelet(self, name: str) -> None:
        """Report in the node's status how many slices its agent offers; 0 for resources no longer
        offered.
        """
        offered = Counter(
            s["resource"]
            for gpu in self.objects.get("GPU", {}).values()
            if gpu["metadata"]["labels"][NODE_LABEL] == name
            for s in gpu.get("status", {}).get("slices", [])
            if s["state"] == "Active"
        )
        node = self.objects["Node"].get(name)
        if node is None:
            return
        figures = node.setdefault("status", {}).setdefault("allocatable", {})
        capacity = node["status"].setdefault("capacity", {})
        wanted = dict.fromkeys(figures, "0") | {r: str(n) for r, n in offered.items()}
        if wanted != figures:
            figures |= wanted
            capacity |= wanted
            self._touch(node)

    def _slice(
        self, gpu: str, instance: geometry.Instance, wanted: set[tuple[str, int]]
    ) -> Document:
        key = (instance.profile.name, instance.start)
        pods = [pod.partition("/") for pod in self.holders.get((gpu, *key), [])]
        return {
            "uuid": f"MIG-{gpu}-{instance}",
            "profile": key[0],
            "start": key[1],
            "state": "Active" if key in wanted else "Withdrawing",
            "resource": f"gpu.tessera.dev/{instance.profile.resource_name}",
            "memoryBytes": instance.profile.memory_bytes,
            "multiprocessors": instance.profile.sm_count,
            "holders": [{"namespace": n, "name": p, "uid": f"uid-{p}"} for n, _, p in pods],
        }


def _condition(kind: str, value: bool, reason: str) -> Document:
    return {
        "type": kind,
        "status": "True" if value else "False",
        "reason": reason,
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "observedGeneration": 0,
    }


def _merge(target: Document, wanted: Document) -> None:
    for key, value in wanted.items():
        if key == "finalizers":  # a set: entries of other owners stay
            present = target.setdefault(key, [])
            present += [item for item in value if item not in present]
        elif isinstance(value, dict):
            _merge(target.setdefault(key, {}), value)
        else:
            target[key] = value


def _give_up(target: Document, owned: Document, wanted: Document) -> None:
    """Remove the fields that a manager applied before and no longer applies."""
    for key, value in owned.items():
        if key not in wanted:
            target.pop(key, None)
        elif isinstance(value, dict) and isinstance(wanted[key], dict):
            _give_up(target.get(key, {}), value, wanted[key])
