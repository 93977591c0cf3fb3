"""The last observed state of every object; each decision gets it as a ``World``.

Watches, the responses to the operator's own writes and a periodic list all update it, so older
states must be ignored. resourceVersions of a kind only increase, even from an object to its
successor with the same name. Only a list that was requested later is trusted whatever its
versions are: the API server's database may have been restored from a backup.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from gpu_operator import kinds
from gpu_operator.api import mig_parted
from gpu_operator.api.v1alpha1 import GROUP, POOL_LABEL
from gpu_operator.api.v1alpha1.resource import Broken, Resource, parse
from gpu_operator.controllers.common.world import (
    AgentPod,
    AgentSet,
    ChartPolicy,
    GpuReady,
    Node,
    World,
)
from gpu_operator.render import gpud, hca
from gpu_operator.render.daemonset import COMPONENT_LABEL, RENDERED
from gpu_operator.render.node import GPU_READY

Document = Mapping[str, Any]

_REMEMBERED_GONE = 4096
_TO_READ: Final = object()
_AT_A_TIME = 50  # objects of a list that are processed before other tasks run


class _Identity(NamedTuple):
    """What identifies an object's state, in a fraction of a document's memory; all other fields
    are in the object's value.
    """

    uid: str | None
    version: str | None
    generation: int | None

    def document(self, name: str) -> Document:
        """Return the fields that are known, as in the object's document."""
        known_fields = {
            "uid": self.uid,
            "resourceVersion": self.version,
            "generation": self.generation,
        }
        return {
            "metadata": {"name": name} | {k: v for k, v in known_fields.items() if v is not None}
        }


class Store:
    """Stores the last observed state of each object. Owned by one event loop."""

    def __init__(
        self,
        chart_policy: ChartPolicy | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._chart_policy = chart_policy
        self._clock = clock
        watched = [kind.name for kind in kinds.watched_kinds()]
        self._documents: dict[str, dict[str, _Identity]] = {kind: {} for kind in watched}
        self._values: dict[str, dict[str, Any]] = {kind: {} for kind in watched}
        self._broken: dict[tuple[str, str], Broken] = {}
        self._copies: dict[str, Mapping[str, Any]] = {}  # for worlds; only of unchanged kinds
        self._changes: set[tuple[str, str]] = set()
        self._touched: dict[tuple[str, str], float] = {}
        self._gone: dict[
            str, None
        ] = {}  # UIDs, oldest first: a response may arrive after the watch's event
        self._zero_since: dict[tuple[str, str], float] = {}
        # Resources that were removed while 0, and not offered since. Includes resources that were 0
        # when their node was first observed: they may have been removed before.
        self._removed: set[tuple[str, str]] = set()
        self._refused_evictions: dict[str, str] = {}
        self._refused_writes: dict[tuple[str, str], str] = {}
        self._world: World | None = None

    def put(
        self,
        kind: str,
        document: Document,
        *,
        trusted: bool = False,
        value: Any = _TO_READ,
    ) -> bool:
        """Store the observed state of an object; return whether its relevant content changed.

        Unless ``trusted`` is set, the state is ignored if it is older than the stored one, or if
        the object was removed. ``value`` is what ``read`` returned for the document, if that was
        called in a thread.
        """
        name = document["metadata"]["name"]
        stored_identity = self._documents[kind].get(name)
        gone = document["metadata"].get("uid") in self._gone
        if not trusted and (
            gone or (stored_identity is not None and _is_older(document, stored_identity))
        ):
            return False
        if stored_identity is not None and _is_same(document, stored_identity):
            self._touched[kind, name] = self._clock()
            return False
        self._documents[kind][name] = _identify(document)
        self._touched[kind, name] = self._clock()
        if value is _TO_READ:
            value = read(kind, document)
        old_value = self._values[kind].get(name)
        changed = bool(old_value != value)
        self._values[kind][name] = value
        if changed:
            self._note_change(kind, name, old_value, value)
        if isinstance(value, Node):
            self._note_zeros(value, first=stored_identity is None)
        return changed

    def remove(self, kind: str, name: str, uid: str = "") -> bool:
        """Remove the object with this name. With a UID, a newer object of that name is kept."""
        stored_identity = self._documents[kind].get(name)
        if stored_identity is None or (uid and stored_identity.uid != uid):
            return False
        self._gone[stored_identity.uid or ""] = None
        if len(self._gone) > _REMEMBERED_GONE:
            del self._gone[next(iter(self._gone))]
        del self._documents[kind][name]
        self._note_change(kind, name, self._values[kind].pop(name), None)
        self._touched[kind, name] = self._clock()
        if kind == "Node":
            self._forget_zeros(name)
        return True

    def take_changes(self) -> set[tuple[str, str]]:
        """Return the kinds and names of the objects that have changed since the last call.

        If a pod of a node agent or of gpud has changed, the result instead has the kind
        ``Agent`` and the name of the pod's node.
        """
        changes, self._changes = self._changes, set()
        return changes

    def replace(self, kind: str, documents: list[Any], as_of: float) -> bool:
        """Replace all objects of a kind by those in ``documents``; return whether anything changed.

        ``documents`` is a complete list that was requested at ``as_of``. An object that is not
        in the list is removed. An object that was observed after ``as_of`` is not removed, and
        is not replaced by an older state.
        """
        return any([*self.replace_in_steps(kind, documents, as_of)])

    def replace_in_steps(self, kind: str, documents: list[Any], as_of: float) -> Iterator[bool]:
        """Replace a kind's objects as ``replace`` does, in steps.

        Each step yields whether it changed an object.
        """
        listed = {document["metadata"]["name"]: document for document in documents}
        stored_identities = self._documents[kind]

        def changed_since(name: str) -> bool:
            return self._touched.get((kind, name), float("-inf")) >= as_of

        names = list(listed)
        for first in range(0, len(names), _AT_A_TIME):
            batch = names[first : first + _AT_A_TIME]
            changed = [self.put(kind, listed[n], trusted=not changed_since(n)) for n in batch]
            yield any(changed)
        gone = [
            name for name in stored_identities if name not in listed and not changed_since(name)
        ]
        changed = [self.remove(kind, name) for name in gone]
        yield any(changed)
        for _, name in [
            (k, n) for k, n in self._touched if k == kind and n not in stored_identities
        ]:
            if not changed_since(name):
                del self._touched[kind, name]

    def value(self, kind: str, name: str) -> Any:
        """Return an object as last observed and parsed; None if it is not known."""
        return self._values[kind].get(name)

    def document(self, kind: str, name: str) -> Document | None:
        """Return name, UID, version and generation of an object as last observed."""
        stored_identity = self._documents[kind].get(name)
        return None if stored_identity is None else stored_identity.document(name)

    def note_eviction(self, pod_uid: str, refusal: str) -> None:
        """Record why a pod could not be evicted; an empty ``refusal`` removes the record."""
        if refusal:
            self._refused_evictions[pod_uid] = refusal
        else:
            self._refused_evictions.pop(pod_uid, None)
        self._world = None

    def note_refusal(self, kind: str, name: str, refusal: str) -> bool:
        """Record why the API server refuses a write; return whether the record changed."""
        old_refusal = self._refused_writes.pop((kind, name), "")
        if refusal:
            self._refused_writes[kind, name] = refusal
        if old_refusal != refusal:
            self._world = None
        return old_refusal != refusal

    def world(self) -> World:
        """Return a snapshot of all objects; it is the same object until something changes."""
        if self._world is None:
            self._world = self._snapshot()
        return self._world

    def _snapshot(self) -> World:
        for kind in kinds.watched_kinds():
            if kind.name not in self._copies:
                self._copies[kind.name] = self._copy(kind.name)
        collections: dict[str, Any] = {
            kind.collection: self._copies[kind.name]
            for kind in kinds.watched_kinds()
            if kind.collection
        }
        return World(
            **collections,
            broken=dict(self._broken),
            **self._copies["Pod"],
            refused_evictions=dict(self._refused_evictions),
            refused_writes=dict(self._refused_writes),
            chart_policy=self._chart_policy,
            zero_since=dict(self._zero_since),
            put_back=frozenset(self._removed & self._zero_since.keys()),
        )

    def _copy(self, kind: str) -> Mapping[str, Any]:
        """Return a kind's valid objects by name; for pods, the maps of the world."""
        values = self._values[kind]
        if kind == "Pod":
            return _pods(pod for pod in values.values() if pod is not None)
        broken = [name for of, name in self._broken if of == kind]
        copy = dict(values)
        for name in broken:
            del copy[name]
        return copy

    def _note_change(self, kind: str, name: str, old_value: Any, new_value: Any) -> None:
        self._world = None
        self._copies.pop(kind, None)
        self._broken.pop((kind, name), None)
        if isinstance(new_value, Broken):
            self._broken[kind, name] = new_value
        if kind == "Pod":
            pods = (pod for pod in (old_value, new_value) if pod is not None)
            self._changes |= {("Agent", pod.node) for pod in pods}
        else:
            self._changes.add((kind, name))

    def _note_zeros(self, node: Node, *, first: bool) -> None:
        """Record since when resources are 0; for a newly observed node this is unknown."""
        listed = {(node.name, r): count for r, count in node.capacity.items() if "/" in r}
        zeros = {key for key, count in listed.items() if count == "0"}
        for key in [k for k in self._zero_since if k[0] == node.name and k not in zeros]:
            del self._zero_since[key]
            self._removed.add(key)
        self._removed -= listed.keys() - zeros
        for key in zeros:
            self._zero_since.setdefault(key, self._clock())
        if first:
            self._removed |= zeros

    def _forget_zeros(self, node: str) -> None:
        self._zero_since = {k: since for k, since in self._zero_since.items() if k[0] != node}
        self._removed = {k for k in self._removed if k[0] != node}


def _identify(document: Document) -> _Identity:
    metadata = document["metadata"]
    return _Identity(*(metadata.get(key) for key in ("uid", "resourceVersion", "generation")))


def _is_older(document: Document, stored_identity: _Identity) -> bool:
    versions = [document["metadata"].get("resourceVersion") or "", stored_identity.version or ""]
    return all(v.isdecimal() for v in versions) and int(versions[0]) < int(versions[1])


def _is_same(document: Document, stored_identity: _Identity) -> bool:
    """Return whether both documents are the same state of one object; False if that is unknown."""
    metadata = document["metadata"]
    version = metadata.get("resourceVersion")
    return bool(version) and (version, metadata.get("uid")) == (
        stored_identity.version,
        stored_identity.uid,
    )


def read(kind: str, document: Document) -> Any:
    """Return an object's value for ``Store.put``. Callable on any thread."""
    models = kinds.find_kind(kind).models
    if models is None:
        return _READERS[kind](document)
    parsed: Resource[Any, Any] | Broken = parse(
        {**document, "kind": kind}, models.spec, models.status
    )
    return parsed


def _node(document: Document) -> Node:
    status = document.get("status") or {}
    ready = [c for c in status.get("conditions") or () if c["type"] == "Ready"]
    annotations = document["metadata"].get("annotations") or {}
    return Node(
        name=document["metadata"]["name"],
        uid=document["metadata"]["uid"],
        labels=dict(document["metadata"].get("labels") or {}),
        annotations={k: v for k, v in annotations.items() if k.startswith(f"{GROUP}/")},
        capacity={k: v for k, v in (status.get("capacity") or {}).items() if "/" in k},
        allocatable={k: v for k, v in (status.get("allocatable") or {}).items() if "/" in k},
        ready=not ready or ready[0]["status"] == "True",
        taints=_taints(document),
        gpu_ready=_gpu_ready(status),
    )


def _taints(document: Document) -> frozenset[str]:
    taints = (document.get("spec") or {}).get("taints") or ()
    return frozenset(t["key"] for t in taints if t.get("effect") == "NoSchedule")


def _gpu_ready(status: Document) -> GpuReady | None:
    for condition in status.get("conditions") or ():
        if condition["type"] == GPU_READY:
            texts = (
                condition.get(part) or "" for part in ("reason", "message", "lastTransitionTime")
            )
            return GpuReady(condition["status"], *texts)
    return None


def _agent_set(document: Document) -> AgentSet:
    metadata, status = document["metadata"], document.get("status") or {}
    return AgentSet(
        pool=_pool(document),
        rendered=(metadata.get("annotations") or {}).get(RENDERED, ""),
        observed=(status.get("observedGeneration") or 0) >= (metadata.get("generation") or 0),
        pods=status.get("desiredNumberScheduled") or 0,
        updated=status.get("updatedNumberScheduled") or 0,
    )


def _agent(document: Document) -> AgentPod | None:
    pool, spec = _pool(document), document.get("spec") or {}
    node = spec.get("nodeName") or _meant_for(spec)
    metadata = document["metadata"]
    if not pool or not node or metadata.get("deletionTimestamp"):
        return None
    component = (metadata.get("labels") or {}).get(COMPONENT_LABEL)
    if component == hca.COMPONENT:
        return None  # in addition to the agent: a node may have two for a moment
    problem, failing = _pod_problem(document.get("status") or {})
    rendered = (metadata.get("annotations") or {}).get(RENDERED, "")
    is_gpud = component == gpud.COMPONENT
    names = {container.get("name") for container in spec.get("containers") or ()}
    has_gpud = not is_gpud and gpud.COMPONENT in names
    return AgentPod(metadata["name"], node, pool, problem, failing, rendered, is_gpud, has_gpud)


def _pods(pods: Iterable[AgentPod]) -> Mapping[str, Any]:
    """Return the world's maps of pods, both by node."""
    agents: dict[str, AgentPod] = {}
    gpuds: dict[str, list[AgentPod]] = {}
    for pod in pods:
        if pod.is_gpud or pod.has_gpud:
            gpuds.setdefault(pod.node, []).append(pod)
        if not pod.is_gpud:
            agents[pod.node] = pod
    return {"agents": agents, "gpuds": gpuds}


def _pool(document: Document) -> str:
    return str((document["metadata"].get("labels") or {}).get(POOL_LABEL, ""))


def _meant_for(spec: Document) -> str:
    """Return the node for which a DaemonSet's pod is meant, before the pod is scheduled."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for rule in term.get("matchFields") or ():
            if rule.get("key") == "metadata.name" and rule.get("values"):
                return str(rule["values"][0])
    return ""


_STARTING = ("", "ContainerCreating", "PodInitializing")


def _pod_problem(status: Document) -> tuple[str, bool]:
    """Return why a pod is not ready, and whether the reason is not only its normal start."""
    first = status.get("initContainerStatuses") or ()
    for container in (*first, *(status.get("containerStatuses") or ())):
        if container.get("ready"):
            continue
        waiting = (container.get("state") or {}).get("waiting") or {}
        ended = (container.get("lastState") or {}).get("terminated") or {}
        reason = waiting.get("reason") or ended.get("reason") or ""
        return f"container {container['name']}: {reason or 'starting'}", reason not in _STARTING
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return f"not scheduled: {condition.get('message') or condition.get('reason')}", True
    phase = status.get("phase", "Pending")
    if phase != "Running":
        return str(status.get("message") or status.get("reason") or phase), phase == "Failed"
    return "", False


_READERS: Mapping[str, Callable[[Document], Any]] = {
    "Node": _node,
    "DaemonSet": _agent_set,
    "Pod": _agent,
    "ConfigMap": mig_parted.read_config_map,
}
