"""The model: the last observed state of every object, and what has changed since a version.

GPUs, nodes, pools, layouts and faults are in the operator's own store, so that every decision that
a page shows is made from the same ``World`` as the operator's.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from console.model.departures import SLICE, Departures
from console.model.event_log import EventLog, EventRecord
from console.model.fabric import KINDS as FABRIC_KINDS, Fabric
from console.model.parts import OPERATOR, PART, PartPod
from console.model.pods import PodRecord, Taint, read_taints
from gpu_operator.api.v1alpha1.resource import Broken, Gpu
from gpu_operator.controllers.claims.reading import Claim
from gpu_operator.controllers.claims.selectors import Facts
from gpu_operator.controllers.common.world import World
from gpu_operator.engine.store import Store

STORED: Final = ("GPUPool", "GPU", "MIGLayout", "GPUPolicy", "GPUFault", "Node")
HOLDER: Final = "Holder"  # the kind of changes of pods that only have devices: there are many
_REMEMBERED: Final = 4096  # changes of which viewers can still learn the details


@dataclass(frozen=True, slots=True)
class Changes:
    """What has changed between two versions of the model.

    ``complete`` is false if the details are no longer known: a viewer must then load the page.
    """

    version: int
    kinds: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    complete: bool = True


@dataclass(frozen=True, slots=True)
class _Change:
    version: int
    kind: str
    node: str


Missing = Mapping[str, str]
"""Kinds of objects that are not known, each with the API server's message, if there is one."""


@dataclass(slots=True)
class Connection:
    """The state of the watches: kinds that are followed, and problems by kind.

    ``known`` are the kinds that were listed completely at least once. ``namespace``
    restricts kinds that have namespaces; empty if it does not. ``limited`` are kinds that the user
    may list in one namespace only.
    """

    listed: set[str] = field(default_factory=set)
    known: set[str] = field(default_factory=set)
    problems: dict[str, str] = field(default_factory=dict)
    expected: int = 0
    namespace: str = ""
    limited: set[str] = field(default_factory=set)

    @property
    def is_complete(self) -> bool:
        """Return whether every kind was listed, or cannot be."""
        return len(self.listed | self.problems.keys()) >= self.expected

    @property
    def is_live(self) -> bool:
        """Return whether changes of every kind that can be read are being reported."""
        return self.is_complete and not self.problems.keys() & self.known

    def missing(self, kinds: Iterable[str]) -> Missing:
        """Return those of some kinds that were never listed completely."""
        return {kind: self.problems.get(kind, "") for kind in kinds if kind not in self.known}


class ClusterModel:
    """Holds the observed objects. Owned by one event loop."""

    def __init__(self) -> None:
        self._store = Store()
        self._log: deque[_Change] = deque(maxlen=_REMEMBERED)
        self._changed = asyncio.Event()
        self.version = 0
        self.pods: dict[str, PodRecord] = {}
        self.claims: dict[str, Claim] = {}
        self.classes: dict[str, Facts] = {}
        self.events = EventLog()
        self.fabric = Fabric()
        self.connection = Connection()
        self.departures = Departures()
        self.parts: dict[str, PartPod] = {}
        self.operator_spaces: set[str] = set()  # namespaces in which the operator had a pod
        self._taints: dict[str, Sequence[Taint]] = {}
        self._taints_copy: Mapping[str, Sequence[Taint]] | None = None

    def world(self) -> World:
        """Return the operator's view of the cluster; the same object until something changes."""
        return self._store.world()

    def taints(self) -> Mapping[str, Sequence[Taint]]:
        """Return the taints by node, which keep pods off; the same object until one changes."""
        if self._taints_copy is None:
            self._taints_copy = dict(self._taints)
        return self._taints_copy

    def apply(self, kind: str, key: str, value: Any) -> None:
        """Record the state of an object as a reflector reports it; None if the object is gone."""
        node = ""
        if kind in STORED:
            node = self._node_of(kind, key, value)
            earlier_state = self._store.value(kind, key)
            if value is None:
                changed = self._store.remove(kind, key)
            else:
                changed = self._store.put(kind, value)
            self._store.take_changes()  # the operator's controllers need them, and no page
            if changed:
                self._note_departures(kind, key, earlier_state)
            if kind == "Node":
                changed |= self._put_taints(key, read_taints(value) if value is not None else ())
        elif kind == "Pod":
            kind, changed = self._apply_pod(key, value)
        else:
            changed = self._apply_other(kind, key, value)
        if changed:
            self.note(kind, node)

    def note(self, kind: str, node: str = "") -> None:
        """Record a change, and wake the viewers."""
        self.version += 1
        self._log.append(_Change(self.version, kind, node))
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def changes_since(self, version: int) -> Changes:
        """Return what has changed after a version of the model.

        A version that the model has not reached is from a console that has ended.
        """
        if version > self.version:
            return Changes(self.version, complete=False)
        if version == self.version:
            return Changes(self.version)
        oldest = self._log[0].version if self._log else self.version + 1
        if version < oldest - 1:
            return Changes(self.version, complete=False)
        later = [change for change in reversed(self._log) if change.version > version]
        kinds = frozenset(change.kind for change in later)
        nodes = frozenset(change.node for change in later if change.node)
        return Changes(self.version, kinds, nodes)

    async def wait(self, version: int, timeout_s: float) -> bool:
        """Wait until the model has another version; return whether it has."""
        if self.version != version:
            return True
        changed = self._changed
        try:
            async with asyncio.timeout(timeout_s):
                await changed.wait()
        except TimeoutError:
            return False
        return True

    def _node_of(self, kind: str, key: str, value: Mapping[str, Any] | None) -> str:
        """Return the node whose picture changes with this object; empty if none is known."""
        if kind == "Node":
            return key
        if kind != "GPU":
            return ""
        if value is not None:
            return str((value.get("spec") or {}).get("nodeName") or "")
        stored_gpu = self._store.value(kind, key)
        return (
            ""
            if stored_gpu is None or isinstance(stored_gpu, Broken)
            else str(stored_gpu.spec.node_name)
        )

    def _note_departures(self, kind: str, key: str, earlier_state: Any) -> None:
        """Record that an object is gone or exists, and which slices of a GPU are gone."""
        stored_state = self._store.value(kind, key)
        if stored_state is None:
            self.departures.note(kind, (key,))
        else:
            self.departures.forget(kind, key)
        if kind == "GPU":
            earlier_slices, present_slices = _slices_of(earlier_state), _slices_of(stored_state)
            self.departures.note(SLICE, earlier_slices - present_slices)
            for uuid in present_slices - earlier_slices:
                self.departures.forget(SLICE, uuid)

    def _put_taints(self, node: str, taints: Sequence[Taint]) -> bool:
        """Store a node's taints, of which the operator's store has the keys of one effect only."""
        if self._taints.get(node, ()) == taints:
            return False
        self._taints[node] = taints
        self._taints_copy = None
        return True

    def _apply_other(self, kind: str, key: str, value: Any) -> bool:
        if kind in FABRIC_KINDS:
            self.fabric.put(kind, key, value)
            return True
        if kind == "Event":
            return self._apply_event(key, value)
        named: dict[str, dict[str, Any]] = {
            "ResourceClaim": self.claims,
            "DeviceClass": self.classes,
        }
        objects = named[kind]
        earlier_object = objects.get(key)
        if value is None:
            objects.pop(key, None)
        else:
            objects[key] = value
        return bool(earlier_object != value)

    def _apply_pod(self, key: str, value: PodRecord | PartPod | None) -> tuple[str, bool]:
        """Store a pod; return the kind of change, and whether the pod has changed."""
        if isinstance(value, PartPod) or key in self.parts:
            self._put_part(key, value if isinstance(value, PartPod) else None)
            return PART, True
        self.fabric.put_pod(key, value.facts if value is not None else None)
        earlier_record = self.pods.pop(key, None)
        if value is not None:
            self.pods[value.key] = value  # the record's own text, so that there is one
            self.departures.forget("Pod", key)
        elif earlier_record is not None:
            self.departures.note("Pod", (key,))
        is_plain = all(record is None or record.is_plain for record in (earlier_record, value))
        return (HOLDER if is_plain else "Pod"), earlier_record != value

    def _put_part(self, key: str, part: PartPod | None) -> None:
        """Store a pod of Tessera itself, or remove it."""
        earlier_part = self.parts.pop(key, None)
        if part is not None:
            self.parts[key] = part
        for changed_part in (earlier_part, part):
            if changed_part is not None and changed_part.component == OPERATOR:
                space = changed_part.namespace
                self.operator_spaces.add(space)
                remaining_parts = self.parts.values()
                if any((o.component, o.namespace) == (OPERATOR, space) for o in remaining_parts):
                    self.departures.forget(PART, space)
                else:
                    self.departures.note(PART, (space,))

    def _apply_event(self, key: str, value: EventRecord | None) -> bool:
        if value is None:
            self.events.remove(key)
        else:
            self.events.put(key, value)
        return True


def _slices_of(gpu: Gpu | Broken | None) -> frozenset[str]:
    """Return the UUIDs of a GPU's slices; none of a GPU that is not known or cannot be read."""
    if gpu is None or isinstance(gpu, Broken):
        return frozenset()
    claimed = {claim.uuid for claim in gpu.status.claims}
    return frozenset({gpu_slice.uuid for gpu_slice in gpu.status.slices} | claimed)
