"""Changes to the cluster, as values: controllers return them, and a ``Kube`` performs them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Manager(StrEnum):
    """Field managers for server-side apply, one for each separately written part of an object."""

    LABELS = "tessera-labels"  # on nodes
    RESOURCES = "tessera-resources"  # on nodes: the prefixes with which slices were offered
    CHILDREN = "tessera-children"  # DaemonSets and GPUs
    LAYOUT = "tessera-layout"  # spec.instances of GPUs
    FAULTS = "tessera-faults"  # spec.faults of GPUs
    STATUS = "tessera-status"  # of pools, layouts and policies
    POLICY = "tessera-chart"  # the policy that the chart defines
    FINALIZER = "tessera-finalizer"  # of pools
    TABLES = "tessera-rdma"  # RDMANodeTables
    CONDITIONS = "tessera-conditions"  # on nodes: GPUReady
    MIG_CONFIG = "tessera-mig-manager"  # layouts for nodes' labels, and the state of those nodes


@dataclass(frozen=True, slots=True)
class Apply:
    """Write an object by server-side apply.

    If ``metadata`` has a UID, only the object with that UID is written. If there is no such
    object, the action fails with a conflict instead of creating one.
    """

    manager: Manager
    document: Mapping[str, Any]
    status: bool = False

    @property
    def what(self) -> str:
        return f"{self.document['kind']} {self.document['metadata']['name']}"


@dataclass(frozen=True, slots=True)
class DropFinalizer:
    """Remove Tessera's finalizer from an object, whichever manager set it.

    Server-side apply would leave the finalizer if another manager owns it too, as in an object
    that was restored from a backup. ``index`` is the finalizer's position in the list; if the
    position has changed, there is a conflict.
    """

    kind: str
    name: str
    uid: str
    index: int

    @property
    def what(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object; a missing object is not an error."""

    kind: str
    name: str
    namespace: str | None = None

    @property
    def what(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Evict:
    """Evict a pod through the Eviction API, which honours PodDisruptionBudgets.

    A pod that has ended is left alone: it holds no slice, and its logs would be lost.
    """

    namespace: str
    name: str
    uid: str

    @property
    def what(self) -> str:
        return f"Pod {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Annotate:
    """Set an annotation of a pod. If the pod is gone or was replaced, nothing happens."""

    namespace: str
    name: str
    uid: str
    key: str
    value: str

    @property
    def what(self) -> str:
        return f"Pod {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class PatchNode:
    """Apply a JSON patch to a node or its status.

    If a ``test`` operation in the patch fails, the action fails with a conflict.
    """

    name: str
    operations: tuple[Mapping[str, Any], ...]
    status: bool = False

    @property
    def what(self) -> str:
        return f"Node {self.name}"


@dataclass(frozen=True, slots=True)
class SetTaints:
    """Add taints (key, value) with effect NoSchedule to a node, and remove others by their keys.

    A node's taints are one list, whose elements have no owners. So the list is read, changed and
    written as a whole; a concurrent write to the node is a conflict. ``noted`` are the keys of
    the taints that the operator owns afterwards; an annotation records them.
    """

    name: str
    uid: str
    add: tuple[tuple[str, str], ...]
    remove: tuple[str, ...]
    noted: tuple[str, ...]

    @property
    def what(self) -> str:
        return f"Node {self.name}"


@dataclass(frozen=True, slots=True)
class Record:
    """Write an event on an object. An event with ``warning`` set may require a person to act.

    ``namespace`` is the namespace of the object, or "default" for a cluster-scoped object. If
    ``latest`` is set, the object keeps only one event with this reason, and a new message
    replaces the old one.
    """

    kind: str
    name: str
    uid: str
    reason: str
    message: str
    warning: bool = False
    namespace: str = "default"
    latest: bool = False

    @property
    def what(self) -> str:
        return f"event {self.reason} on {self.kind} {self.name}"


Action = Apply | DropFinalizer | Delete | Evict | Annotate | PatchNode | SetTaints | Record
